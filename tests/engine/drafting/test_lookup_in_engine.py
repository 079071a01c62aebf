"""An engine that drafts by lookup writes what it writes without, a copy in few rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tandem.engine.decoding.work import Round, perform
from tandem.engine.drafting.combined import Combined
from tandem.engine.drafting.drafter import Drafter
from tandem.engine.drafting.lookup import LookupDrafter
from tandem.engine.verbs import Accepted, SamplingRules
from tests.engine.decoding.engines import GREEDY, KIND, KINDS, ids_of, read, tiny_engine
from tests.engine.models.memory import VOCAB

DRAWN = SamplingRules(temperature=0.4, seed=3)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    token = KIND.set(request.param)
    yield request.param
    KIND.reset(token)


def write(drafter: Drafter | None, prompt: list[int], count: int, rules: SamplingRules) -> tuple[list[int], int]:
    """`count` ids of a random model, and how many rounds they took."""
    engine = tiny_engine(drafter=drafter, max_len=512)
    seq = read(engine, prompt)
    out: list[int] = []
    while len(out) < count:
        accepted = perform(engine, seq, Round(count - len(out)), rules)
        assert isinstance(accepted, Accepted)
        out.extend(accepted.ids)
        if rules.mask is not None:
            rules.mask.commit(accepted.ids)
    engine.close(seq)
    assert engine.state()["draft_faults"] == 0
    return out, engine.state()["rounds"]


@pytest.mark.spec("ENG-049", "ENG-065")
@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("rules", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_no_text_changes(rules: SamplingRules) -> None:
    prompt = ids_of(20) * 4
    text, _ = write(None, prompt, 100, rules)
    for drafter in (LookupDrafter(), Combined([LookupDrafter()])):
        for _ in range(2):  # the second time with what it has learned
            assert write(drafter, prompt, 100, rules)[0] == text


class Copy:
    """A mask that lets nothing but one text through."""

    def __init__(self, text: Sequence[int]) -> None:
        self._text, self._done = text, 0

    def allows(self, path: Sequence[int], token: int) -> bool:
        return self._text[self._done + len(path)] == token

    def bits(self, path: Sequence[int], best: int) -> bytes:
        token = self._text[self._done + len(path)]
        return (1 << token).to_bytes(VOCAB // 8 + 1, "little")

    def commit(self, ids: Sequence[int]) -> None:
        self._done += len(ids)

    def forced(self) -> tuple[int, ...]:
        return ()


@pytest.mark.spec("ENG-051", "ENG-064")
@pytest.mark.usefixtures("kind")
def test_a_copy_commits_more_than_eight_tokens_a_round() -> None:
    document = ids_of(200)
    text, rounds = write(LookupDrafter(), document, 200, SamplingRules(mask=Copy(document)))
    assert text == document
    assert 200 / rounds > 8
