"""Test splits of contexts longer than those trained on."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 65_536  # tokens of a test context; a million take a minute to draw, and fill the memory


def longer(context: int, multiples: Sequence[int]) -> dict[str, int]:
    """The further test splits of a track's `test_lengths`, and their contexts in tokens.

    Example: context 32 and multiples [1, 2, 4] give {"test@64": 64, "test@128": 128}: that of 1 is
    `test`.

    Raises:
        ValueError: a multiple below 1, one that is given twice, or a context above `MOST` tokens.
    """
    if min(multiples, default=1) < 1 or max(multiples, default=0) * context > MOST:
        raise ValueError(
            f"test_lengths is {list(multiples)}, must be whole multiples ≥ 1 of the context "
            f"{context}, of at most {MOST} tokens"
        )
    if len(set(multiples)) < len(multiples):
        raise ValueError(f"test_lengths is {list(multiples)}, must name each once")
    return {f"test@{k * context}": k * context for k in multiples if k > 1}
