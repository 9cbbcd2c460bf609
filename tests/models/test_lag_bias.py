"""The lag biases against closed forms, naive float64 sums and automatic differentiation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from models.cope import Cope
from models.exp_mixture import ExpMixture
from models.fire import Fire
from models.forgetting import Forgetting
from models.lag_bias import LagBias
from models.lag_table import LagTable
from models.rope import Rope
from models.sandwich import Sandwich
from models.t5 import T5

HEADS = 4


def tokens(queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and what the mixer reads, of three heads; a lag bias looks at their lengths."""
    return torch.randn(2, 3, queries, 4), torch.randn(2, 3, keys, 4), torch.randn(2, keys, 12)


@pytest.fixture
def mixture() -> ExpMixture:
    torch.manual_seed(0)
    made = ExpMixture(HEADS, components=8, gamma=1.7)
    with torch.no_grad():
        made.logits.normal_()
        made.log_rates.add_(0.5 * torch.randn(HEADS, 8))
    return made


def test_mixture_is_the_log_of_a_weighted_sum_of_exponentials(mixture: ExpMixture) -> None:
    lags = np.arange(200)
    weights = np.exp(mixture.logits.detach().double().numpy())
    weights /= weights.sum(1, keepdims=True)
    rates = np.exp(mixture.log_rates.detach().double().numpy())
    naive = 1.7 * np.log(
        (weights[..., None] * np.exp(-rates[..., None] * lags)).sum(1)
    )  # (H, lags)
    seen = mixture.curve(torch.from_numpy(lags)).detach().numpy()
    np.testing.assert_allclose(seen, naive, rtol=1e-5, atol=1e-5)


def test_one_component_is_a_straight_line() -> None:
    made = ExpMixture(HEADS, components=1, gamma=2.0)
    lags = torch.arange(50)
    expected = -2.0 * made.log_rates.exp() * lags
    torch.testing.assert_close(made.curve(lags), expected)


def test_bias_is_zero_at_lag_zero_and_finite_far_away(mixture: ExpMixture) -> None:
    assert mixture.curve(torch.tensor([0])).abs().max() < 1e-6
    assert mixture.curve(torch.tensor([10**7])).isfinite().all()


def test_derivatives_agree_with_automatic_differentiation(mixture: ExpMixture) -> None:
    lags = torch.tensor([0.0, 1.0, 7.0, 40.0, 1500.0], dtype=torch.float64, requires_grad=True)
    weights = mixture.logits.double().log_softmax(-1)[..., None]
    bias = 1.7 * (weights - mixture.log_rates.double().exp()[..., None] * lags).logsumexp(1)
    slope, curvature = mixture.derivatives(lags.detach())
    for h in range(HEADS):
        (first,) = torch.autograd.grad(bias[h].sum(), lags, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), lags, retain_graph=True)
        torch.testing.assert_close(slope[h], first.detach(), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(curvature[h], second, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("components", [1, 2, 8])
def test_rates_start_different_and_slow_enough_to_learn(heads: int, components: int) -> None:
    rates = ExpMixture(heads, components=components).log_rates.exp()
    assert rates.max() < 0.75
    assert (rates.diff(dim=0) < -1e-4).all()  # from head to head
    assert (rates.diff(dim=1) > 1e-4).all()  # within a head
    if components == 1:  # ALiBi's slope s, squashed to s / (1 + s)
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        torch.testing.assert_close(rates[:, 0], slopes / (1 + slopes))


@pytest.mark.parametrize("kind", [partial(LagTable, context=8), ExpMixture])
def test_float64_stays_float64_and_bfloat16_becomes_float32(kind: Callable[..., LagBias]) -> None:
    assert kind(2).double().curve(torch.arange(8)).dtype == torch.float64
    assert kind(2).bfloat16().curve(torch.arange(8)).dtype == torch.float32


def test_mixture_signature_of_planted_parameters() -> None:
    start, trained = ExpMixture(2, components=4), ExpMixture(2, components=4)
    with torch.no_grad():
        trained.log_rates += 0.3
        trained.logits[0, 0] = 50.0  # this head uses one component, the other all four
    seen = trained.shape_signature(start, torch.arange(32))
    assert seen["rate_distance_from_start"].value == pytest.approx(0.3, rel=1e-5)
    assert seen["effective_components"].value == pytest.approx((1 + 4) / 2, rel=1e-5)
    rates = trained.log_rates.detach().exp()
    by_hand = (rates[0, 0] + rates[1].mean()) / 2
    assert seen["gamma_mean_rate"].value == pytest.approx(by_hand.item(), rel=1e-5)
    assert seen["bias_max_slope"].value < 0
    assert seen["bias_min_curvature"].value >= 0


def test_strength_and_rates_are_one_number_where_they_are_confounded() -> None:
    strong, fast = ExpMixture(2, components=1, gamma=3.0), ExpMixture(2, components=1)
    with torch.no_grad():
        fast.log_rates.add_(math.log(3.0))
    torch.testing.assert_close(strong.curve(torch.arange(9)), fast.curve(torch.arange(9)))
    seen = [b.shape_signature(b, torch.arange(9))["gamma_mean_rate"].value for b in (strong, fast)]
    assert seen[0] == pytest.approx(seen[1], rel=1e-6)


def test_curvature_stays_positive_where_finite_differences_fail(mixture: ExpMixture) -> None:
    lags = torch.arange(1000, 4000)
    assert (mixture.curve(lags).diff(n=2, dim=-1) <= 0).any()  # the reason for the closed form
    assert mixture.derivatives(lags)[1].min() >= 0


def test_table_repeats_its_last_entry_beyond_its_length() -> None:
    table = LagTable(1, 8, length=3, gamma=2.0)
    with torch.no_grad():
        table.table.copy_(torch.tensor([[1.0, 2.0, 5.0]]))
    seen = table.curve(torch.tensor([0, 1, 2, 3, 99]))
    assert seen.tolist() == [[2.0, 4.0, 10.0, 10.0, 10.0]]


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 5), (3, 5), (5, 5), (5, 9)])
def test_every_pair_of_tokens_gets_its_lags_value_and_gives_it_its_gradient(
    queries: int, keys: int
) -> None:
    """A table of 6 lags: 9 keys have more."""
    torch.manual_seed(0)
    made = LagTable(3, 6, gamma=0.7).double()
    q, k, x = tokens(queries, keys)
    weight = torch.randn(3, queries, keys, dtype=torch.float64)
    table = torch.randn(3, 6, dtype=torch.float64)
    expected = torch.zeros(3, 6, dtype=torch.float64)
    with torch.no_grad():
        made.table.copy_(table)
    seen = made(q, k, x)
    for i in range(queries):
        for j in range(keys):
            lag = min(abs(keys - queries + i - j), 5)
            assert seen[0, :, i, j].equal(0.7 * table[:, lag])
            expected[:, lag] += 0.7 * weight[:, i, j]
    (gradient,) = torch.autograd.grad((seen[0] * weight).sum(), made.table)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("made", [LagTable(3, 5), ExpMixture(3)])
