"""What a plan already says of the verdict to come."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from analysis.judge.foreseen import foreseen
from analysis.read.rules import Rules
from records.record import PlannedRun

LRS = (0.1, 0.2)


def planned(
    variants: str, seeds: int, lrs: tuple[float, ...] = LRS, tracks: str = "sequence"
) -> list[PlannedRun]:
    grid = product(tracks.split(), variants.split(), range(seeds), lrs)
    return [PlannedRun(track=t, variant=v, seed=s, hyper={"lr": lr}) for t, v, s, lr in grid]


def codes(*args: Any, baseline: str | None = "baseline", **rules: Any) -> list[str]:
    return [each.partition(":")[0] for each in foreseen(planned(*args), baseline, Rules(**rules))]


TUNING = frozenset({0, 1})


@pytest.mark.parametrize(
    ("variants", "seeds", "tracks", "rules", "few"),
    [
        # 2m / 2ⁿ ≤ α: 6 seeds for 1 comparison, 7 for 2, 8 for 4, at .05; 8 for 1 at .01
        ("baseline idea", 6, "a", {}, False),
        ("baseline idea", 5, "a", {}, True),
        ("baseline idea other", 6, "a", {}, True),
        ("baseline idea other", 7, "a", {}, False),
        ("baseline idea", 6, "a b", {}, True),
        ("baseline idea", 6, "a b", {"family": "track"}, False),
        ("baseline i j k l", 7, "a", {}, True),
        ("baseline i j k l", 8, "a", {}, False),
        ("baseline idea", 7, "a", {"alpha": 0.01}, True),
        ("baseline idea", 8, "a", {"alpha": 0.01}, False),
        ("baseline idea", 7, "a", {"tuning_seeds": TUNING}, True),  # 5 are reported
        ("baseline idea", 8, "a", {"tuning_seeds": TUNING}, False),
        ("idea", 2, "a b", {}, False),  # nothing is compared
    ],
)
def test_too_few_seeds_are_foreseen(
    variants: str, seeds: int, tracks: str, rules: dict[str, Any], few: bool
) -> None:
    assert ("few_seeds" in codes(variants, seeds, LRS, tracks, **rules)) == few


def test_without_its_baseline_every_arm_is_compared_and_without_a_name_all_but_one() -> None:
    assert "few_seeds" in codes("idea other", 6)
    assert "few_seeds" not in codes("idea other", 6, baseline=None)


def test_it_says_how_many_seeds_would_do() -> None:
    [said, _] = foreseen(planned("baseline i j k l", 6), "baseline", Rules())
    assert said == (
        "few_seeds: the sweep reports on 6 seeds; at level 0.05 in a family of 4 at least 8 must "
        "differ, or no outcome can be significant. Run at least 8 seeds."
    )


@pytest.mark.parametrize(
    ("alpha", "seeds", "said"),
    [
        (1e-6, 30, "no number of seeds can reach level 1e-06"),
        (5e-6, 30, "only 19 to 20 seeds can reach level 5e-06"),  # above 20 flips are drawn
        (5e-6, 19, None),
    ],
)
def test_a_level_that_more_seeds_cannot_show(alpha: float, seeds: int, said: str | None) -> None:
    found = foreseen(planned("baseline idea", seeds), "baseline", Rules(alpha=alpha))
    assert [said in each for each in found[:-1]] == ([True] if said else [])


@pytest.mark.parametrize(
    ("variants", "lrs", "rules", "expected"),
    [
        ("baseline idea", LRS, {}, ["tuned_on_reported_seeds"]),
        ("baseline idea", LRS, {"tuning_seeds": TUNING}, []),
        (
            "baseline idea",
            LRS,
            {"tuning_seeds": TUNING, "report_tuning_seeds": True},
            ["tuned_on_reported_seeds"],
        ),
        ("baseline idea", LRS[:1], {}, ["untuned"]),
        ("baseline idea", LRS[:1], {"tuning_seeds": TUNING}, ["untuned"]),
        ("idea", LRS[:1], {}, []),
    ],
)
def test_how_the_arms_are_tuned_is_foreseen(
    variants: str, lrs: tuple[float, ...], rules: dict[str, Any], expected: list[str]
) -> None:
    assert codes(variants, 8, lrs, **rules) == expected


def test_an_arm_that_is_tuned_is_said_to_be_though_the_other_is_not() -> None:
    runs = planned("baseline", 8, LRS[:1]) + planned("idea", 8)
    [said] = foreseen(runs, "baseline", Rules())
    assert said.startswith("tuned_on_reported_seeds: ")
