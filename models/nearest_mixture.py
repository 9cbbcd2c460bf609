"""How near any curve over lags comes to an exponential mixture."""

from __future__ import annotations

import math

import torch
from torch import Tensor

STEPS = 200  # that are tried


def mixture_residual(curves: Tensor, components: int = 8) -> Tensor:
    """Root mean square over lags of curve − log Σⱼ wⱼ·exp(−rⱼ·lag), at the least: (H, N) → (H,).

    Over weights w > 0 of any sum, for softmax ignores a constant, and rates r > 0, in float64 by
    Levenberg–Marquardt from one start (Marquardt 1963), all curves at once. (Not scipy's: its last
    digits depend on where numpy's arrays happen to lie in memory, and equal runs must give equal
    records.) Never above the curve's spread: a constant is a mixture too, of rate 0.

    Args:
        curves: at the lags 0, 1, …, N − 1; N ≥ 2.
        components: exponentials; N/2 are enough for N lags.
    """
    curves = curves.detach().double()
    heads, n = curves.shape
    components = min(components, n // 2)
    lags = torch.arange(n, dtype=torch.float64, device=curves.device)

    def apart(free: Tensor) -> tuple[Tensor, Tensor]:
        """Residuals (H, N) and their gradients (H, N, 2J) in log w and log r, (H, 2J)."""
        log_weights, rates = free[:, :components, None], free[:, components:, None].exp()
        lines = log_weights - rates * lags  # (H, J, N)
        mixture = lines.logsumexp(1, keepdim=True)
        share = (lines - mixture).exp()
        gradients = torch.cat([share, -share * rates * lags], dim=1)
        return mixture[:, 0] - curves, gradients.mT

    rates = torch.logspace(math.log10(0.1 / n), 0, components, dtype=torch.float64)
    rates = rates.to(curves.device).log().expand(heads, -1)  # from what N lags can tell from 0
    free = torch.cat([curves.mean(1, keepdim=True).expand(-1, components), rates], dim=1)
    residual, gradients = apart(free)
    damping = curves.new_full((heads, 1, 1), 1e-2)
    for _ in range(STEPS):
        normal = gradients.mT @ gradients  # (H, 2J, 2J)
        scale = normal.diagonal(dim1=1, dim2=2).clamp(min=1e-12).diag_embed()
        descent = gradients.mT @ residual[..., None]
        step = torch.linalg.solve_ex(normal + damping * scale, descent).result[..., 0]
        tried = free - step.clamp(-2, 2)  # in logs: no further than the lines are lines
        other, other_gradients = apart(tried)
        better = (other.square().sum(1) < residual.square().sum(1))[:, None]
        free, residual = torch.where(better, tried, free), torch.where(better, other, residual)
        gradients = torch.where(better[..., None], other_gradients, gradients)
        damping = torch.where(better[..., None], damping / 3, damping * 2).clamp(1e-9, 1e9)
    return torch.minimum(residual.square().mean(1).sqrt(), curves.std(1, correction=0))
