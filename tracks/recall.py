"""Multi-query associative recall: say what a key was paired with."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from tracks.lengths import longer
from tracks.tokens import SILENT, Tokens
from tracks.track import Streams

BLANK = 0  # between the queries


class Recall(Tokens):
    """Pairs of a key and its value, then each key once more: say its value (MQAR).

    After Arora et al. 2023 (arXiv 2312.04927), as the data of their figure 2 were drawn, but for
    the order of the queries: there an early pair tends to be asked early. Keys are the ids
    1 … V/2 − 1, values V/2 … V − 1; those of a row are all different. After the P pairs come
    N/2 − P places of two tokens. The keys stand once more in P of them, in an order of their own:
    the place j, from 1, is drawn with probability ∝ j^(spread − 1), so that most queries come
    soon; all else is blank. The loss is at the queries alone. Two pairs: inputs
    4 8 2 7 2 0 0 0 4 0, targets – – – – 7 – – – 8 –.

    At a longer context there are as many pairs, asked further on.

    References: `any_value_cross_entropy` says each of the row's values with probability 1/P.

    Args:
        streams: where each split's rows are drawn from.
        vocabulary: V, an even number; half of it for values.
        pairs: fewest and most in a row, each number as likely.
        context: N, an even number.
        spread: 1 asks anywhere; near 0, soon after the pairs.
        train, validation, test: rows in each split, all independent.
        test_lengths: further test splits, at these multiples of the context (`tracks.lengths`).
    Raises:
        ValueError: sizes below 1, more pairs than keys or than half of the places have room for, a
            spread that is not above 0, or wrong test lengths.
    """

    mean_over: ClassVar[str] = "the queries of a row"

    def __init__(
        self,
        streams: Streams,
        vocabulary: int = 64,
        pairs: tuple[int, int] = (4, 8),
        context: int = 64,
        spread: float = 0.01,
        train: int = 16000,
        validation: int = 1000,
        test: int = 2000,
        test_lengths: tuple[int, ...] = (),
    ) -> None:
        if min(train, validation, test) < 1:
            raise ValueError(
                f"train is {train}, validation {validation}, test {test}: must be ≥ 1 each"
            )
        room = min(vocabulary // 2 - 1, context // 4)
        if vocabulary % 2 or context % 2 or not 1 <= pairs[0] <= pairs[1] <= room:
            raise ValueError(
                f"pairs is {list(pairs)}, vocabulary {vocabulary}, context {context}: vocabulary "
                f"and context must be even, pairs [fewest, most] from 1 to vocabulary / 2 − 1 "
                f"and to context / 4"
            )
        if not 0 < spread < math.inf:
            raise ValueError(f"spread is {spread}, must be a number > 0")
        sizes = {"train": (train, context), "validation": (validation, context)}
        sizes["test"] = (test, context)
        sizes |= {name: (test, tokens) for name, tokens in longer(context, test_lengths).items()}
        rows, reference = {}, {}
        for name, (n, tokens) in sizes.items():
            drawn = draw(streams(name), n, tokens, vocabulary, pairs, spread)
            rows[name] = drawn[:2]
            if name != "train":
                reference[name] = float(np.log(drawn[2]).mean())
        references = {"any_value_cross_entropy": reference}
        super().__init__(rows, vocabulary, references)


def draw(
    rng: np.random.Generator,
    n: int,
    context: int,
    vocabulary: int,
    pairs: tuple[int, int],
    spread: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of `Recall`: inputs and targets (n, context), how many pairs each has (n,)."""
    half, most = vocabulary // 2, pairs[1]
    number = rng.integers(pairs[0], most + 1, size=n)
    keys = distinct(rng, n, half - 1, most) + 1
    values = distinct(rng, n, half, most) + half
    inputs = np.full((n, context), BLANK)
    targets = np.full((n, context), SILENT)
    for p in range(pairs[0], most + 1):
        rows = np.flatnonzero(number == p)[:, None]
        k, v = keys[rows[:, 0], :p], values[rows[:, 0], :p]
        inputs[rows, np.arange(0, 2 * p, 2)] = k
        inputs[rows, np.arange(1, 2 * p, 2)] = v
        # the largest of log weight + Gumbel noise: drawn by weight, none twice
        weight = (spread - 1) * np.log(np.arange(1, context // 2 - p + 1))
        drawn = np.argsort(-weight - rng.gumbel(size=(len(rows), len(weight))), axis=1)
        asked = 2 * p + 2 * rng.permuted(drawn[:, :p], axis=1)  # where each key stands once more
        inputs[rows, asked], targets[rows, asked] = k, v
    return inputs, targets, number


def distinct(rng: np.random.Generator, n: int, size: int, most: int) -> np.ndarray:
    """Of each of n rows, so many different numbers below `size` in a random order: (n, most).

    By Floyd's algorithm (Bentley & Floyd 1987), which never holds all `size` of them.
    """
    drawn = np.empty((n, most), dtype=np.int64)
    for j, last in enumerate(range(size - most, size)):
        each = rng.integers(last + 1, size=n)
        taken = (drawn[:, :j] == each[:, None]).any(1)
        drawn[:, j] = np.where(taken, last, each)
    return rng.permuted(drawn, axis=1)