def test_neutral_is_no_bias_at_all(made: LagBias) -> None:
    q, k, x = tokens(queries=2, keys=5)
    assert made.neutral()(q, k, x).tolist() == [[[[0.0] * 5] * 2]]


REFUSED: dict[str, Callable[[], object]] = {
    "components is 0, must be a whole number": lambda: ExpMixture(2, components=0),
    "length is 0, must be a whole number": lambda: LagTable(2, 32, length=0),
    "buckets is 1, must be a whole number": lambda: T5(2, buckets=1),
    "farthest is 4, must be above buckets / 2 = 4": lambda: T5(2, buckets=8, farthest=4),
    "width is 3, must be an even number": lambda: Sandwich(2, width=3),
    "length is 0, must be above 0": lambda: Fire(2, 32, length=0),
    "kept is 1, must be between 0 and 1": lambda: Forgetting(8, 2, kept=1),
    "length is 1, must be a whole number ≥ 2": lambda: Cope(8, 2, 32, length=1),
    "share is 0, must be above 0": lambda: Rope(8, 2, 32, share=0),
    "heads is 5, must be even": lambda: Rope(10, 2, 32),
    "length is -1, must be a whole number": lambda: Rope(8, 2, 32, length=-1),
}


@pytest.mark.parametrize("line", REFUSED)
def test_sizes_that_make_no_sense_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=line):
        REFUSED[line]()


@pytest.mark.parametrize(("lags", "differences"), [(2, 1), (3, 2)])
def test_of_two_lags_no_second_difference_is_observed(lags: int, differences: int) -> None:
    for made in (LagTable(2, lags), ExpMixture(2)):
        seen = made.shape_signature(made, torch.arange(lags))
        assert all(math.isfinite(each.value) for each in seen.values())
        assert sum("second_difference" in metric for metric in seen) == (
            (differences - 1) * (2 if isinstance(made, LagTable) else 1)
        )


@pytest.mark.parametrize(
    ("length", "entries"), [(None, 32), (0.5, 16), (0.25, 8), (5, 5), (48, 48)]
)
def test_a_table_is_as_long_as_it_is_told(length: float | None, entries: int) -> None:
    table = LagTable(heads=2, context=32, length=length)
    assert table.table.shape == (2, entries)


@pytest.mark.parametrize("length", [0, 0.01, 2.5, -1])
def test_a_table_of_no_whole_number_of_lags_is_refused(length: float) -> None:
    with pytest.raises(ValueError, match="a whole number of lags"):
        LagTable(heads=2, context=32, length=length)
