"""How near curves are to exponential mixtures, against planted ones and many random starts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from models.exp_mixture import ExpMixture
from models.lag_table import LagTable
from models.nearest_mixture import mixture_residual

LAGS = np.arange(32)


def residual(curve: np.ndarray, components: int = 8) -> float:
    return mixture_residual(torch.tensor(curve)[None], components).item()


def trained(curves: Tensor, gamma: float = 1.0) -> dict[str, float]:
    """What is observed of a table that holds the curves, (H, L), γ included."""
    start, table = (LagTable(*curves.shape, gamma=gamma) for _ in range(2))
    with torch.no_grad():
        table.table.copy_(curves / gamma)
    seen = table.shape_signature(start, torch.arange(curves.shape[1]))
    for metric, each in seen.items():
        assert each.least <= each.value <= each.most, metric
    return {metric: each.value for metric, each in seen.items()}


@pytest.mark.parametrize("gamma", [1.0, 0.3, -2.0])
@pytest.mark.parametrize("lags", [2, 3, 9, 64, 256])
def test_a_table_that_is_a_mixture_is_at_none(lags: int, gamma: float) -> None:
    torch.manual_seed(0)
    mixture = ExpMixture(4, 1 if lags < 4 else 8, gamma=gamma)
    with torch.no_grad():
        mixture.logits.normal_()
        mixture.log_rates.add_(0.5 * torch.randn(mixture.log_rates.shape))
    shift = torch.tensor([[3.0], [-40.0], [0.0], [0.5]])  # of a head's logits: softmax ignores it
    seen = trained((mixture.curve(torch.arange(lags)) + shift).detach(), gamma)
    assert seen["mixture_residual_share"] < 2e-3


def test_a_rising_table_is_as_far_as_from_a_constant() -> None:
    rising = torch.stack([0.1 * torch.arange(32.0), torch.arange(32.0).sqrt()])
    seen = trained(rising)
    assert seen["mixture_residual_share"] == pytest.approx(1, abs=1e-3)
    spread = rising.std(1, correction=0).mean().item()
    assert seen["mixture_residual"] == pytest.approx(spread, rel=1e-3)


def test_residuals_are_means_over_heads_in_logits() -> None:
    falling, rising = -0.2 * torch.arange(32.0), 0.05 * torch.arange(32.0)
    seen = trained(torch.stack([falling, rising]), gamma=0.5)
    spreads = [each.std(correction=0).item() for each in (falling, rising)]
    assert seen["mixture_residual"] == pytest.approx(spreads[1] / 2, rel=1e-3)
    assert seen["mixture_residual_share"] == pytest.approx(spreads[1] / sum(spreads), rel=1e-3)


def test_a_flat_table_confirms_nothing() -> None:
    for gamma in (1.0, 0.0):
        table = LagTable(2, 8, gamma=gamma)
        seen = table.shape_signature(table, torch.arange(8))
        assert seen["mixture_residual"].value == 0
        assert seen["mixture_residual_share"].value == 1


def curves() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "noise": 0.3 * rng.normal(size=32),
        "a fall under noise": 2 * np.exp(-LAGS / 5) + 0.2 * rng.normal(size=32),
        "a walk": np.cumsum(0.1 * rng.normal(size=32)),
        "a wave": np.cos(LAGS / 4),
        "a concave fall": -0.002 * LAGS**1.8,
    }


@pytest.mark.parametrize("name", curves())
def test_no_mixture_that_a_search_finds_is_nearer(name: str) -> None:
    curve, rng = curves()[name], np.random.default_rng(1)

    def apart(free: np.ndarray) -> float:
        mixture = np.exp(free[:8, None] - np.exp(free[8:, None]) * LAGS).sum(0)
        return float(np.mean((np.log(mixture) - curve) ** 2))

    starts = [np.concatenate([rng.normal(size=8), rng.normal(size=8) * 2 - 2]) for _ in range(3)]
    best = min(minimize(apart, start, method="L-BFGS-B").fun for start in starts) ** 0.5
    assert residual(curve) < best + 0.02 * curve.std()


def test_equal_curves_give_equal_bits() -> None:
    table = torch.tensor(np.stack([*curves().values()]))
    assert mixture_residual(table).equal(mixture_residual(table.clone()))


def test_more_exponentials_are_no_farther() -> None:
    curve = -1.5 * np.log1p(0.5 * LAGS)
    found = [residual(curve, components) for components in (1, 2, 4)]
    line = np.polyval(np.polyfit(LAGS, curve, 1), LAGS)  # one exponential is a line
    assert found[0] == pytest.approx(np.sqrt(np.mean((line - curve) ** 2)), rel=1e-3)
    assert found[0] > 2 * found[1] > 4 * found[2]
