"""The tensor mixer against the dense Kronecker product, and what its factors promise."""

from __future__ import annotations

import math
from functools import reduce

import pytest
import torch

from models.tensor_mixer import TensorMixer, orthonormal

D = 5


def drawn(axes: tuple[int, ...], rank: int | str = "auto") -> TensorMixer:
    torch.manual_seed(0)
    mixer = TensorMixer(axes, rank)
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter)
    return mixer


@pytest.mark.parametrize("axes", [(6,), (7,), (4, 4), (3, 5), (2, 3, 4), (4, 2, 3)])
def test_is_the_dense_kronecker_product(axes: tuple[int, ...]) -> None:
    mixer = drawn(axes)
    dense = reduce(torch.kron, mixer.factors())
    x = torch.randn(2, math.prod(axes), D)
    torch.testing.assert_close(mixer(x), dense @ x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", [(8,), (3, 5), (2, 3, 4)])
def test_factors_are_symmetric_positive_and_below_one(axes: tuple[int, ...]) -> None:
    for k, n in zip(drawn(axes).factors(), axes, strict=True):
        assert k.shape == (n, n)
        torch.testing.assert_close(k, k.T)
        spectrum = torch.linalg.eigvalsh(k.double())
        assert spectrum.min() > -1e-6
        assert spectrum.max() < 1


def test_eigenvalues_are_the_sigmoids() -> None:
    mixer = drawn((8,))
    spectrum = torch.linalg.eigvalsh(mixer.factors()[0].double())[-4:]
    expected = mixer.theta[0].double().sigmoid().sort().values
    torch.testing.assert_close(spectrum, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])  # of a column: Householder's R has its, or the other
def test_basis_is_orthonormal_spans_the_same_and_has_one_sign(sign: int) -> None:
    free = sign * torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
    u = orthonormal(free)
    torch.testing.assert_close(u.T @ u, torch.eye(4), atol=1e-5, rtol=0)
    r = u.T @ free
    torch.testing.assert_close(u @ r, free, atol=1e-5, rtol=1e-5)
    assert (r.diagonal() > 0).all()
    torch.testing.assert_close(r.tril(-1), torch.zeros(4, 4), atol=1e-5, rtol=0)


def test_auto_rank_is_half_of_each_axis() -> None:
    assert [tuple(p.shape) for p in TensorMixer((32, 7)).free] == [(32, 16), (7, 3)]


@pytest.mark.parametrize(
    ("axes", "rank"), [((8,), 8), ((8,), 9), ((8,), 0), ((8, 4), 4), ((1,), "auto")]
)
def test_full_rank_and_worse_are_refused(axes: tuple[int, ...], rank: int | str) -> None:
    with pytest.raises(ValueError, match="below the axis length"):
        TensorMixer(axes, rank)


def test_signature_of_planted_parameters() -> None:
    trained, start = drawn((8,)), drawn((8,))
    with torch.no_grad():
        trained.free[0].copy_(torch.eye(8)[:, :4])
        start.free[0].copy_(torch.eye(8)[:, 2:6])  # two of four directions are shared
        trained.theta[0].copy_(torch.tensor([40.0, -40.0, -40.0, -40.0]))  # one eigenvalue of 1
    x = torch.zeros(1, 8, D)
    x[:, 0] = 3.0  # half of this example lies in the subspace that is kept
    x[:, 7] = 3.0
    seen = trained.signature(start, x)
    assert seen["subspace_distance_from_start"].value == pytest.approx(0.5, abs=1e-6)
    assert seen["effective_rank_ratio"].value == pytest.approx(1 / 4, abs=1e-6)
    assert seen["effective_rank_ratio"].least == 1 / 4  # which only one value alone reaches
    assert seen["effective_rank_ratio"].most == 1
    assert seen["max_singular_value"].value == pytest.approx(1.0, abs=1e-6)
    assert seen["max_orthonormality_error"].value < 1e-6
    assert seen["mixing_norm_ratio"].value == pytest.approx(math.sqrt(0.5), abs=1e-6)


def test_stays_in_float32_and_takes_bfloat16_tokens() -> None:
    mixer = drawn((8,))
    x = torch.randn(1, 8, D)
    assert mixer(x.bfloat16()).dtype == torch.bfloat16
    assert mixer.to(torch.bfloat16).factors()[0].dtype == torch.float32
    assert mixer.double().factors()[0].dtype == torch.float64
