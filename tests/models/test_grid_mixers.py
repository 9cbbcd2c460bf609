"""The mixers that the tensor mixer is compared with, against loops written by hand."""

from __future__ import annotations

import cmath
import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import Attention
from models.axial_attention import AxialAttention
from models.causal_tensor_mixer import CausalTensorMixer
from models.fnet import FNet, fft_flops
from models.gmlp import GMLP
from models.mlp_mixer import MLPMixer
from models.offset_table import OffsetTable
from models.random_synthesizer import RandomSynthesizer
from models.tensor_mixer import TensorMixer
from models.tensor_mixer_controls import FullMixing, Unconstrained

D, H, B = 6, 3, 2
GRIDS = [(5,), (2, 3), (3, 2), (2, 2, 3)]


def made(mixer: Any) -> Any:
    """With parameters that are not alike."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return mixer.double()


def tokens(axes: tuple[int, ...]) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(B, math.prod(axes), D, generator=generator, dtype=torch.float64)


def places(axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Where each token stands, in their order."""
    return list(itertools.product(*map(range, axes)))


def lines(axes: tuple[int, ...], axis: int) -> list[list[int]]:
    """Tokens of each line along an axis, in order."""
    found: dict[tuple[int, ...], list[int]] = {}
    for token, place in enumerate(places(axes)):
        found.setdefault(place[:axis] + place[axis + 1 :], []).append(token)
    return list(found.values())


@pytest.mark.parametrize("axes", GRIDS)
def test_offset_table_has_a_number_for_every_offset(axes: tuple[int, ...]) -> None:
    bias = made(OffsetTable(H, axes, gamma=0.5))
    at = places(axes)
    shape = (H, *(2 * n - 1 for n in axes))
    table = bias.table.reshape(shape)  # by head and offset, from −(n − 1)
    q = torch.zeros(B, H, len(at), 2, dtype=torch.float64)
    found = bias(q, q, tokens(axes))
    assert found.shape == (1, H, len(at), len(at))
    for i, j, h in itertools.product(range(len(at)), range(len(at)), range(H)):
        offset = [a - b + n - 1 for a, b, n in zip(at[i], at[j], axes, strict=True)]
        assert found[0, h, i, j] == 0.5 * table[(h, *offset)]
    torch.testing.assert_close(bias(q[:, :, -1:], q, tokens(axes)), found[:, :, -1:])


def test_offset_table_sees_how_far_it_moved() -> None:
    start, bias = OffsetTable(H, (4,), gamma=2.0), OffsetTable(H, (4,), gamma=2.0)
    with torch.no_grad():
        bias.table += 3.0
    seen = bias.signature(start, torch.zeros(1), torch.zeros(1), torch.zeros(1))
    assert seen["table_distance_from_start"].value == pytest.approx(6.0)


