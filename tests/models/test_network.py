"""The network around the mixers: hybrids, MLPs by name, positions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.attention import Attention
from models.mixer import Mixer
from models.network import Network, mixers_in_turn
from models.no_mixer import NoMixer
from models.tensor_mixer import TensorMixer

D, N = 6, 4
Make = Callable[..., Mixer]
dense = partial(Attention, causal=False)


def network(*mixers: Make, **settings: Any) -> Network:
    torch.manual_seed(0)
    dim, layers = settings.pop("dim", D), settings.pop("layers", 2)
    given = {"dim": dim, "heads": 2, "context": N, "axes": (N,), "time_axis": None}
    made = mixers_in_turn(mixers, layers, **given)
    return Network(nn.Linear(1, D), nn.Linear(D, 3), made, N, dim, **settings)


def test_mixers_of_a_hybrid_take_turns() -> None:
    made = network(dense, NoMixer, layers=4)
    assert [type(m) for m in made.mixers] == [Attention, NoMixer, Attention, NoMixer]
    made = network(NoMixer, dense, TensorMixer, layers=3)
    assert [type(m) for m in made.mixers] == [NoMixer, Attention, TensorMixer]
    assert made(torch.randn(2, N, 1)).shape == (2, N, 3)


def test_layers_that_no_whole_turn_fills_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 mixers, .* must divide model\.layers 3"):
        network(dense, NoMixer, layers=3)


def gelu(mlp: nn.Module, x: Tensor) -> Tensor:
    hidden = x @ mlp[0].weight.T + mlp[0].bias
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    return hidden @ mlp[2].weight.T + mlp[2].bias


def swiglu(mlp: nn.Module, x: Tensor) -> Tensor:
    gate = x @ mlp.gate.weight.T + mlp.gate.bias
    up = x @ mlp.up.weight.T + mlp.up.bias
    return (gate / (1 + torch.exp(-gate)) * up) @ mlp.down.weight.T + mlp.down.bias


@pytest.mark.parametrize("formula", [gelu, swiglu])
def test_an_mlp_is_what_its_name_says(formula: Callable[[nn.Module, Tensor], Tensor]) -> None:
    block = network(NoMixer, mlp=formula.__name__).blocks[0]
    x = torch.randn(2, N, D)
    mixed = x + nn.functional.layer_norm(x, (D,))
    normed = nn.functional.layer_norm(mixed, (D,))
    torch.testing.assert_close(block(x), mixed + formula(block.mlp, normed))


def test_both_mlps_have_as_many_parameters() -> None:
    sizes = [
        sum(p.numel() for p in network(NoMixer, dim=48, mlp=mlp).blocks[0].mlp.parameters())
        for mlp in ("gelu", "swiglu")
    ]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.02)


def test_without_an_mlp_a_block_is_its_mixer_alone() -> None:
    block = network(NoMixer, mlp=None).blocks[0]
    x = torch.randn(2, N, D)
    torch.testing.assert_close(block(x), x + nn.functional.layer_norm(x, (D,)))
    assert {name for name, _ in block.named_parameters()} == {
        "mixer_norm.weight",
        "mixer_norm.bias",
    }


def test_an_mlp_of_no_such_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mlp is relu, must be null or one of gelu"):
        network(NoMixer, mlp="relu")


def test_learned_positions_are_those_of_the_first_tokens_and_none_are_none() -> None:
    made = network(NoMixer)
    with torch.no_grad():
        made.positions.normal_()
    x = torch.randn(2, N, 1)
    torch.testing.assert_close(made(x)[:, :3], made(x[:, :3]))
    assert not made(x.flip(1)).allclose(made(x).flip(1))
    without = network(NoMixer, positions="none")
    assert "positions" not in dict(without.named_parameters())
    torch.testing.assert_close(without(x.flip(1)), without(x).flip(1))
