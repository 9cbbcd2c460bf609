"""The tensor mixer: a symmetric low-rank contraction along each axis of the token grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from models.mixer import Mechanism, Mixer, Observed, at_least_float32


def orthonormal(free: Tensor) -> Tensor:
    """The Q of a thin QR with positive diagonal of R (hence unique), (n, r) → (n, r)."""
    q, r = torch.linalg.qr(at_least_float32(free))
    return q * torch.where(r.diagonal() < 0, -1.0, 1.0)


def qr_flops(shape: torch.Size, *args: Any, **kwargs: Any) -> int:
    """Householder thin QR with its Q formed, (n, r): 2·(2nr² − ⅔r³) (Golub & Van Loan, §5.2)."""
    n, r = shape[-2:]
    return int(4 * n * r**2 - 4 * r**3 / 3)


class TensorMixer(Mixer, Mechanism):
    """x ↦ (K₁ ⊗ … ⊗ Kₐ) x over the token axes, Kₐ = U·diag(sigmoid(θ))·Uᵀ, all channels alike.

    Each K is symmetric, positive semidefinite and of norm below 1: it can smooth and select, not
    shift, difference or look at content. The product is never formed: factors act axis by axis,
    Σ nₐ·N·d multiplications instead of N²·d. Closest relative: the factorised random Synthesizer
    (Tay et al. 2021, arXiv 2005.00743).

    Args:
        rank: of every factor; `auto` is half of each axis.
    Raises:
        ValueError: a rank outside 1 … n − 1 for an axis of length n.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "max_singular_value": "a sigmoid is below 1 and U is orthonormal",
        "max_orthonormality_error": "U is a Q factor: this measures rounding",
        "mixing_norm_ratio": "a product of factors of norm below 1 cannot grow a vector",
    }

    flop_rules: ClassVar[Mapping[Any, Callable[..., int]]] = {
        torch.ops.aten.linalg_qr: qr_flops,
    }

    def __init__(self, axes: tuple[int, ...], rank: int | Literal["auto"] = "auto") -> None:
        super().__init__()
        self.axes = axes
        ranks = [n // 2 if rank == "auto" else rank for n in axes]
        for n, r in zip(axes, ranks, strict=True):
            if not 1 <= r < n:
                raise ValueError(
                    f"rank is {rank}, must be a whole number from 1 to {n - 1}, below the axis "
                    f"length {n}, or auto for half of each axis (length ≥ 2)"
                )
        self.free = nn.ParameterList([torch.empty(n, r) for n, r in zip(axes, ranks, strict=True)])
        self.theta = nn.ParameterList([torch.zeros(r) for r in ranks])

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        if not name.startswith("free"):
            return None
        return torch.randn(self.get_parameter(name).shape, generator=generator)

    def factors(self) -> list[Tensor]:
        """K of each axis, (nₐ, nₐ), in at least float32."""
        bases = [orthonormal(free) for free in self.free]
        spectra = [at_least_float32(theta).sigmoid() for theta in self.theta]
        return [u * s @ u.T for u, s in zip(bases, spectra, strict=True)]

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        grid = x.unflatten(1, self.axes)  # (B, n₁, …, nₐ, d)
        for axis, k in enumerate(self.factors(), start=1):
            grid = (k.to(x.dtype) @ grid.movedim(axis, -2)).movedim(-2, axis)
        return grid.flatten(1, -2)

    def neutral(self) -> nn.Module:
        return nn.Identity()

    def signature(self, start: Mixer, x: Tensor) -> dict[str, Observed]:
        assert isinstance(start, TensorMixer)
        bases = [orthonormal(free.double()) for free in self.free]
        before = [orthonormal(free.double()) for free in start.free]
        spectra = [theta.double().sigmoid() for theta in self.theta]
        eye = [torch.eye(u.shape[1], dtype=u.dtype, device=u.device) for u in bases]
        shares = [s / s.sum() for s in spectra]
        # exp of the spectrum's entropy, as a share of the rank: 1 is flat (Roy & Vetterli 2007)
        effective = [(-(p * p.log()).sum()).exp() / len(p) for p in shares]
        # mean squared sine of the principal angles between the subspaces: 0 is unmoved
        turned = [
            1 - (u.T @ v).square().sum() / u.shape[1] for u, v in zip(bases, before, strict=True)
        ]
        least = sum(1 / len(theta) for theta in self.theta) / len(spectra)  # one value alone
        norms = [torch.linalg.matrix_norm(k.double(), 2).item() for k in self.factors()]
        errors = [
            torch.linalg.matrix_norm(u.T @ u - i).item() for u, i in zip(bases, eye, strict=True)
        ]
        return {
            "effective_rank_ratio": Observed(
                torch.stack(effective).mean().item(), least=least, most=1.0
            ),
            "subspace_distance_from_start": Observed(
                torch.stack(turned).mean().item(), least=0.0, most=1.0
            ),
            "max_singular_value": Observed(max(norms), over="max", least=0.0, most=1.0),
            "max_orthonormality_error": Observed(max(errors), over="max", least=0.0),
            "mixing_norm_ratio": Observed((self(x).norm() / x.norm()).item(), least=0.0, most=1.0),
        }

    def artifacts(self, x: Tensor) -> dict[str, Tensor]:
        spectra = {f"spectrum{a}": theta.sigmoid() for a, theta in enumerate(self.theta)}  # (r,)
        return spectra | {f"factor{a}": k for a, k in enumerate(self.factors())}  # (n, n)