@pytest.mark.parametrize("axes", GRIDS)
def test_axial_attention_is_the_sum_of_attention_along_lines(axes: tuple[int, ...]) -> None:
    mixer, x = made(AxialAttention(D, H, axes)), tokens(axes)
    expected = torch.zeros_like(x)
    for axis, own in enumerate(mixer.along):
        for line in lines(axes, axis):
            q, k, v = (own.qkv(x[:, line])).chunk(3, dim=-1)
            mixed = torch.zeros(B, len(line), D, dtype=torch.float64)
            for h in range(H):
                head = slice(h * D // H, (h + 1) * D // H)
                logits = q[..., head] @ k[..., head].transpose(1, 2) / math.sqrt(D // H)
                mixed[..., head] = logits.softmax(-1) @ v[..., head]
            expected[:, line] += own.out(mixed)
    torch.testing.assert_close(mixer(x), expected)


def test_axial_attention_on_one_axis_is_dense_attention() -> None:
    axial, dense = made(AxialAttention(D, H, (5,))), Attention(D, H, (5,), causal=False).double()
    dense.load_state_dict(axial.along[0].state_dict())
    torch.testing.assert_close(axial(tokens((5,))), dense(tokens((5,))))


@pytest.mark.parametrize("axes", GRIDS)
def test_mlp_mixer_is_the_sum_of_mlps_along_lines(axes: tuple[int, ...]) -> None:
    mixer, x = made(MLPMixer(axes, expansion=2)), tokens(axes)
    expected = torch.zeros_like(x)
    for axis, mlp in enumerate(mixer.along):
        assert mlp[0].out_features == 2 * axes[axis]
        for line in lines(axes, axis):
            for c in range(D):
                hidden = F.gelu(x[:, line, c] @ mlp[0].weight.T + mlp[0].bias)
                expected[:, line, c] += hidden @ mlp[2].weight.T + mlp[2].bias
    torch.testing.assert_close(mixer(x), expected)


@pytest.mark.parametrize("axes", [(5,), (2, 3), (2, 2, 2)])
def test_fnet_is_the_real_part_of_the_fourier_sum(axes: tuple[int, ...]) -> None:
    x, n = tokens(axes), math.prod(axes)
    at = places((*axes, D))
    flat = x.reshape(B, -1)
    expected = torch.zeros_like(flat)
    for out, frequency in enumerate(at):
        for place, where in enumerate(at):
            turn = sum(f * w / m for f, w, m in zip(frequency, where, (*axes, D), strict=True))
            expected[:, out] += flat[:, place] * cmath.exp(-2j * math.pi * turn).real
    expected = expected.view_as(x) / math.sqrt(n * D)
    torch.testing.assert_close(FNet(axes)(x), expected, rtol=1e-5, atol=1e-6)  # in float32 inside


def test_fft_flops_by_hand() -> None:
    assert fft_flops(torch.Size([2, 4, 8]), [1, 2]) == 5 * 64 * 5


@pytest.mark.parametrize("axes", GRIDS)
def test_gmlp_gates_by_a_matrix_over_tokens(axes: tuple[int, ...]) -> None:
    mixer, x = made(GMLP(D, axes)), tokens(axes)
    u, v = F.gelu(mixer.into(x)).split(D, dim=-1)
    v = F.layer_norm(v, (D,), mixer.norm.weight, mixer.norm.bias)
    expected = torch.zeros_like(u)
    for i in range(x.shape[1]):
        mixed = sum(mixer.weight[i, j] * v[:, j] for j in range(x.shape[1]))
        expected[:, i] = u[:, i] * (mixed + 1 + mixer.gate[i])
    torch.testing.assert_close(mixer(x), mixer.out(expected))


def test_gmlp_starts_without_a_word_between_tokens() -> None:
    mixer, x = GMLP(D, (5,)).double(), tokens((5,))
    torch.testing.assert_close(mixer(x)[:, :1], mixer.out(F.gelu(mixer.into(x))[:, :1, :D]))


@pytest.mark.parametrize("axes", GRIDS)
def test_random_synthesizer_weighs_without_looking(axes: tuple[int, ...]) -> None:
    mixer, x = made(RandomSynthesizer(D, H, axes, rank=2)), tokens(axes)
    v = mixer.value(x)
    mixed = torch.zeros_like(x)
    for h in range(H):
        head = slice(h * D // H, (h + 1) * D // H)
        for i in range(x.shape[1]):
            logits = torch.stack([mixer.left[h, i] @ row for row in mixer.right[h]])
            weights = logits.exp() / logits.exp().sum()
            mixed[:, i, head] = sum(w * v[:, j, head] for j, w in enumerate(weights))
    torch.testing.assert_close(mixer(x), mixer.out(mixed))


def test_random_synthesizers_logits_start_with_variance_one() -> None:
    mixer = RandomSynthesizer(64, 4, (64,))
    for i, name in enumerate(("left", "right")):
        found = mixer.draw(name, torch.Generator().manual_seed(i))
        assert found is not None
        getattr(mixer, name).data.copy_(found)
    logits = mixer.left @ mixer.right.transpose(-1, -2)
    assert logits.std().item() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(("axes", "time"), [((3, 2, 4), 0), ((2, 3, 4), 1), ((4, 3), 1)])
def test_causal_tensor_mixer_decays_over_time_and_mixes_within(
    axes: tuple[int, ...], time: int
) -> None:
    mixer, x = made(CausalTensorMixer(D, H, axes, time)), tokens(axes)
    p = mixer.time
    at, steps = places(axes), axes[time]
    within = torch.zeros_like(x)
    for step in range(steps):
        frame = [token for token, place in enumerate(at) if place[time] == step]
        within[:, frame] = mixer.space(x[:, frame])
    expected = torch.zeros_like(x)
    for h in range(H):
        head = slice(h * D // H, (h + 1) * D // H)
        w, r = p.logits[h].softmax(0), p.log_rates[h].exp()
        values = [(w * torch.exp(-r * lag)).sum() for lag in range(steps)]
        for i, here in enumerate(at):
            for j, there in enumerate(at):
                lag = here[time] - there[time]
                same = here[:time] + here[time + 1 :] == there[:time] + there[time + 1 :]
                if same and lag >= 0:
                    expected[:, i, head] += values[lag] / sum(values) * within[:, j, head]
    torch.testing.assert_close(mixer(x), expected)


def test_causal_tensor_mixer_cannot_grow_a_vector() -> None:
    mixer = made(CausalTensorMixer(D, H, (8, 3), 0))
    for decay in mixer.decay():
        assert torch.linalg.matrix_norm(decay, 2) <= 1
        assert torch.equal(decay, decay.tril())
        assert decay[-1].sum().item() == pytest.approx(1)


@pytest.mark.parametrize(("axes", "time"), [((8,), 0), ((4, 4), None)])
def test_causal_tensor_mixer_needs_time_and_space(axes: tuple[int, ...], time: int | None) -> None:
    with pytest.raises(ValueError, match="needs an axis of time and others beside it"):
        CausalTensorMixer(D, H, axes, time)


def every(axes: tuple[int, ...]) -> list[nn.Module]:
    kinds: list[Any] = [TensorMixer, Unconstrained, FullMixing, FNet, MLPMixer]
    return [
        *(kind(axes) for kind in kinds),
        *(AxialAttention(D, H, axes), RandomSynthesizer(D, H, axes), GMLP(D, axes)),
        *(
            Attention(D, H, axes, causal=False, bias=OffsetTable),
            CausalTensorMixer(D, H, axes, 0),
        ),
    ]


@pytest.mark.parametrize("mixer", every((3, 4)), ids=lambda m: type(m).__name__)
def test_a_grid_of_another_size_is_refused_in_words(mixer: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"is built for a grid of \(3, 4\), 12 tokens, found 13"):
        mixer(torch.zeros(1, 13, D))


@pytest.mark.parametrize("mixer", every((3, 4)), ids=lambda m: type(m).__name__)
def test_takes_a_batch_of_any_size_and_keeps_examples_apart(mixer: nn.Module) -> None:
    made(mixer)
    x = torch.randn(5, 12, D, generator=torch.Generator().manual_seed(3)).double()
    for i in range(5):
        torch.testing.assert_close(mixer(x)[i], mixer(x[i : i + 1])[0], rtol=1e-5, atol=1e-6)
