"""Schemathesis reads /openapi.json of a real server and sends what it makes of it: good requests and bad ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.schemas import OpenApiSchema

from tests.e2e.process import Server
from tests.http.openai.documents import described

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
OPERATIONS = [
    (path, method, mode)
    for path, methods in described()["paths"].items()
    for method, operation in methods.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or "requestBody" in operation
]
EXAMPLES = 20


@pytest.fixture(scope="module")
def schema(fake: Server) -> OpenApiSchema:
    loaded = schemathesis.openapi.from_url(f"{fake.base}/openapi.json")
    loaded.validate()
    return loaded


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False  # a proxy has no business here
        yield session


@pytest.mark.spec("API-265")
@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_the_server_keeps_to_its_document(
    schema: OpenApiSchema, session: requests.Session, path: str, method: str, mode: GenerationMode
) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    def send(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(session=session, checks=CHECKS)

    send()
