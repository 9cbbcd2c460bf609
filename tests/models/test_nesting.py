"""Which lag biases hold which others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

from models.alibi import Alibi
from models.exp_mixture import ExpMixture
from models.exp_mixture_shared import ExpMixtureShared
from models.exp_mixture_signed import ExpMixtureSigned
from models.kerple import KerpleLog, KerplePower
from models.lag_bias import LagBias
from models.mep import Mep
from models.power_law import PowerLaw
from models.rope import Rope

LAGS = torch.arange(1024)


def with_values(bias: LagBias, **values: Tensor | float) -> LagBias:
    with torch.no_grad():
        for name, value in values.items():
            parameter = bias.get_parameter(name)
            parameter.copy_(torch.as_tensor(value).expand_as(parameter))
    return bias


@pytest.mark.parametrize("heads", [1, 3, 4])
def test_one_exponential_is_alibi_with_a_slope_that_is_learned(heads: int) -> None:
    alibi = Alibi(heads, gamma=0.7)
    one = with_values(ExpMixture(heads, 1, gamma=0.7), log_rates=alibi.slopes.log()[:, None])
    torch.testing.assert_close(one.curve(LAGS), alibi.curve(LAGS), rtol=1e-5, atol=1e-5)
    assert one.log_rates.requires_grad


def test_kerples_power_is_alibi_at_its_start() -> None:
    torch.testing.assert_close(KerplePower(4).curve(LAGS), Alibi(4).curve(LAGS))


def test_the_power_law_is_kerples_logarithm_with_one_number_fixed() -> None:
    law = PowerLaw(4)
    log = with_values(KerpleLog(4), log_p=law.log_alpha, log_a=0.0)
    torch.testing.assert_close(log.curve(LAGS), law.curve(LAGS))


def test_a_shared_mixture_is_one_whose_heads_are_alike() -> None:
    shared = ExpMixtureShared(3, 4)
    every = with_values(ExpMixture(3, 4), log_rates=shared.log_rates, logits=shared.logits)
    assert shared.curve(LAGS).equal(every.curve(LAGS))


@pytest.mark.parametrize("components", [1, 2, 8])
def test_a_shared_mixture_starts_over_the_rates_of_all_heads(components: int) -> None:
    shared, every = ExpMixtureShared(4, components), ExpMixture(4, components)
    rates = shared.log_rates[0]
    assert len(rates) == components
    if components == 1:
        assert every.log_rates.min() < rates < every.log_rates.max()
    else:
        ends = torch.stack([every.log_rates.min(), every.log_rates.max()])
        torch.testing.assert_close(rates[[0, -1]], ends)


def fitted(curve: Tensor) -> ExpMixture:
    """Eight exponentials whose mixture is near exp(curve), (L,), by relative error."""
    kernel = curve.double().exp().numpy()
    slopes = -np.diff(curve.double().numpy())
    best, found = np.inf, None
    for faster in (1, 2, 4, 8, 16):
        for slower in (0.25, 0.5, 1, 2):
            rates = np.geomspace(slopes.min() * slower, slopes.max() * faster, 8)
            decays = np.exp(-rates * LAGS.numpy()[:, None]) / kernel[:, None]
            weights, error = nnls(decays, np.ones(len(kernel)), maxiter=1000)
            if error < best:
                best, found = error, (rates, weights)
    rates, weights = (torch.from_numpy(each) for each in found)
    return with_values(
        ExpMixture(1).double(), log_rates=rates.log(), logits=weights.clamp(min=1e-30).log()
    )


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("a", [0.004, 0.06, 0.25, 1.0])
def test_eight_exponentials_hold_kerples_logarithm(a: float, p: float) -> None:
    log = with_values(KerpleLog(1), log_p=np.log(p), log_a=np.log(a)).curve(LAGS)[0].detach()
    apart = fitted(log).curve(LAGS)[0] - log
    assert apart.abs().max() < 0.05


@pytest.mark.parametrize("p", [1.2, 1.5, 1.9])
def test_no_exponentials_hold_kerples_power_above_one(p: float) -> None:
    """Which is concave, and they are convex: in the middle they are apart, or at the ends."""
    free_p = torch.tensor(p / 2).logit()
    power = with_values(KerplePower(1), log_a=np.log(0.01), free_p=free_p).curve(LAGS)[0].detach()

    def sag(curve: Tensor) -> float:  # how far its middle is above the chord of its ends
        return (curve[511] - (curve[0] + curve[1022]) / 2).item()

    best = ExpMixture(1).double()
    optimizer = torch.optim.LBFGS(best.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        found = (best.curve(LAGS)[0] - power.double()).square().mean()
        found.backward()
        return found

    optimizer.step(loss)
    curve = best.curve(LAGS)[0].detach()
    assert sag(curve) <= 1e-6
    least = sag(power) / 2  # what any convex curve is off by, at one of three lags
    assert (curve - power).abs().max() >= least
    assert least > 0.05


def test_signed_exponentials_rise_where_the_mixture_cannot() -> None:
    signed = ExpMixtureSigned(2)
    assert (signed.curve(LAGS).diff() < 0).all()  # at the start
    weights = torch.tensor([-1.0] * 4 + [1.0] * 4)
    assert (with_values(signed, weights=weights).curve(LAGS).diff() > 0).any()


def test_meps_far_lags_are_those_of_alibi() -> None:
    """Where the Gaussian has decayed; a half of the weight is gone with it."""
    far = torch.arange(100, 1024)
    seen, alibi = Mep(4).curve(far), Alibi(4).curve(far)
    torch.testing.assert_close(seen, alibi - np.log(2.0))
    torch.testing.assert_close(Mep(4).curve(torch.tensor([0])), torch.zeros(4, 1))


@pytest.mark.parametrize(("tokens", "same"), [(3, True), (16, True), (17, False)])
def test_stretched_positions_are_rotary_ones_up_to_the_trained_length(
    tokens: int, same: bool
) -> None:
    k = torch.randn(2, 3, tokens, 8)
    plain, stretched = Rope(24, 3, 16), Rope(24, 3, 16, stretch=True)
    assert stretched(k, k, k)[1].equal(plain(k, k, k)[1]) is same
    # the slowest pair turns as far over more tokens as over the trained, the fastest as fast
    angles = stretched.angles(tokens, torch.float64, k.device)
    torch.testing.assert_close(angles[:, 0], torch.arange(tokens).double())
    slowest = 10000 ** (-3 / 4) * (1 if same else 16 / tokens)
    torch.testing.assert_close(angles[1, -1].item(), slowest)
