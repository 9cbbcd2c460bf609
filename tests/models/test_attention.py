"""Attention against a loop over tokens, against torch's own module, and against the future."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from models.alibi import Alibi
from models.attention import Attention
from models.exp_mixture import ExpMixture
from models.lag_bias import LogitBias
from models.lag_table import LagTable
from training.cost import kept_bytes

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
    made = bias and partial(bias, gamma=0.7)
    attention = Attention(DIM, HEADS, (N,), 0, causal=causal, bias=made)
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
    for share in ("negative_first_differences", "positive_second_differences"):
        assert bounds[share] == (0, 1)
    assert bounds["table_distance_from_start"] == (0, math.inf)
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


@pytest.mark.parametrize("bias", [None, Alibi])
def test_where_no_bias_is_learned_no_weights_of_attention_are_kept(bias: type | None) -> None:
    """Torch's fast kernel, which makes them anew in the backward pass."""
    tokens = 64
    attention = Attention(DIM, HEADS, (tokens,), 0, causal=True, bias=bias)
    q, k, v = (torch.randn(8, HEADS, tokens, 4, requires_grad=True) for _ in range(3))
    kept = kept_bytes(lambda: attention.attend(q, k, v, torch.randn(8, tokens, DIM)), [q, k, v])
    assert kept < 8 * HEADS * tokens * tokens * 4


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("bias", [None, LagTable, ExpMixture])
@pytest.mark.parametrize("queries", [1, 3])
def test_the_last_queries_get_the_last_rows_of_the_whole(
    queries: int, bias: type | None, causal: bool
) -> None:
    attention = Attention(DIM, HEADS, (N,), 0, causal=causal, bias=bias)
    if attention.bias is not None:
        for parameter in attention.bias.parameters():
            nn.init.normal_(parameter)
    x = torch.randn(B, N, DIM)
    q, k, _ = attention.project(x)
    if attention.bias is not None:
        whole, last = attention.bias(q, k, x), attention.bias(q[:, :, -queries:], k, x)
        assert last.equal(whole[:, :, -queries:])
    whole = attention.mask(q, k, x)
    if whole is None:  # torch's own mask, or none
        whole = torch.full((N, N), -math.inf).triu(1) if causal else torch.zeros(N, N)
    last = attention.mask(q[:, :, -queries:], k, x)
    if last is None:
        last = torch.zeros(queries, N)
    assert last.equal(whole[..., -queries:, :])


class ByContent(LogitBias):
    """A bias that what the mixer reads decides."""

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:
        return x.sum(-1)[:, None, None, :].expand(-1, -1, q.shape[-2], -1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("bias", [LagTable, ByContent])
def test_the_profile_is_the_last_row_of_all_tokens_attention(bias: type, causal: bool) -> None:
    attention = Attention(DIM, HEADS, (N,), 0, causal=causal, bias=bias)
    for parameter in attention.bias.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(B, N, DIM)
    q, k, _ = attention.project(x)
    logits = q @ k.transpose(-1, -2) / math.sqrt(DIM // HEADS) + attention.mask(q, k, x)
    expected = logits.softmax(-1)[:, :, -1].mean(0).flip(-1)
    torch.testing.assert_close(attention.profile(x), expected)


# Two steps of three places, and the other way round: which tokens lie in which step, by hand.
GRIDS = {
    (0, (2, 3)): [0, 0, 0, 1, 1, 1],
    (1, (2, 3)): [0, 1, 2, 0, 1, 2],
    (0, (3, 2)): [0, 0, 1, 1, 2, 2],
    (1, (3, 2)): [0, 1, 0, 1, 0, 1],
    (1, (2, 2, 2)): [0, 0, 1, 1, 0, 0, 1, 1],
}


@pytest.mark.parametrize("bias", [None, LagTable])
@pytest.mark.parametrize(("time_axis", "axes"), GRIDS)
def test_on_a_grid_tokens_of_one_step_see_each_other_and_none_a_later_one(
    time_axis: int, axes: tuple[int, ...], bias: type | None
) -> None:
    attention = Attention(DIM, HEADS, axes, time_axis, bias=bias)
    step = GRIDS[time_axis, axes]
    n = len(step)
    if bias:
        nn.init.normal_(attention.bias.table)
    hidden = torch.tensor([[step[j] > step[i] for j in range(n)] for i in range(n)])
    x = torch.randn(B, n, DIM)
    q, k, v = attention.project(x)
    logits = q @ k.transpose(-1, -2) / math.sqrt(DIM // HEADS)
    if bias:
        lag = [[abs(i - j) for j in range(n)] for i in range(n)]
        logits = logits + attention.bias.table[:, torch.tensor(lag)]
    weights = logits.masked_fill(hidden, -math.inf).softmax(-1)
    expected = attention.out((weights @ v).transpose(1, 2).flatten(-2))
    torch.testing.assert_close(attention(x), expected)
    for i in range(n):
        changed = x.clone()
        changed[:, i] += 10.0
        moved = (attention(changed) - attention(x)).abs().amax((0, 2)) > 1e-6
        assert moved.tolist() == [step[j] >= step[i] for j in range(n)], i


@pytest.mark.parametrize("steps", [2, 7])
def test_a_grid_of_more_steps_than_in_training_hides_the_later_ones_too(steps: int) -> None:
    attention = Attention(DIM, HEADS, (4, 3), 0)
    x = torch.randn(B, 3 * steps, DIM)
    changed = x.clone()
    changed[:, -3:] += 10.0  # the last step
    assert attention(changed)[:, :-3].equal(attention(x)[:, :-3])
    assert attention.any_length


def test_other_lengths_are_no_promise_where_time_is_not_the_first_axis() -> None:
    """Of 24 tokens nobody could say whether the grid is 2 × 12 or 8 × 3."""
    assert not Attention(DIM, HEADS, (4, 3), 1).any_length
    assert Attention(DIM, HEADS, (4, 3), 1, causal=False).any_length


def test_causal_needs_a_time_axis() -> None:
    with pytest.raises(ValueError, match="no time axis: say causal: false"):
        Attention(DIM, HEADS, (N,))


class Gives(LogitBias):
    """A bias that is what it is given."""

    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.given = bias

    def forward(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:
        return self.given


def test_a_bias_of_each_example_does_not_pass_for_one_of_each_head() -> None:
    """As many examples as heads: the shapes alone would not tell."""
    x = torch.randn(HEADS, N, DIM)
    bias = torch.randn(HEADS, N, N)
    with pytest.raises(ValueError, match=r"must give \(B or 1, H or 1, Nq, Nk\)"):
        Attention(DIM, HEADS, (N,), 0, bias=lambda: Gives(bias))(x)
    attention = Attention(DIM, HEADS, (N,), 0, bias=lambda: Gives(bias[:, None]))
    for b in range(HEADS):
        alone = Attention(DIM, HEADS, (N,), 0, bias=lambda b=b: Gives(bias[b][None, None]))
        alone.load_state_dict(attention.state_dict())
        torch.testing.assert_close(attention(x)[b], alone(x[b : b + 1])[0])


def test_a_boolean_mask_is_refused() -> None:
    seen = torch.ones(1, 1, N, N, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"must give logits, found torch\.bool: say 0 for what is"):
        Attention(DIM, HEADS, (N,), 0, bias=lambda: Gives(seen))(torch.randn(B, N, DIM))
