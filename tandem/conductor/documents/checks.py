"""Checks beyond a document's schema: what it must be in itself, and what it and the others must agree on (CFG-004).

`check_itself` holds for whatever is served. `check_saved` adds what a save must fulfil; a stored document is read
without it, so that one from an older release is served on (CFG-010).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never, get_args

from tandem.conductor.documents.deciders import Deciders
from tandem.conductor.documents.documents import Body, DocumentKey, Documents, split_key
from tandem.conductor.documents.monitor import MonitorDocument
from tandem.conductor.documents.packages import Packages
from tandem.conductor.documents.parsing import DocumentError
from tandem.conductor.documents.profiles import LOCKED, Profile
from tandem.conductor.documents.residency import Residency
from tandem.conductor.documents.roles import Roles, contract, violation
from tandem.conductor.documents.router import Router, SideShape
from tandem.conductor.documents.settings import SettingsDocument
from tandem.conductor.monitor import rules as _rules  # noqa: F401  (registers them)
from tandem.conductor.monitor.policy import PolicyError, policy_of
from tandem.conductor.router.client_kind import ClientKind
from tandem.conductor.router.questions import LETTERS

__all__ = ["SHORTEST_MATCH", "check_itself", "check_names", "check_saved"]

CLIENT_KINDS: tuple[str, ...] = get_args(ClientKind)
SHORTEST_MATCH = 24
"""Characters of a side request's opening: less would take a person's words for one (SES-010)."""
MOST_CLASSES = len(LETTERS)
LITERAL_ADDRESS = re.compile(
    r"(?:https?://[^\s\"'`<>]{0,200}?"
    r"|(?<![\w.}/-])(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w-]+(?=:\d)|\[[0-9a-fA-F:]+\])(?::\d+)?(?:/s/[^\s/]{1,64})?)"
    r"/v1/(?:laya|library|memory)\b"
)
"""An address in a package's text; the server is named `{tandem_url}` (CFG-014)."""


def check_itself(key: DocumentKey, body: Body) -> None:
    """Raises `DocumentError` for a document that contradicts itself."""
    match body:
        case Profile():
            _check_profile(key, body)
        case Router():
            _check_router(body)
        case Packages():
            _check_packages(body)
        case dict():
            _check_policy(body)
        case Roles() | SettingsDocument() | Deciders() | Residency():
            pass
        case _:
            assert_never(body)


def check_saved(key: DocumentKey, body: Body, documents: Documents) -> None:
    """Raises `DocumentError` for a document that may not be stored beside `documents`."""
    check_itself(key, body)
    check_names(key, body, documents)
    _check_users(body, documents)
    match body:
        case Roles():
            for name, role in body.roles.items():
                broken = violation(contract(name, role))
                if broken is not None:
                    raise DocumentError(f"roles.{name}.{broken[0]}", broken[1])
        case Packages():
            _check_addresses(body)
        case _:
            pass


def check_names(key: DocumentKey, body: Body, documents: Documents) -> None:
    """Raises `DocumentError` where `body` names what the others lack."""
    match body:
        case Profile():
            _refuse_first(_strange_classes(body, documents.router))
            _refuse_first(_strange_profile_packages(body, documents.packages))
            _check_clients(split_key(key)[1], body, documents)
        case Router():
            _refuse_first(_strange_packages(body, documents.packages))
        case SettingsDocument():
            if body.default_profile not in documents.profiles:
                raise DocumentError("default_profile", f"there is no profile {body.default_profile}")
        case _:
            pass


def _check_users(body: Body, documents: Documents) -> None:
    """Raises `DocumentError` where others name what `body`, in its document's place, would lack."""
    match body:
        case Router():
            for name, profile in documents.profiles.items():
                _refuse_users("classes", f"profile {name}", _strange_classes(profile, body))
        case Packages():
            _refuse_users("packages", "the router document", _strange_packages(documents.router, body))
            for name, profile in documents.profiles.items():
                _refuse_users("packages", f"profile {name}", _strange_profile_packages(profile, body))
        case _:
            pass


def _check_policy(body: MonitorDocument) -> None:
    try:
        policy_of(body)
    except PolicyError as error:
        problem = error.problems[0]
        raise DocumentError(problem.path, problem.reason) from None


def _check_profile(key: DocumentKey, profile: Profile) -> None:
    name = split_key(key)[1]
    if profile.locked and name not in LOCKED:
        raise DocumentError("locked", f"only {' and '.join(LOCKED)} are locked")
    if name in LOCKED and profile.mode != "raw":
        raise DocumentError("mode", f"the mode of {name} is raw")
    for at, kind in enumerate(profile.clients):
        if kind not in CLIENT_KINDS:
            raise DocumentError(
                f"clients[{at}]", f"there is no client kind {kind}; there are {', '.join(CLIENT_KINDS)}"
            )


