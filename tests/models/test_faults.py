"""Faults that attention's masks, biases and positions are known for, asked of every variant."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor

from models.attention import Attention
from models.forgetting import Forgetting
from models.network import mechanisms
from tests.conftest import ATTENTION, ON_SEQUENCES, SMALL, small
from training.build import build
from training.config import validated
from training.run import train_one

Compose = Callable[..., DictConfig]
DIM, HEADS = 12, 3


@pytest.fixture(scope="module", params=ATTENTION)
def started(request: pytest.FixtureRequest, composed: Compose) -> Attention:
    sizes = (f"model.dim={DIM}", f"model.heads={HEADS}", "model.layers=1", "track.context=8")
    _, network, _, _ = build(validated(composed(*small(f"variant={request.param}", *sizes))))
    attention = network.mixers[0]
    assert isinstance(attention, Attention)
    torch.manual_seed(0)
    with torch.no_grad():
        for slot in (attention.bias, attention.rotation):
            for parameter in slot.parameters() if slot is not None else ():
                parameter.requires_grad_(True).add_(0.3 * torch.randn(parameter.shape))
    return attention


@pytest.fixture
def attention(started: Attention) -> Attention:
    """Every variant's, with a mechanism that is not at its start, and a copy for each test."""
    torch.manual_seed(0)
    return copy.deepcopy(started)


def tokens(n: int, b: int = 2) -> Tensor:
    return torch.randn(b, n, DIM)


def backward(attention: Attention, x: Tensor) -> list[Tensor]:
    """The gradients of all that trains, and of what was read."""
    x = x.clone().requires_grad_(True)
    given = [p for p in attention.parameters() if p.requires_grad]
    return list(torch.autograd.grad(attention(x).square().sum(), [*given, x]))


@torch.no_grad()
def test_logits_of_any_size_do_not_beat_the_mask(attention: Attention) -> None:
    if not attention.causal:
        pytest.skip("hides nothing")
    attention.qkv.weight.mul_(100)
    x = tokens(7)
    changed = x.clone()
    changed[:, 4:] *= -1000
    q, k, _ = attention.project(changed)
    assert (q @ k.mT).abs().max() > 1e6
    assert attention(changed)[:, :4].equal(attention(x)[:, :4])


@pytest.mark.parametrize("queries", [1, 3, 7])
@torch.no_grad()
def test_what_is_hidden_is_minus_infinity_and_every_query_sees_itself(
    attention: Attention, queries: int
) -> None:
    x = tokens(7)
    q, k, _ = attention.project(x)
    mask = attention.mask(q[:, :, -queries:], k, x)
    if mask is None:
        return
    later = torch.ones(queries, 7, dtype=torch.bool).triu(7 - queries + 1)
    assert mask.is_floating_point()
    assert torch.equal(mask == -math.inf, (later & attention.causal).expand(mask.shape))
    assert not mask.isnan().any()


@torch.no_grad()
def test_one_length_after_another(attention: Attention) -> None:
    """Nothing is kept of 512 tokens that is wrong of 513."""
    unused = copy.deepcopy(attention)
    for n in (512, 513, 511, 8, 512):
        x = tokens(n, b=1)
        assert attention(x).equal(copy.deepcopy(unused)(x))


@torch.no_grad()
def test_a_far_token_stands_where_it_stands_in_half_precision(attention: Attention) -> None:
    """Parameters that bfloat16 holds exactly, and 600 positions, which it does not."""
    attention = attention.bfloat16()
    exact = copy.deepcopy(attention).float()
    x = tokens(600, b=1).bfloat16()
    q, k, _ = attention.project(x)
    if attention.bias is not None:
        seen, expected = attention.bias(q, k, x), exact.bias(q.float(), k.float(), x.float())
        assert seen.dtype == torch.float32
        # its gate is a layer of the network, and rounds as they do
        loose = 0.05 if isinstance(attention.bias, Forgetting) else 1e-5
        torch.testing.assert_close(seen, expected, rtol=loose, atol=loose)
        with torch.autocast("cpu", torch.bfloat16):
            seen = exact.bias(q.float(), k.float(), x.float())
        torch.testing.assert_close(seen, expected, rtol=loose, atol=loose)
    turned, expected = attention.rotated(q, k, x), exact.rotated(q.float(), k.float(), x.float())
    for one, other in zip(turned, expected, strict=True):
        assert one.dtype == torch.bfloat16
        torch.testing.assert_close(one.float(), other, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_gradients_are_finite_from_one_token_on(attention: Attention, n: int) -> None:
    assert all(gradient.isfinite().all() for gradient in backward(attention, tokens(n)))


def test_a_second_backward_and_a_copy_of_what_was_used(attention: Attention) -> None:
    x = tokens(9)
    first = backward(attention, x)
    again, copied = backward(attention, x), backward(copy.deepcopy(attention), x)
    for one, two, three in zip(first, again, copied, strict=True):
        assert one.equal(two)
        assert one.equal(three)


@pytest.mark.parametrize("name", ON_SEQUENCES)
def test_taken_out_after_training_it_is_missed(
    composed: Compose, tmp_path: Path, name: str
) -> None:
    cfg = composed(*SMALL, f"variant={name}")
    _, network, _, _ = build(validated(cfg))
    lost = train_one(cfg, tmp_path)["probes"]["ablation"]
    assert (lost is None) if not mechanisms(network) else (abs(lost) > 1e-6)
