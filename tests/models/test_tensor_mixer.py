"""The tensor mixer against the dense Kronecker product, and what its factors promise."""

from __future__ import annotations

import copy
import io
import math
from functools import reduce
from typing import Any

import pytest
import torch
from torch import Tensor

from models.bases import cosines, overlap, slepians
from models.tensor_mixer import TensorMixer, orthonormal
from models.tensor_mixer_controls import FullMixing, NoSigmoid, Unconstrained
from tests import reference

D = 5
GRIDS = [(6,), (7,), (4, 4), (3, 5), (5, 3), (2, 3, 4), (4, 2, 3)]


def drawn(axes: tuple[int, ...], rank: Any = "auto", **keys: Any) -> TensorMixer:
    torch.manual_seed(0)
    mixer = TensorMixer(axes, rank, **keys)
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter)
    return mixer


def dense(mixer: TensorMixer, core: str) -> Tensor:
    """The whole matrix, (N, N), as the docstring says it, with Gram and Schmidt for QR."""
    free, theta = ([p.double() for p in group] for group in (mixer.free, mixer.theta))
    u = reduce(torch.kron, [reference.orthonormal(f) for f in free])  # (N, r₁·…·rₐ)
    if core == "free":
        spectrum = theta[0].sigmoid().flatten()
    else:
        spectrum = reduce(torch.kron, [t.sigmoid().flatten() for t in theta])
    return u @ torch.diag(spectrum) @ u.T