def _check_clients(name: str | None, profile: Profile, documents: Documents) -> None:
    for at, kind in enumerate(profile.clients):
        for other, there in documents.profiles.items():
            if other != name and kind in there.clients:
                raise DocumentError(f"clients[{at}]", f"profile {other} has the clients of kind {kind}")


def _check_router(router: Router) -> None:
    ids = [one.id for one in router.classes]
    _check_unique(ids, "classes", "id")
    for one in router.classes:
        if one.id not in router.policies:
            raise DocumentError(f"policies.{one.id}", "each class has a policy")
    if sum(not one.structural for one in router.classes) > MOST_CLASSES:
        raise DocumentError("classes", f"the class question can have {MOST_CLASSES} options")
    for class_id in router.policies:
        if class_id not in ids:
            raise DocumentError(f"policies.{class_id}", f"there is no class {class_id}")
    size = router.effort.size
    for name in size.__struct_fields__:
        low, high = getattr(size, name)
        if not 0 <= low < high:
            raise DocumentError(f"effort.size.{name}", "the second threshold is above the first")
    for at, shape in enumerate(router.structural.side_shapes or ()):
        _check_shape(f"structural.side_shapes[{at}]", shape)


def _check_shape(path: str, shape: SideShape) -> None:
    if shape.client not in CLIENT_KINDS:
        raise DocumentError(f"{path}.client", f"there is no client kind {shape.client}")
    texts = (shape.match,) if isinstance(shape.match, str) else shape.match
    if not texts or any(len(" ".join(text.split())) < SHORTEST_MATCH for text in texts):
        raise DocumentError(f"{path}.match", f"an opening has at least {SHORTEST_MATCH} characters")


def _check_packages(packages: Packages) -> None:
    names = [one.name for one in packages.packages]
    _check_unique(names, "packages", "name")
    for at, package in enumerate(packages.packages):
        path = f"packages[{at}]"
        if (package.text is None) == (package.source is None):
            raise DocumentError(f"{path}.text", "a package has either a text or a source")
        if package.fallback is not None and (package.fallback not in names or package.fallback == package.name):
            raise DocumentError(f"{path}.fallback", f"there is no other package {package.fallback}")


def _check_addresses(packages: Packages) -> None:
    for at, package in enumerate(packages.packages):
        found = LITERAL_ADDRESS.search(package.text or "")
        if found is not None:
            raise DocumentError(f"packages[{at}].text", f"the server is named {{tandem_url}}, not {found[0][:80]}")


def _check_unique(names: Sequence[str], path: str, field: str) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise DocumentError(f"{path}[{at}].{field}", f"{name} is there twice")


def _strange_classes(profile: Profile, router: Router) -> Iterator[tuple[str, str]]:
    """Path and name of each class that a profile names and the router lacks."""
    ids = {one.id for one in router.classes}
    default = profile.routing.default_class
    if default is not None and default not in ids and profile.mode != "raw":
        yield "routing.default_class", f"class {default}"
    yield from ((f"routing.classes.{one}", f"class {one}") for one in profile.routing.classes if one not in ids)


def _strange_packages(router: Router, packages: Packages) -> Iterator[tuple[str, str]]:
    for class_id, policy in router.policies.items():
        yield from _missing(f"policies.{class_id}.packages", policy.packages, packages)
        yield from _missing(f"policies.{class_id}.core", policy.core, packages)


def _strange_profile_packages(profile: Profile, packages: Packages) -> Iterator[tuple[str, str]]:
    for class_id, routing in profile.routing.classes.items():
        yield from _missing(f"routing.classes.{class_id}.packages", routing.packages or (), packages)
        yield from _missing(f"routing.classes.{class_id}.core", routing.core or (), packages)


def _missing(path: str, names: Sequence[str], packages: Packages) -> Iterator[tuple[str, str]]:
    there = {one.name for one in packages.packages}
    return ((f"{path}[{at}]", f"package {name}") for at, name in enumerate(names) if name not in there)


def _refuse_first(strange: Iterable[tuple[str, str]]) -> None:
    for path, what in strange:
        raise DocumentError(path, f"there is no {what}")


def _refuse_users(path: str, user: str, strange: Iterable[tuple[str, str]]) -> None:
    """The same where the name's user is another document, which stays as it is."""
    for where, what in strange:
        raise DocumentError(path, f"{user} names {what} at {where}")
