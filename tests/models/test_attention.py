"""Attention against a loop over tokens, against torch's own module, and against the future."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from models.attention import Attention
from models.exp_mixture import ExpMixture
from models.lag_table import LagTable

DIM, HEADS, N, B = 8, 2, 6, 3


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def by_hand(attention: Attention, x: Tensor, bias: Tensor | None) -> Tensor:
    """Token by token and head by head; bias (H, lags)."""
    q, k, v = attention.qkv(x).chunk(3, dim=-1)
    width = DIM // HEADS
    out = torch.zeros_like(x)
    for h in range(HEADS):
        part = slice(h * width, (h + 1) * width)
        for b in range(B):
            for i in range(N):
                keys = range(i + 1) if attention.causal else range(N)
                logits = torch.stack(
                    [
                        q[b, i, part] @ k[b, j, part] / math.sqrt(width)
                        + (bias[h, abs(i - j)] if bias is not None else 0.0)
                        for j in keys
                    ]
                )
                weights = logits.softmax(0)
                out[b, i, part] = sum(w * v[b, j, part] for w, j in zip(weights, keys, strict=True))
    return attention.out(out)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("bias", [None, LagTable, ExpMixture])
def test_is_the_attention_of_the_definition(causal: bool, bias: type | None) -> None:
    attention = Attention(DIM, HEADS, (N,), 0, causal=causal, bias=bias and partial(bias, gamma=0.7))
    curve = None
    if attention.bias is not None:
        for parameter in attention.bias.parameters():
            nn.init.normal_(parameter)
        curve = attention.bias.curve(torch.arange(N))
    x = torch.randn(B, N, DIM)
    torch.testing.assert_close(attention(x), by_hand(attention, x, curve))


def test_without_bias_is_torch_multihead_attention() -> None:
    ours, peer = Attention(DIM, HEADS, (N,), 0), nn.MultiheadAttention(DIM, HEADS, batch_first=True)
    peer.load_state_dict(
        {
            "in_proj_weight": ours.qkv.weight,
            "in_proj_bias": ours.qkv.bias,
            "out_proj.weight": ours.out.weight,
            "out_proj.bias": ours.out.bias,
        }
    )
    x = torch.randn(B, N, DIM)
    future = torch.ones(N, N, dtype=torch.bool).triu(1)
    torch.testing.assert_close(ours(x), peer(x, x, x, attn_mask=future, need_weights=False)[0])


def test_the_mask_is_minus_infinity_and_counts_lags_from_the_token_itself() -> None:
    attention = Attention(DIM, HEADS, (N,), 0, causal=True, bias=LagTable)
    with torch.no_grad():
        attention.bias.table.copy_(torch.arange(N).expand(HEADS, N))
    x = torch.randn(B, N, DIM)
    mask = attention.mask(*attention.project(x)[:2], x)
    assert mask.shape == (1, HEADS, N, N)
    for i in range(N):
        for j in range(N):
            assert mask[0, 0, i, j].item() == (i - j if j <= i else -math.inf)


@pytest.mark.parametrize("bias", [None, LagTable, ExpMixture])
def test_no_bit_of_the_past_depends_on_the_future(bias: type | None) -> None:
    attention = Attention(DIM, HEADS, (N,), 0, causal=True, bias=bias)
    x = torch.randn(B, N, DIM)
    changed = x.clone()
    changed[:, 3:] += 100.0
    assert torch.equal(attention(x)[:, :3], attention(changed)[:, :3])
    assert not torch.equal(attention(x)[:, 3:], attention(changed)[:, 3:])


def test_profile_is_the_last_tokens_attention_by_lag() -> None:
    attention = Attention(DIM, HEADS, (N,), 0, causal=True, bias=LagTable)
    with torch.no_grad():
        attention.qkv.weight[:DIM].zero_()  # no queries: the bias decides alone
        attention.qkv.bias[:DIM].zero_()
        attention.bias.table.normal_()
    profile = attention.profile(torch.randn(B, N, DIM))
    torch.testing.assert_close(profile, attention.bias.table.softmax(-1))


def test_signature_of_a_planted_bias() -> None:
    attention = Attention(DIM, HEADS, (N,), 0, causal=True, bias=LagTable)
    start = Attention(DIM, HEADS, (N,), 0, causal=True, bias=LagTable)
    with torch.no_grad():
        attention.qkv.weight[:DIM].zero_()
        attention.qkv.bias[:DIM].zero_()
        lags = torch.arange(float(N))
        attention.bias.table[0] = -lags + 0.1 * lags.square()  # falls and is convex up to lag 5
        attention.bias.table[1] = lags - 0.01 * lags.square()  # rises and is concave
    seen = attention.signature(start, torch.randn(B, N, DIM))
    assert seen["nonmonotone_heads"].value == 0.5
    bounds = {name: (each.least, each.most) for name, each in seen.items()}
    assert bounds["nonmonotone_heads"] == (0, 1)
    assert bounds["attention_max_first_difference"] == (-1, 1)  # of shares of attention
    assert bounds["attention_rise_over_start"] == (-2, 2)
    assert seen["negative_first_differences"].value == 0.5
    assert seen["positive_second_differences"].value == 0.5
    assert seen["attention_max_first_difference"].value == pytest.approx(
        attention.bias.table[1].softmax(0).diff().max().item(), rel=1e-5
    )


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"heads is 3, must divide model\.dim 8"):
        Attention(8, 3, (4,), 0)


@pytest.mark.parametrize("bias", [None, LagTable, ExpMixture])
def test_takes_bfloat16_with_a_bias_in_float32(bias: type | None) -> None:
    attention = Attention(DIM, HEADS, (N,), 0, causal=True, bias=bias)
    x = torch.randn(B, N, DIM)
    lower = attention.bfloat16()(x.bfloat16())
    assert lower.dtype == torch.bfloat16
    torch.testing.assert_close(lower.float(), attention.float()(x), rtol=0.1, atol=0.1)
