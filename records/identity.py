"""What makes two runs one."""

from __future__ import annotations

from collections.abc import Mapping

Value = float | str  # of a tunable key: a number, or the name of what was chosen for a group
Hyper = dict[str, Value]  # in the order in which a run wrote it
HyperKey = tuple[tuple[str, Value], ...]  # (key, value) sorted by key: 1 and 1.0 are one hyper
Identity = tuple[str, str, int, HyperKey, float]  # track, variant, seed, hyper, budget's factor
FULL = 1.0  # the factor of the training budget that is judged


def identity(
    track: str, variant: str, seed: int, hyper: Mapping[str, Value], budget_factor: float
) -> Identity:
    """Track, variant, seed, hyper and budget: two runs that share them are one."""
    return track, variant, seed, sorted_hyper(hyper), budget_factor


def sorted_hyper(hyper: Mapping[str, Value]) -> HyperKey:
    """A hyper as a key, whatever the order in which a run wrote it."""
    return tuple(sorted(hyper.items()))


def in_order(hyper: HyperKey) -> tuple[tuple[str, bool, Value], ...]:
    """The key by which hypers are sorted: numbers before names."""
    return tuple((key, isinstance(value, str), value) for key, value in hyper)
