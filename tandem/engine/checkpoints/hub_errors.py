"""What the hub, the network and the disk can answer, each as one line that says what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tandem.engine.checkpoints.pulled import ModelName
from tandem.engine.errors import CheckpointError

__all__ = ["one_line"]

_SUGGESTIONS = 3


@contextmanager
def one_line(name: ModelName, revision: str | None, api: HfApi) -> Iterator[None]:
    """Turn the errors of huggingface_hub, httpx2 and the disk into `CheckpointError`."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise CheckpointError(" ".join(_message(error, name, revision, api).split())) from error


def _message(error: Exception, name: ModelName, revision: str | None, api: HfApi) -> str:
    again = f"tandem pull {name}{f' --revision {revision}' if revision else ''} continues it"
    match error:
        case OfflineModeIsEnabled():
            return f"{name} cannot be fetched while HF_HUB_OFFLINE is set; unset it, and {again}"
        case GatedRepoError():
            page = f"{api.endpoint}/{name.repo}"
            return f"{name} is gated: accept its terms at {page} and set HF_TOKEN to a token of the account that did"
        case DisabledRepoError():
            return f"{name} is disabled at {api.endpoint}"
        case RevisionNotFoundError():
            return f"{name.repo} has no revision {revision}; --revision takes a branch, a tag or a commit"
        case RepositoryNotFoundError():
            return (
                f"{name.repo} is not found at {api.endpoint}; {_did_you_mean(name, api)} "
                "private one needs HF_TOKEN with a token that may read it"
            )
        case HfHubHTTPError(response=response) if response.status_code == 401:
            return f"{api.endpoint} does not accept the token; set HF_TOKEN to a valid one, or unset it"
        case HfHubHTTPError(response=response) if response.status_code == 403:
            return f"{api.endpoint} refuses {name} to this account; set HF_TOKEN to a token that may read it"
        case HfHubHTTPError(response=response):
            return f"{api.endpoint} answered {response.status_code} for {name}; when that is over, {again}"
        case httpx2.HTTPError() | httpx2.InvalidURL():
            why = str(error) or type(error).__name__
            return f"{api.endpoint} cannot be reached ({why}); with a network, {again}"
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return f"the disk is full; what came of {name} is kept: make room, and {again}"
        case _:
            return f"{name} could not be put on the disk: {error}"


def _did_you_mean(name: ModelName, api: HfApi) -> str:
    """Models of a like name; nothing where the search fails too."""
    try:
        found = [each.id for each in api.list_models(search=name.repo.split("/")[1], limit=_SUGGESTIONS)]
    except (httpx2.HTTPError, OSError, ValueError, KeyError):
        found = []
    return f"did you mean {' or '.join(found)}? A" if found else "names are ORG/NAME, as on the model's page; a"
