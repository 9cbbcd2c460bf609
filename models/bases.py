"""Orthonormal bases that are known before training, lowest frequencies first."""

from __future__ import annotations

import numpy as np
import torch
from scipy.fft import idct
from scipy.signal.windows import dpss
from torch import Tensor


def cosines(n: int, r: int) -> Tensor:
    """The first r columns of the orthonormal DCT-II's basis, (n, r) in float64.

    Column k is ∝ cos(π·(i + ½)·k/n) (Ahmed, Natarajan & Rao 1974).
    """
    return torch.from_numpy(idct(np.eye(n, r), axis=0, norm="ortho"))


def slepians(n: int, r: int) -> Tensor:
    """The r sequences of n that concentrate best in frequencies below r/(2n), (n, r) in float64.

    Discrete prolate spheroidal sequences (Slepian 1978) of time-bandwidth product r/2.
    """
    # a copy: scipy's come with negative strides, which torch does not take
    return torch.from_numpy(dpss(n, r / 2, Kmax=r).T.copy())


def overlap(u: Tensor, v: Tensor) -> float:
    """Mean squared cosine of the principal angles between two subspaces, by orthonormal columns.

    (n, r) and (n, r) → 1 where they are one, 0 where they are orthogonal.
    """
    return ((u.T @ v).square().sum() / u.shape[1]).item()
