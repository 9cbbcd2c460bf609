"""How often the tests and intervals err, on fewer simulations than benchmarks/calibration.py.

The draws are seeded. Bounds lie 3 or 4 standard errors of the expected rate away from it: other
draws would nearly always pass as well, and a procedure that does something else would not.
"""

import itertools
import json
import math

import numpy as np
import pytest

from analysis.judge import statistics
from analysis.judge.statistics import Tuned
from benchmarks import calibration

ALPHA = calibration.ALPHA


def by_setting(rows) -> dict[str, calibration.Row]:
    return {row.setting: row for row in rows}


def about(rate: float, row: calibration.Row) -> bool:
    """Whether the row shows `rate`: within 4 standard errors."""
    return abs(row.measured - rate) <= 4 * math.sqrt(rate * (1 - rate) / row.simulations)


def exceeds(rate: float, row: calibration.Row) -> bool:
    """Whether the row shows more than `rate`: by 3 standard errors."""
    return row.measured > rate + 3 * math.sqrt(rate * (1 - rate) / row.simulations)


def plain_p(baseline, idea) -> float:
    return statistics.sign_flip_p((idea - baseline)[:, 0])


def aware_p(baseline, idea) -> float:
    return statistics.selection_aware_p(Tuned(baseline, baseline), Tuned(idea, idea), "min")


@pytest.mark.parametrize("p_value", [plain_p, aware_p])
def test_the_level_at_8_pairs_is_exact(p_value):
    """Of all ways to swap the arms on some seeds, 12 of 256 are significant: no simulation."""
    arms = np.random.default_rng(1).normal(size=(2, 8, 5))
    hits = 0
    for swap in itertools.product([False, True], repeat=7):  # the other half mirrors these
        swapped = np.where(np.array([False, *swap])[:, None], arms[::-1], arms)
        hits += p_value(*swapped) <= ALPHA
    assert hits / 2**7 == calibration.level(8) == 12 / 256 <= ALPHA


def test_the_level_holds_under_symmetry_and_only_there():
    rows = by_setting(calibration.null_rejection(12, 1500, seed=1))
    assert about(204 / 4096, rows["normal"])
    assert about(204 / 4096, rows["Student t, 3 df"])
    assert exceeds(ALPHA, rows["exponential"])


def test_power_at_the_mde():
    [row] = calibration.power(8, 400, seed=1)
    assert about(0.77, row)  # at the half-width of the t interval, taken for an MDE, it is 0.53


def test_coverage_of_normal_differences():
    rows = by_setting(calibration.coverage(8, 300, seed=1))
    assert about(0.95, rows["normal, t interval"])
    assert about(1 - 12 / 256, rows["normal, sign-flip interval"])
    assert about(1 - 12 / 256, rows["Student t, 3 df, sign-flip interval"])


def test_holm_holds_the_level_of_a_family():
    rows = by_setting(calibration.family_wise(5, 500, seed=1))
    assert not exceeds(ALPHA, rows["5 ideas, Holm"])
    assert exceeds(ALPHA, rows["5 ideas, unadjusted"])


def test_tuning_on_the_reported_scores():
    rows = by_setting(calibration.equal_grids(400, seed=1))
    assert about(12 / 256, rows["5 lrs each, selection-aware p"])
    assert not exceeds(ALPHA, rows["5 lrs each, plain p"])
    [row] = calibration.unequal_grids(600, seed=1)
    assert exceeds(ALPHA, row)
    [row] = calibration.best_on_every_seed(50, seed=1)
    assert exceeds(ALPHA, row)


def test_peeking_breaks_the_level():
    [row] = calibration.peeking(300, seed=1)
    assert exceeds(ALPHA, row)


def test_false_equivalence_at_the_margin():
    [row] = calibration.false_equivalence(2.0, 1000, seed=1)
    assert about(ALPHA, row)  # the other side of so wide a margin plays no part


def test_the_kept_rows_are_those_of_the_script():
    kept = json.loads(calibration.RESULT.read_text("utf-8"))
    labels = [(row["what"], row["n"], row["setting"]) for row in kept["rows"]]
    assert labels == [row[:3] for row in calibration.every_row(10, seed=1)]
    [again] = calibration.power(12, kept["simulations"], kept["seed"])
    assert again._asdict() in kept["rows"]
    [again] = calibration.looks_equivalence(kept["simulations"] // 5, kept["seed"])
    assert again._asdict() in kept["rows"]


def test_a_tuned_design_keeps_its_level_and_spends_fewer_runs():
    """On the draws that the benchmark uses, of which there are more."""
    [alone] = calibration.looks_level(1, 0, 200, seed=0)
    [beside] = calibration.looks_level(2, 1, 200, seed=0)
    for row in (alone, beside):
        assert not exceeds(ALPHA, row)
    rows = {row.setting: row for row in calibration.looks_power(1.0, 120, seed=0)}
    assert rows["d_z 1: power"].measured > 0.85
    assert not exceeds(0.05, rows["d_z 1: the repeated interval's coverage"]._replace(
        measured=1 - rows["d_z 1: the repeated interval's coverage"].measured))  # fmt: skip
    assert rows["d_z 1, 3 lrs: runs, as a share of a fixed design's"].measured < 0.46
    [equivalent] = calibration.looks_equivalence(200, seed=0)
    assert not exceeds(ALPHA, equivalent)
