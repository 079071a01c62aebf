"""The scripted engine of the tests and of `tandem serve --fake`: the engine's verbs without a model or a thread."""

from tandem.engine.fake.engine import FakeEngine
from tandem.engine.fake.script import FIXED_SENTENCE, SIDE_ANSWER
from tandem.engine.fake.text import FakePrompt, FakeText

__all__ = ["FIXED_SENTENCE", "SIDE_ANSWER", "FakeEngine", "FakePrompt", "FakeText"]
