"""What multiples of a context are called, and which are refused."""

from __future__ import annotations

import pytest

from tracks.lengths import MOST, longer


def test_a_split_is_named_by_its_tokens() -> None:
    assert longer(32, [1, 4, 2]) == {"test@128": 128, "test@64": 64}
    assert longer(32, [1]) == {}
    assert longer(2 * MOST, []) == {}  # a context alone is the track's own matter


@pytest.mark.parametrize(
    ("multiples", "line"),
    [
        ([0, 2], "whole multiples ≥ 1 of the context 32"),
        ([MOST // 32 + 1], f"of at most {MOST} tokens"),
        ([2, 2], r"\[2, 2\], must name each once"),
    ],
)
def test_others_are_refused(multiples: list[int], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        longer(32, multiples)