@pytest.mark.parametrize("core", ["product", "free"])
@pytest.mark.parametrize("axes", GRIDS)
def test_is_the_dense_kronecker_product_and_so_are_its_gradients(
    axes: tuple[int, ...], core: str
) -> None:
    mixer = drawn(axes, core=core)
    x = torch.randn(2, math.prod(axes), D)
    torch.testing.assert_close(
        mixer(x).double(), dense(mixer, core) @ x.double(), rtol=0, atol=1e-5
    )
    mixer, x = mixer.double(), x.double().requires_grad_()
    pulled = torch.randn(x.shape, dtype=torch.float64)
    inputs = [x, *mixer.parameters()]
    ours = torch.autograd.grad((mixer(x) * pulled).sum(), inputs)
    expected = dense(mixer, core) @ x
    theirs = torch.autograd.grad((expected * pulled).sum(), inputs)
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-12)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("core", ["product", "free"])
@pytest.mark.parametrize("axes", [(8,), (3, 5), (2, 3, 4)])
def test_is_symmetric_positive_and_below_one(axes: tuple[int, ...], core: str) -> None:
    mixer, n = drawn(axes, core=core).double(), math.prod(axes)
    whole = mixer(torch.eye(n, dtype=torch.float64)[None])[0]  # (N, N), column by channel
    torch.testing.assert_close(whole, whole.T)
    eigenvalues = torch.linalg.eigvalsh(whole)
    assert eigenvalues.min() > -1e-12
    assert eigenvalues.max() < 1
    assert int((eigenvalues > 1e-12).sum()) == math.prod(k // 2 for k in axes)


def test_both_cores_start_alike() -> None:
    x = torch.randn(2, 15, D)
    found = []
    for core in ("product", "free"):
        mixer = TensorMixer((3, 5), core=core, start="dct")
        found.append(mixer(x))
    torch.testing.assert_close(*found)


def test_flat_is_one_axis_of_all_tokens() -> None:
    torch.manual_seed(1)
    flat, line = TensorMixer((3, 4), flat=True), TensorMixer((12,))
    torch.nn.init.normal_(flat.free[0])
    line.load_state_dict(flat.state_dict())
    x = torch.randn(2, 12, D)
    assert torch.equal(flat(x), line(x))


@pytest.mark.parametrize("sign", [1, -1])  # of a column: Householder's R has its, or the other
def test_basis_is_orthonormal_spans_the_same_and_has_one_sign(sign: int) -> None:
    free = sign * torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
    u = orthonormal(free)
    torch.testing.assert_close(u.T @ u, torch.eye(4), atol=1e-5, rtol=0)
    r = u.T @ free
    torch.testing.assert_close(u @ r, free, atol=1e-5, rtol=1e-5)
    assert (r.diagonal() > 0).all()
    torch.testing.assert_close(r.tril(-1), torch.zeros(4, 4), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("axes", "rank", "expected"),
    [
        ((32, 7), "auto", [(32, 16), (7, 3)]),
        ((32, 7), 6, [(32, 6), (7, 6)]),
        ((32, 7), [31, 2], [(32, 31), (7, 2)]),
    ],
)
def test_rank_per_axis(axes: tuple[int, ...], rank: Any, expected: list[tuple[int, int]]) -> None:
    assert [tuple(p.shape) for p in TensorMixer(axes, rank).free] == expected


@pytest.mark.parametrize(
    ("axes", "rank"),
    [
        *(((8,), 8), ((8,), 9), ((8,), 0), ((8, 4), 4), ((1,), "auto"), ((8, 4), [4, 4])),
        *(((8, 4), [4]), ((8,), [4, 2])),
    ],
)
@pytest.mark.parametrize("kind", [TensorMixer, Unconstrained])
def test_full_rank_and_worse_are_refused(kind: Any, axes: tuple[int, ...], rank: Any) -> None:
    with pytest.raises(ValueError, match="below the length of its axis"):
        kind(axes, rank)


@pytest.mark.parametrize("key", ["core", "start"])
def test_names_are_refused_that_are_none(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} is dense, must be"):
        TensorMixer((8,), **{key: "dense"})


@pytest.mark.parametrize("n", range(2, 40))
def test_known_bases_are_those_of_a_second_way_and_of_full_rank(n: int) -> None:
    for r in {1, n // 2, n - 1}:
        for ours, theirs in (
            (cosines(n, r), reference.cosine_basis(n, r)),
            (slepians(n, r), reference.slepian_basis(n, r)),
        ):
            eye = torch.eye(r, dtype=torch.float64)
            torch.testing.assert_close(ours.T @ ours, eye, rtol=0, atol=1e-9)
            assert torch.linalg.svdvals(ours.T @ theirs).min() > 1 - 1e-6


@pytest.mark.parametrize("start", ["dct", "dpss"])
def test_starts_where_it_is_said_to(start: str) -> None:
    mixer = TensorMixer((9, 6), start=start)  # type: ignore[arg-type]
    basis = {"dct": reference.cosine_basis, "dpss": reference.slepian_basis}[start]
    for u in mixer.bases():
        assert overlap(u.double(), basis(*u.shape)) == pytest.approx(1, abs=1e-6)
    assert mixer.draw("free.0", torch.Generator()) is None


def test_signature_of_planted_parameters() -> None:
    trained, start = drawn((8,)), drawn((8,))
    with torch.no_grad():
        trained.free[0].copy_(torch.eye(8)[:, :4])
        start.free[0].copy_(torch.eye(8)[:, 2:6])  # two of four directions are shared
        trained.theta[0].copy_(torch.tensor([40.0, -40.0, -40.0, -40.0]))  # one eigenvalue of 1
        start.theta[0].copy_(torch.tensor([38.0, -38.0, -42.0, -42.0]))
    x = torch.zeros(1, 8, D)
    x[:, 0] = 3.0  # half of this example lies in the subspace that is kept
    x[:, 7] = 3.0
    seen = trained.signature(start, x)
    assert seen["subspace_distance_from_start"].value == pytest.approx(0.5, abs=1e-6)
    assert seen["theta_distance_from_start"].value == pytest.approx(2.0, abs=1e-6)
    assert seen["effective_rank_ratio"].value == pytest.approx(1 / 4, abs=1e-6)
    assert seen["effective_rank_ratio"].least == 1 / 4  # which only one value alone reaches
    assert seen["effective_rank_ratio"].most == 1
    assert seen["max_singular_value"].value == pytest.approx(1.0, abs=1e-6)
    assert seen["max_orthonormality_error"].value < 1e-6
    assert seen["mixing_norm_ratio"].value == pytest.approx(math.sqrt(0.5), abs=1e-6)
    dct = reference.cosine_basis(8, 4)[:4]  # what of its columns stands in the first four places
    assert seen["dct_overlap"].value == pytest.approx(dct.square().sum().item() / 4, abs=1e-6)


def test_stays_in_float32_and_takes_bfloat16_tokens() -> None:
    mixer = drawn((8,))
    x = torch.randn(1, 8, D)
    assert mixer(x.bfloat16()).dtype == torch.bfloat16
    assert mixer.to(torch.bfloat16).bases()[0].dtype == torch.float32
    assert mixer(x.bfloat16()).dtype == torch.bfloat16
    assert mixer.double().bases()[0].dtype == torch.float64


def test_copies_pickles_and_vmaps() -> None:
    mixer = drawn((3, 4))
    x = torch.randn(2, 12, D)
    expected = mixer(x)
    expected.sum().backward()
    assert torch.equal(copy.deepcopy(mixer)(x), expected)
    file = io.BytesIO()
    torch.save(mixer.state_dict(), file)
    file.seek(0)
    other = TensorMixer((3, 4))
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), expected)
    stacked = {name: torch.stack([p, 2 * p]) for name, p in mixer.state_dict().items()}

    def one(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(mixer, parameters, (x,))

    both = torch.func.vmap(one)(stacked)
    torch.testing.assert_close(both[0], expected)
    twice = {name: 2 * p for name, p in mixer.state_dict().items()}
    torch.testing.assert_close(both[1], one(twice))


@pytest.mark.parametrize("kind", [TensorMixer, Unconstrained, NoSigmoid, FullMixing])
def test_batches_do_not_mix(kind: Any) -> None:
    torch.manual_seed(0)
    mixer = kind((2, 3))
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(3, 6, D)  # as many examples as one axis is long
    for i in range(3):
        torch.testing.assert_close(mixer(x)[i], mixer(x[i : i + 1])[0])


# The controls -------------------------------------------------------------------------------------


def started(mixer: Any) -> Any:
    """With the start that a network would give it, each parameter's stream keyed by its name."""
    with torch.no_grad():
        for name, parameter in mixer.named_parameters():
            seed = sum(map(ord, name))
            found = mixer.draw(name, torch.Generator().manual_seed(seed))
            if found is not None:
                parameter.copy_(found)
    return mixer


@pytest.mark.parametrize("axes", [(8,), (3, 5)])
@pytest.mark.parametrize("kind", [NoSigmoid, Unconstrained])
def test_a_control_starts_as_the_tensor_mixer(kind: Any, axes: tuple[int, ...]) -> None:
    x = torch.randn(2, math.prod(axes), D)
    ours = started(TensorMixer(axes))(x)
    torch.testing.assert_close(started(kind(axes))(x), ours, rtol=1e-5, atol=1e-6)


def test_without_its_sigmoid_the_spectrum_may_be_anything() -> None:
    mixer = started(NoSigmoid((8,))).double()
    with torch.no_grad():
        mixer.theta[0].copy_(torch.tensor([-3.0, 0.0, 1.0, 2.0]))
    whole = mixer(torch.eye(8, dtype=torch.float64)[None])[0]
    expected = torch.tensor([-2.5, 0, 0, 0, 0, 0.5, 1.5, 2.5], dtype=torch.float64)
    torch.testing.assert_close(torch.linalg.eigvalsh(whole), expected, rtol=0, atol=1e-9)
    seen = mixer.signature(mixer, torch.randn(1, 8, D).double())
    assert seen["max_singular_value"].value == pytest.approx(2.5)
    assert seen["max_singular_value"].most == math.inf
    assert "mixing_norm_ratio" not in mixer.by_construction


def test_unconstrained_is_a_product_of_free_factors() -> None:
    torch.manual_seed(0)
    mixer = Unconstrained((3, 5), [2, 4])
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter)
    whole = torch.kron(*[left @ right.T for left, right in mixer.free])
    x = torch.randn(2, 15, D)
    torch.testing.assert_close(mixer(x), whole @ x, rtol=1e-4, atol=1e-4)


def test_full_mixing_is_its_matrix() -> None:
    mixer = started(FullMixing((2, 3)))
    x = torch.randn(4, 6, D)
    expected = torch.einsum("nm,bmd->bnd", mixer.weight, x)
    torch.testing.assert_close(mixer(x), expected)
    assert mixer.weight.std().item() == pytest.approx(6**-0.5, rel=0.4)
