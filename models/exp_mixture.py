"""The exponential mixture: a lag bias that decreases and flattens out, whatever it learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from models.lag_bias import LagBias
from models.mixer import Observed, at_least_float32


class ExpMixture(LagBias):
    """b_h(lag) = γ · log Σⱼ softmax(w_h)ⱼ · exp(−r_hⱼ · lag), with rates r = exp(ρ) > 0.

    One component is ALiBi with a learned slope (Press et al. 2022, arXiv 2108.12409); infinitely
    many reach every completely monotone kernel (Bernstein), KERPLE's logarithmic one among them
    (Chi et al. 2022, arXiv 2205.09921). As a log-sum-exp of lines it is decreasing and convex
    whatever its parameters are: seeing that in a trained model is no evidence.

    Args:
        heads: H.
        components: exponentials per head.
        gamma: strength, the number in front.
    Raises:
        ValueError: fewer than one component.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "bias_max_slope": "b′ = −γ·E[r] < 0 for every positive rate",
        "bias_min_curvature": "b″ = γ·Var[r] ≥ 0 for every set of rates",
        "bias_max_first_difference": "b falls from lag to lag for every positive rate",
        "bias_min_second_difference": "b is convex for every set of rates, but for rounding",
    }

    def __init__(self, heads: int, components: int = 8, gamma: float = 1.0) -> None:
        super().__init__(heads, gamma)
        if components < 1:
            raise ValueError(f"components is {components}, must be a whole number ≥ 1")
        # Rates spread log-evenly over a factor of 8 around each head's ALiBi slope 2^(−8h/H); heads
        # that started alike would stay alike. All are squashed below 1: a faster exponential has
        # decayed at lag 1 and gets almost no gradient.
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)  # (H,)
        steps = torch.arange(components) - (components - 1) / 2  # (J,), 0 in the middle
        rates = slopes[:, None] * 8.0 ** (steps / max(components - 1, 1))  # (H, J)
        self.log_rates = nn.Parameter((rates / (1 + rates)).log())  # (H, J)
        # the weight of one alone is 1, whatever its logit: nothing to train
        self.logits = nn.Parameter(torch.zeros(heads, components), components > 1)  # (H, J)

    def curve(self, lags: Tensor) -> Tensor:  # (L,) → (H, L)
        log_weights = at_least_float32(self.logits).log_softmax(-1)
        decay = at_least_float32(self.log_rates).exp()[..., None] * lags  # (H, J, L)
        return self.gamma * (log_weights[..., None] - decay).logsumexp(1)

    def derivatives(self, lags: Tensor) -> tuple[Tensor, Tensor]:
        """b′ = −γ·E[r] and b″ = γ·Var[r] under weights ∝ wⱼ·exp(−rⱼ·lag): (L,) → (H, L) twice.

        In float64 and in closed form: finite differences of a float32 bias turn positive beyond
        about 1 000 lags.
        """
        rates = self.log_rates.double().exp()[..., None]  # (H, J, 1)
        log_weights = self.logits.double().log_softmax(-1)[..., None]
        posterior = (log_weights - rates * lags).softmax(1)  # (H, J, L)
        mean = (posterior * rates).sum(1)
        variance = (posterior * (rates - mean[:, None]).square()).sum(1)
        return -self.gamma * mean, self.gamma * variance

    def shape_signature(self, start: LagBias, lags: Tensor) -> dict[str, Observed]:
        assert isinstance(start, ExpMixture)
        slope, curvature = self.derivatives(lags)
        weights = self.logits.double().softmax(-1)  # (H, J)
        entropy = -(weights * weights.log()).nansum(-1)
        mean_rate = (weights * self.log_rates.double().exp()).sum(-1)  # (H,)
        moved = (self.log_rates - start.log_rates).double().square().mean().sqrt()  # in log units
        return super().shape_signature(start, lags) | {
            "rate_distance_from_start": Observed(moved.item(), least=0.0),
            "effective_components": Observed(  # exp of the weights' entropy
                entropy.exp().mean().item(), least=1.0, most=float(self.logits.shape[1])
            ),
            # γ and the rates are confounded: this is what the curve falls by at lag 0, −b′(0)
            "gamma_mean_rate": Observed(self.gamma * mean_rate.mean().item()),
            "bias_max_slope": Observed(slope.max().item(), over="max", most=0.0),
            "bias_min_curvature": Observed(curvature.min().item(), over="min", least=0.0),
        }
