"""Sampling under a plan (SMP-001 to SMP-008): a regenerate, a turn that ends in a repeat, the card for tool turns.

That a client's n-gram rule is dropped (SMP-009) needs no more than the turn's class: router/effects.py.
"""

from tandem.conductor.sampling.counts import SamplingCounts
from tandem.conductor.sampling.decision import GREEDY, SamplingDecision, SamplingFacts, decide_sampling
from tandem.conductor.sampling.loop_escape import Repeat, repeat_at_end
from tandem.conductor.sampling.regenerate import Asked, regenerate
from tandem.conductor.sampling.rules import SHIPPED, Draw, SamplingKit, sampling_kit

__all__ = [
    "GREEDY",
    "SHIPPED",
    "Asked",
    "Draw",
    "Repeat",
    "SamplingCounts",
    "SamplingDecision",
    "SamplingFacts",
    "SamplingKit",
    "decide_sampling",
    "regenerate",
    "repeat_at_end",
    "sampling_kit",
]
