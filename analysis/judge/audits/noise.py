"""Is the difference one of the test sample, or of a few seeds?"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from analysis.judge.audits.audit import Ahead, Audit
from analysis.judge.compare import Comparison
from analysis.judge.noise import Noise, examples_for
from analysis.text import how_many, number, rounded_up, seed_list

MOST_SHARE = 0.5  # of the variance
LEFT_OUT = 2  # pairs that a decided difference should not hang on
FEWEST = 5  # pairs of which so many can be left out


def noisy_test(comparison: Comparison) -> Iterator[Audit]:
    """More than half of the spread is the test sample's size, which costs little to mend."""
    noise = comparison.effect.noise
    if noise is None or noise.share_of_examples is None or noise.share_of_examples <= MOST_SHARE:
        return
    yield Audit(
        "noisy_test",
        "note",
        f"{100 * noise.share_of_examples:.0f} % of the variance of the differences is that of "
        f"{how_many(noise.examples or 0, 'test example')}: which of them were drawn, not what was "
        "trained.",
        _larger(noise),
    )


def _larger(noise: Noise) -> str:
    needed = examples_for(noise, 0.25)
    if needed is None:
        return "Test on ten times as many; of so few what training adds cannot be told."
    return (
        f"Test on {float(rounded_up(needed, 2)):.0f} examples: then the sample's share would be a "
        "quarter."
    )


def uneven_pairs(comparison: Comparison, ahead: Ahead | None) -> Iterator[Audit]:
    """Without its two most favourable pairs less than half of a decided difference is left."""
    d = comparison.effect.d
    if ahead is None or d.size < FEWEST:
        return
    mean = float(d.mean())
    towards = math.copysign(1.0, mean)
    order = np.argsort(-towards * d, kind="stable")
    left = float(d[order[LEFT_OUT:]].mean())
    if towards * left >= abs(mean) / 2:
        return
    seeds = [comparison.seeds[i] for i in order[:LEFT_OUT]]
    yield Audit(
        "uneven_pairs",
        "note",
        f"Without seed {seed_list(seeds)} the mean difference is {number(left)}, of all "
        f"{d.size} pairs {number(mean)}: two seeds carry half of it or more.",
        "See what happened on these seeds: an arm that failed to train there is a finding of its "
        "own. More seeds tell how often it does.",
    )


CHECKS = (noisy_test,)
CONCLUSION_CHECKS = (uneven_pairs,)
