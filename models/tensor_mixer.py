"""The tensor mixer: a symmetric low-rank contraction along each axis of the token grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Generator, Tensor, nn

from models.bases import cosines, overlap, slepians
from models.grid import along, on_grid
from models.mixer import Mechanism, Mixer, Observed, at_least_float32

Start = Literal["random", "dct", "dpss"]
STARTS: Mapping[str, Callable[[int, int], Tensor]] = {"dct": cosines, "dpss": slepians}


def orthonormal(free: Tensor) -> Tensor:
    """The Q of a thin QR with positive diagonal of R (hence unique), (n, r) → (n, r).

    In at least float32: torch has no QR of less.
    """
    q, r = torch.linalg.qr(at_least_float32(free))
    return q * torch.where(r.diagonal() < 0, -1.0, 1.0)


def qr_flops(shape: torch.Size, *args: Any, **kwargs: Any) -> int:
    """Householder thin QR with its Q formed, (n, r): 2·(2nr² − ⅔r³) (Golub & Van Loan, §5.2)."""
    n, r = shape[-2:]
    return int(4 * n * r**2 - 4 * r**3 / 3)


def ranks_of(axes: tuple[int, ...], rank: int | Literal["auto"] | list[int]) -> list[int]:
    """One rank per axis.

    Raises:
        ValueError: a rank outside 1 … n − 1 of an axis of length n, or too many or few of them.
    """
    if rank == "auto":
        ranks = [n // 2 for n in axes]
    else:
        ranks = rank if isinstance(rank, list) else [rank] * len(axes)
    if len(ranks) != len(axes) or not all(1 <= r < n for r, n in zip(ranks, axes, strict=True)):
        raise ValueError(
            f"rank is {rank}, must be auto for half of each axis, a whole number, or a list of one "
            f"per axis: each from 1 to below the length of its axis, of {axes}"
        )
    return ranks


class TensorMixer(Mixer, Mechanism):
    """x ↦ U·(s ⊙ Uᵀx) over the token axes, U = U₁ ⊗ … ⊗ Uₐ orthonormal, all channels alike.

    The spectrum s lies between 0 and 1: the outer product of sigmoid(θₐ), which makes the mixer
    K₁ ⊗ … ⊗ Kₐ with Kₐ = Uₐ·diag(sigmoid(θₐ))·Uₐᵀ, or free. So it is symmetric, positive
    semidefinite and of norm below 1: it can smooth and select, not shift, difference or look at
    content. Nothing of size N × N is formed: bases act axis by axis, in at most 4·N·d·Σ rₐ
    operations instead of 2·N²·d. Closest relative: the factorised random Synthesizer (Tay et al.
    2021, arXiv 2005.00743).

    Args:
        rank: of every axis, or a list of one for each; `auto` is half of each axis.
        core: `product`, or `free` for one sigmoid per r₁ × … × rₐ.
        start: of the bases: `random`, or the lowest frequencies, `dct` (cosines) or `dpss`.
        flat: takes the grid for one axis of N tokens.
    Raises:
        ValueError: as `ranks_of`, or a core or start of another name.
    """

    by_construction: ClassVar[Mapping[str, str]] = {
        "max_singular_value": "a sigmoid is below 1 and U is orthonormal",
        "max_orthonormality_error": "U is a Q factor: this measures rounding",
        "mixing_norm_ratio": "a linear map of norm below 1 cannot grow a vector",
        "mixer_expansion": "a linear map of norm below 1 moves no two examples apart",
    }

    flop_rules: ClassVar[Mapping[Any, Callable[..., int]]] = {
        torch.ops.aten.linalg_qr: qr_flops,
    }

    def __init__(
        self,
        axes: tuple[int, ...],
        rank: int | Literal["auto"] | list[int] = "auto",
        core: Literal["product", "free"] = "product",
        start: Start = "random",
        flat: bool = False,
    ) -> None:
        super().__init__()
        self.axes = (math.prod(axes),) if flat else axes
        if core not in ("product", "free"):
            raise ValueError(f"core is {core}, must be product or free")
        if start != "random" and start not in STARTS:
            raise ValueError(f"start is {start}, must be random or one of {', '.join(STARTS)}")
        ranks = ranks_of(self.axes, rank)
        self.drawn = start == "random"
        self.free = nn.ParameterList(
            [
                torch.empty(n, r) if start == "random" else STARTS[start](n, r).float()
                for n, r in zip(self.axes, ranks, strict=True)
            ]
        )  # (nₐ, rₐ)
        # shaped to be multiplied: (r₁, 1, …), (1, r₂, …), …, or all of (r₁, …, rₐ) at once
        shapes = [[r if i == a else 1 for i in range(len(ranks))] for a, r in enumerate(ranks)]
        half = math.log(2 ** len(ranks) - 1)  # of the same product: sigmoid(−half) = ½ᵃ
        thetas = [torch.zeros(shape) for shape in shapes]
        self.theta = nn.ParameterList(thetas if core == "product" else [torch.full(ranks, -half)])

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        if not (self.drawn and name.startswith("free")):
            return None
        return torch.randn(self.get_parameter(name).shape, generator=generator)

    def bases(self) -> list[Tensor]:
        """U of each axis, (nₐ, rₐ), in at least float32."""
        return [orthonormal(free) for free in self.free]

    def eigenvalues(self) -> list[Tensor]:
        """What multiplies to the spectrum, broadcast to (r₁, …, rₐ), in at least float32."""
        return [at_least_float32(theta).sigmoid() for theta in self.theta]

    def forward(self, x: Tensor) -> Tensor:  # (B, N, d) → (B, N, d)
        grid = on_grid(x, self.axes, self)  # (B, n₁, …, nₐ, d)
        bases = [u.to(x.dtype) for u in self.bases()]
        for axis, u in enumerate(bases):
            grid = along(u.T, grid, axis)  # (B, r₁, …, rₐ, d) in the end
        for s in self.eigenvalues():
            grid = grid * s.to(x.dtype)[..., None]
        for axis, u in enumerate(bases):
            grid = along(u, grid, axis)
        return grid.flatten(1, -2)

    def neutral(self) -> nn.Module:
        return nn.Identity()

    def signature(self, start: Mixer, x: Tensor) -> dict[str, Observed]:
        assert isinstance(start, TensorMixer)
        bases = [orthonormal(free.double()) for free in self.free]
        before = [orthonormal(free.double()) for free in start.free]
        values = [s.double().flatten() for s in self.eigenvalues()]
        moved = torch.stack(
            [
                (now - then).double().square().mean()
                for now, then in zip(self.theta, start.theta, strict=True)
            ]
        )
        shares = [s.abs() / s.abs().sum() for s in values]
        # exp of the spectrum's entropy, as a share of the rank: 1 is flat (Roy & Vetterli 2007)
        effective = [(-(p * p.log()).nansum()).exp().item() / len(p) for p in shares]
        norms = [torch.linalg.matrix_norm(u, 2).item() ** 2 for u in bases]
        eye = [torch.eye(u.shape[1], dtype=u.dtype, device=u.device) for u in bases]
        errors = [
            torch.linalg.matrix_norm(u.T @ u - i).item() for u, i in zip(bases, eye, strict=True)
        ]
        largest = math.prod(s.abs().max().item() for s in values) * math.prod(norms)
        angles = {
            f"{name}_overlap": [overlap(u, basis(*u.shape).to(u)) for u in bases]
            for name, basis in STARTS.items()
        }
        turned = [1 - overlap(u, v) for u, v in zip(bases, before, strict=True)]
        return {
            "effective_rank_ratio": Observed(
                _mean(effective), least=_mean([1 / len(s) for s in values]), most=1.0
            ),
            # mean squared sine of the principal angles to where it started: 0 is unmoved
            "subspace_distance_from_start": Observed(_mean(turned), least=0.0, most=1.0),
            "theta_distance_from_start": Observed(moved.mean().sqrt().item(), least=0.0),
            "max_singular_value": Observed(largest, over="max", least=0.0, most=1.0),
            "max_orthonormality_error": Observed(max(errors), over="max", least=0.0),
            "mixing_norm_ratio": Observed((self(x).norm() / x.norm()).item(), least=0.0, most=1.0),
        } | {name: Observed(_mean(each), least=0.0, most=1.0) for name, each in angles.items()}

    def artifacts(self, x: Tensor) -> dict[str, Tensor]:
        spectra = {f"spectrum{a}": s for a, s in enumerate(self.eigenvalues())}
        return spectra | {f"basis{a}": u for a, u in enumerate(self.bases())}  # (nₐ, rₐ)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
