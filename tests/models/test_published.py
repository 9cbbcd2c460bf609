"""Published biases and rotations against another implementation of them, x-transformers'."""

from __future__ import annotations

import pytest
import torch
from x_transformers.x_transformers import (
    AlibiPositionalBias,
    RelativePositionBias,
    RotaryEmbedding,
    apply_rotary_pos_emb,
)

from models.alibi import Alibi
from models.rope import Rope
from models.t5 import T5

KEYS, WIDTH = 300, 16


@pytest.mark.parametrize("queries", [1, 37, KEYS])
@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16])
def test_alibi(heads: int, queries: int) -> None:
    q, k, x = torch.empty(2, heads, queries, 4), torch.empty(2, heads, KEYS, 4), torch.empty(0)
    seen = Alibi(heads)(q, k, x)
    expected = AlibiPositionalBias(heads)(queries, KEYS)
    torch.testing.assert_close(seen[0], expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("queries", [1, 37, KEYS])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 20), (2, 9)])
def test_t5(buckets: int, farthest: int, queries: int) -> None:
    torch.manual_seed(0)
    q, k, x = torch.empty(2, 3, queries, 4), torch.empty(2, 3, KEYS, 4), torch.empty(0)
    ours = T5(3, buckets=buckets, farthest=farthest, gamma=0.7)
    peer = RelativePositionBias(0.7, True, buckets, farthest, heads=3)
    with torch.no_grad():
        ours.table.copy_(peer.relative_attention_bias.weight.T)
    past = torch.ones(queries, KEYS, dtype=torch.bool).tril(KEYS - queries)
    seen, expected = ours(q, k, x)[0], peer(queries, KEYS)
    torch.testing.assert_close(seen[:, past], expected[:, past], rtol=1e-6, atol=0)


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("length", [32, 10])
@pytest.mark.parametrize("queries", [1, 7, 32])
def test_rope(queries: int, length: int, share: float) -> None:
    """Partial and stretched ones too. Of more tokens float32 angles hold fewer digits, in both."""
    torch.manual_seed(0)
    turned, stretched = int(share * WIDTH), 32 / length
    if turned == 2 and stretched > 1:
        pytest.skip("the other implementation divides by turned - 2")
    q, k = torch.randn(2, 3, queries, WIDTH), torch.randn(2, 3, 32, WIDTH)
    ours = Rope(3 * WIDTH, 3, context=length, share=share, stretch=True)
    peer = RotaryEmbedding(turned, base_rescale_factor=stretched)
    angles, _ = peer.forward_from_seq_len(32)
    for seen, given in zip(ours(q, k, torch.empty(0)), (q, k), strict=True):
        expected = apply_rotary_pos_emb(given, angles)
        torch.testing.assert_close(seen, expected, rtol=0, atol=1e-6)
