"""What must not change a p-value, an interval or a verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analysis.judge.compare import Effect, measure
from analysis.judge.statistics import Tuned, selection_aware_p, ulps_apart
from analysis.judge.verdict import Case, Conclusion, conclude
from analysis.read.rules import Rules

RULES = Rules()
# coarse, so that ties and zeros come up, and no two different means differ by rounding alone
SCORES = st.integers(1, 200).map(lambda n: n / 64)
ARMS = st.integers(2, 9).flatmap(
    lambda n: st.tuples(*(st.lists(SCORES, min_size=n, max_size=n) for _ in range(2)))
)
NO_DEADLINE = settings(deadline=None, max_examples=25)


def judged(baseline, idea, direction="min") -> tuple[Effect, str]:
    """All statistics of two arms, and the verdict."""
    baseline, idea = np.array(baseline), np.array(idea)
    effect = measure(baseline, idea, direction, RULES, 1)
    effect = replace(effect, inert_ulps=ulps_apart(baseline, idea))
    case = Case(
        effect=effect,
        direction=direction,
        audits=(),
        mechanism_ok=True,
        idea_failed=False,
        family="all",
        family_size=1,
        alpha=RULES.alpha,
    )
    return effect, Conclusion(**conclude([case])[0]).verdict


def same(a: float | None, b: float | None) -> bool:
    return a is b is None or a == pytest.approx(b, rel=1e-6, abs=1e-12)


def assert_alike(one: Effect, other: Effect, unit: float = 1.0, sign: int = 1) -> None:
    """Equal but for the unit and the sign of the differences."""
    for name in ("p_value", "p_min", "p_equivalence", "pairing_rho", "seeds_needed"):
        assert same(getattr(one, name), getattr(other, name)), name
    for name in ("dz", "hedges_g", "delta_mean"):
        scale = unit if name == "delta_mean" else 1.0
        expect = getattr(one, name)
        assert same(None if expect is None else sign * scale * expect, getattr(other, name)), name
    assert same(None if one.mde is None else unit * one.mde, other.mde)
    assert other.counts == one.counts
    for name in ("ci", "ci_signflip"):
        expect, found = getattr(one, name), getattr(other, name)
        assert (expect is None) == (found is None)
        if expect is not None:
            assert sorted(sign * unit * end for end in expect) == pytest.approx(
                list(found), rel=1e-6, abs=1e-9 * unit
            )


@NO_DEADLINE
@given(ARMS, st.randoms(use_true_random=False))
def test_the_order_of_seeds_changes_nothing(arms, random):
    pairs = list(zip(*arms, strict=True))
    effect, verdict = judged(*arms)
    random.shuffle(pairs)
    again, verdict_again = judged(*zip(*pairs, strict=True))
    assert_alike(effect, again)
    assert verdict_again == verdict


@NO_DEADLINE
@given(ARMS)
def test_flipping_direction_together_with_sign_changes_nothing(arms):
    baseline, idea = map(np.array, arms)
    effect, verdict = judged(baseline, idea, "min")
    turned, verdict_turned = judged(-baseline, -idea, "max")
    assert_alike(effect, turned, sign=-1)
    assert verdict_turned == verdict


@NO_DEADLINE
@given(ARMS, st.sampled_from([2.0**-20, 0.3, 7.0, 2.0**20]))
def test_the_unit_of_the_scores_changes_nothing(arms, unit):
    baseline, idea = map(np.array, arms)
    effect, verdict = judged(baseline, idea)
    scaled, verdict_scaled = judged(unit * baseline, unit * idea)
    assert_alike(effect, scaled, unit=unit)
    assert verdict_scaled == verdict


@NO_DEADLINE
@given(ARMS, st.integers(-640, 640))
def test_a_constant_added_to_both_arms_changes_no_p(arms, shift):
    baseline, idea = map(np.array, arms)
    effect, _ = judged(baseline, idea)
    moved, _ = judged(baseline + shift / 64, idea + shift / 64)
    assert same(effect.p_value, moved.p_value)
    assert same(effect.dz, moved.dz)
    assert effect.counts == moved.counts


@NO_DEADLINE
@given(ARMS)
def test_swapping_the_arms_turns_the_verdict(arms):
    effect, verdict = judged(*arms)
    swapped, verdict_swapped = judged(*reversed(arms))
    assert same(effect.p_value, swapped.p_value)
    assert effect.counts == swapped.counts[::-1]
    turn = {"better": "worse", "worse": "better"}
    words = [turn.get(word, word) for word in verdict.split()]
    # the margin is a share of the other arm's mean now: only a claim of equivalence may change
    assume(not {"equivalent", "negligible"} & {*verdict.split(), *verdict_swapped.split()})
    assert verdict_swapped.split() == words


@NO_DEADLINE
@given(ARMS)
def test_p_lies_where_it_can(arms):
    effect, verdict = judged(*arms)
    assert effect.p_min <= effect.p_value <= 1
    assert effect.p_value * 2 ** len(effect.d) == pytest.approx(
        round(effect.p_value * 2 ** len(effect.d))
    )
    if "significant" in verdict:
        assert effect.p_value <= RULES.alpha
    if effect.ci_signflip is not None and not np.allclose(effect.d, effect.d[0]):
        low, high = effect.ci_signflip
        assert low <= effect.delta_mean + 1e-12
        assert effect.delta_mean <= high + 1e-12


TUNED = st.tuples(st.integers(2, 7), st.integers(1, 4)).flatmap(
    lambda shape: st.tuples(
        *(
            st.lists(
                st.lists(SCORES, min_size=shape[1], max_size=shape[1]),
                min_size=shape[0],
                max_size=shape[0],
            ).map(np.array)
            for _ in range(4)
        )
    )
)


@NO_DEADLINE
@given(TUNED, st.randoms(use_true_random=False), st.sampled_from([0.3, 2.0**20]))
def test_selection_aware_p_has_the_same_invariances(scores, random, unit):
    baseline, idea = Tuned(*scores[:2]), Tuned(*scores[2:])
    p = selection_aware_p(baseline, idea, "min")
    assert 2 / 2 ** len(baseline.test) <= p <= 1
    order = list(range(len(baseline.test)))
    random.shuffle(order)
    permuted = (Tuned(arm.validation[order], arm.test[order]) for arm in (baseline, idea))
    assert selection_aware_p(*permuted, "min") == p
    assert selection_aware_p(idea, baseline, "min") == p
    scaled = (Tuned(unit * arm.validation, unit * arm.test) for arm in (baseline, idea))
    assert selection_aware_p(*scaled, "min") == p
    negated = (Tuned(-arm.validation, -arm.test) for arm in (baseline, idea))
    assert selection_aware_p(*negated, "max") == p


def test_drawn_flips_know_neither_order_nor_arm_nor_what_a_seed_adds_to_both():
    """15 seeds: more than selection_aware_p takes all flips of."""
    generator = np.random.default_rng(0)
    shape = (2, 2, 15, 3)  # arms, splits, seeds, configurations
    arms = generator.integers(-9999, 9999, shape) / 2**14
    arms[1, 1] -= 0.25

    def p(arms):
        return selection_aware_p(*(Tuned(*arm) for arm in arms), "min")

    drawn = p(arms)
    assert 0.001 < drawn < 0.5
    assert p(arms[:, :, ::-1]) == drawn
    assert p(arms[::-1]) == drawn
    assert p(arms + generator.integers(-99999, 99999, (1, 2, 15, 1)) / 2**14) == drawn
