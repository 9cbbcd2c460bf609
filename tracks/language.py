"""Language: after each character, which one comes next?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from tracks.lengths import longer
from tracks.read.text import bytes_of, characters, help_texts, text_of
from tracks.tokens import Tokens
from tracks.track import Metric, Streams


class Language(Tokens):
    """Windows of one text: N characters → at each, the one that follows it.

    The text is cut into three regions, in its own order: training, validation, test. Training
    windows begin anywhere in theirs, drawn by the seed. Those of validation and test follow one
    another, share no character, and are spread evenly over their region; what also stands word for
    word further up in the text is left out. So no window of two splits is the same, or touches.

    The alphabet is that of the whole text: a character that training never shows can be said, and
    is scored as any other.

    References, by counts in the training region: `unigram_cross_entropy`, of each character with
    one added; fitted, `bigram_cross_entropy`, of each after the one before it, with one added that
    is shared out as the unigram has it.

    Args:
        streams: where the training windows are drawn from.
        text: path of a file; None for the interpreter's own help texts.
        units: characters, of a file in UTF-8; or bytes, of any file, as enwik8 is scored.
        split: shares of the text for training, validation and test.
        context: N.
        train: windows to train on.
        validation, test: windows of each, or as many as its region holds.
        test_lengths: further test splits, at these multiples of the context (`tracks.lengths`), of
            windows as many and as long as the test region holds.
    Raises:
        ValueError: sizes below 1, shares that are not above 0 with a sum of 1, a file that cannot
            be read or is not UTF-8, a text too short for a window in each region.
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        **Tokens.metrics,
        "bits": Metric("min", bounds=(0.0, None), can_tie=False),
    }
    mean_over: ClassVar[str] = "the characters of a window"

    def __init__(
        self,
        streams: Streams,
        text: str | None = None,
        units: Literal["characters", "bytes"] = "characters",
        split: tuple[float, float, float] = (0.8, 0.1, 0.1),
        context: int = 64,
        train: int = 16000,
        validation: int = 500,
        test: int = 2000,
        test_lengths: tuple[int, ...] = (),
    ) -> None:
        if min(context, train, validation, test) < 1:
            raise ValueError(
                f"context is {context}, train {train}, validation {validation}, test {test}: must "
                f"be ≥ 1 each"
            )
        if min(split) <= 0 or not math.isclose(sum(split), 1):
            raise ValueError(f"split is {list(split)}, must be three shares > 0 with a sum of 1")
        codes = read(text, units)
        stands = np.bincount(codes) > 0
        ids = (stands.cumsum() - 1)[codes]  # (T,), from 0 on without gaps
        second = len(ids) - round(len(ids) * split[2])
        first = second - round(len(ids) * split[1])

        drawn = {"validation": (validation, context, first, second)}
        for name, tokens in {"test": context, **longer(context, test_lengths)}.items():
            drawn[name] = (test, tokens, second, len(ids))
        for name, (_, tokens, begin, end) in {"train": (0, context, 0, first), **drawn}.items():
            if end - begin <= tokens:
                raise ValueError(
                    f"the text has {len(ids)} {units}, of which {end - begin} are of {name}, and a "
                    f"window needs {tokens + 1}: give a longer text, another split, or less context"
                )
        windows = {"train": streams("train").integers(first - context, size=(train, 1))}
        windows["train"] = ids[windows["train"] + np.arange(context + 1)]
        prints = {
            n: fingerprints(ids, n + 1) for n in {tokens for _, tokens, _, _ in drawn.values()}
        }
        for name, (most, tokens, begin, end) in drawn.items():
            starts = fresh(prints[tokens], tokens + 1, begin, end, most)
            windows[name] = ids[starts[:, None] + np.arange(tokens + 1)]
        rows = {name: (each[:, :-1], each[:, 1:]) for name, each in windows.items()}

        unigram, bigram = counted(ids[:first], int(stands.sum()))
        references, fitted = {}, {}
        for name in drawn:
            before, after = rows[name]
            references[name] = -float(np.log(unigram[after]).mean())
            fitted[name] = -float(np.log(bigram(before, after)).mean())
        super().__init__(
            rows,
            int(stands.sum()),
            {"unigram_cross_entropy": references},
            {"bigram_cross_entropy": fitted},
        )

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        found = super().scores(predictions, targets)
        return found | {"bits": found["cross_entropy"] / math.log(2)}


def read(text: str | None, units: Literal["characters", "bytes"]) -> np.ndarray:
    """The text as code points or bytes, (T,)."""
    if units == "bytes":
        found = help_texts().encode() if text is None else bytes_of(text)
        return np.frombuffer(found, np.uint8)
    return characters(help_texts() if text is None else text_of(text))


def fresh(prints: np.ndarray, length: int, begin: int, end: int, most: int) -> np.ndarray:
    """Where windows of a region begin, end to end, that stand nowhere before it: (n,), n ≤ most.

    Args:
        prints: of all windows of the text.
    Raises:
        ValueError: there is none.
    """
    starts = np.arange(begin, end - length + 1, length)
    here, before = prints[starts], prints[: begin - length + 1]
    first = np.zeros(2**20, bool)  # by their first bits few of those before are as one of these
    first[here >> np.uint64(44)] = True
    starts = starts[~np.isin(here, before[first[before >> np.uint64(44)]])]
    if not len(starts):
        raise ValueError(
            f"every window of {length} from {begin} to {end} of the text also stands before: give "
            f"a text that does not repeat itself, or another split"
        )
    most = min(most, len(starts))
    return starts[np.arange(most) * len(starts) // most]


def fingerprints(ids: np.ndarray, length: int) -> np.ndarray:
    """A number for each window, (T,) → (T − length + 1,): of equal windows the same.

    Σⱼ (idᵢ₊ⱼ + 1)·rʲ modulo 2⁶⁴ but for a constant factor, as differences of sums from the start
    (Karp & Rabin 1987).
    """
    power = np.multiply.accumulate(np.full(len(ids) + 1, 0x9E3779B97F4A7C15, np.uint64))
    sums = np.zeros(len(ids) + 1, np.uint64)
    np.cumsum((ids + 1).view(np.uint64) * power[:-1], out=sums[1:])
    n = len(ids) - length + 1
    return (sums[length:] - sums[:n]) * power[::-1][:n]


def counted(
    ids: np.ndarray, size: int
) -> tuple[np.ndarray, Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """How likely each id is, (size,), and each after another, as f(before, after)."""
    alone = np.bincount(ids, minlength=size)
    unigram = (alone + 1) / (len(ids) + size)
    pairs, seen = np.unique(ids[:-1] * size + ids[1:], return_counts=True)
    followed = np.bincount(ids[:-1], minlength=size)

    def bigram(before: np.ndarray, after: np.ndarray) -> np.ndarray:
        pair = before * size + after
        at = np.searchsorted(pairs, pair).clip(max=len(pairs) - 1)
        together = np.where(pairs[at] == pair, seen[at], 0)
        return (together + unigram[after]) / (followed[before] + 1)

    return unigram, bigram
