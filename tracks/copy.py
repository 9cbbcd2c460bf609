"""Repeating and copying: what was read is said again, at lengths beyond those trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from tracks.lengths import longer
from tracks.tokens import SILENT, Tokens
from tracks.track import Metric, Streams

Task = Literal["repeat_one", "repeat_two", "copy", "copy_twice", "selective", "induction"]
TOKENS: Mapping[Task, tuple[int, int]] = {  # a row of length n has so many · n, and so many more
    "repeat_one": (2, 2),
    "repeat_two": (2, 4),
    "copy": (2, 2),
    "copy_twice": (3, 3),
    "selective": (3, 2),
    "induction": (1, 3),
}
MARKS = BEGIN, ASK, NEXT, END, BLANK = range(5)  # ids below those of the words
SHARES = 8  # one of so many sums of words is of validation, one of test, the others of training


class Copy(Tokens):
    """A source of n words, then the answer, one token after the other, until `END`.

    A row is BEGIN, the source, ASK, the answer, blanks to the end. From ASK on each token is asked
    for the one that comes next in the answer, and the answer's last for END, so that a model says
    what to emit and when to stop; it reads the true answer, whatever it said (teacher forcing).
    `exact_match` is 1 where it said all of a row right. The tasks, a b c being words:

        task        source     answer
        repeat_one  a a a      a a a
        repeat_two  a b a a a  b b b         replace a by b in a a a
        copy        a b c      a b c
        copy_twice  a b c      a b c NEXT a b c
        selective   _ a _ _ b  a b           n words among n blanks
        induction   a ASK b c  b             the word after the first ASK; no END

    The first four are those of Kazemnejad et al. 2023 (arXiv 2305.19466; their data's
    repeat_single_char, repeat_double_char, copy_multi_char and copy_multi_char_2x): a prompt, the
    source, [SEP], the answer and its end, trained on the answer's tokens alone. The last two are
    those of Gu & Dao 2023 (arXiv 2312.00752).

    Training, validation and test have lengths n from `lengths`, each as likely. `test_lengths=[2]`
    adds a test at n from the longest + 1 to twice the longest, 3 one from there to three times, in
    rows of so many times the context. No row stands in two splits: n + the sum of a row's words,
    modulo 8, is 0 in validation, 1 in test, and 2 … 7 in training.

    References: `any_word_cross_entropy` knows which tokens the answer has and how often, but not
    in which order (`induction`: those of the source).

    Args:
        streams: where each split's rows are drawn from.
        task: one of the table.
        vocabulary: words to draw from, a multiple of 8, evenly and with replacement.
        lengths: shortest and longest n in training.
        train, validation, test: rows in each split, all independent.
        test_lengths: further test splits, as above.
    Raises:
        ValueError: sizes below 1, a vocabulary that is no multiple of 8, lengths that are not
            1 ≤ shortest ≤ longest (`induction`: 2), or wrong test lengths.
    """

    metrics: ClassVar[Mapping[str, Metric]] = {
        **Tokens.metrics,
        "exact_match": Metric("max", bounds=(0.0, 1.0), can_tie=True),
    }
    mean_over: ClassVar[str] = "the tokens of a row's answer"

    def __init__(
        self,
        streams: Streams,
        task: Task = "copy",
        vocabulary: int = 32,
        lengths: tuple[int, int] = (2, 20),
        train: int = 16000,
        validation: int = 1000,
        test: int = 2000,
        test_lengths: tuple[int, ...] = (),
    ) -> None:
        if min(train, validation, test) < 1:
            raise ValueError(
                f"train is {train}, validation {validation}, test {test}: must be ≥ 1 each"
            )
        if vocabulary < SHARES or vocabulary % SHARES:
            raise ValueError(f"vocabulary is {vocabulary}, must be a multiple of {SHARES}, ≥ 8")
        shortest, longest = lengths
        if not (2 if task == "induction" else 1) <= shortest <= longest:
            raise ValueError(
                f"lengths is {list(lengths)}, must be [shortest, longest] in training, from 1 "
                f"(induction: 2) on"
            )
        each, more = TOKENS[task]
        context = each * longest + more
        # of each split: rows, their tokens, lengths n, and n + the sum of words modulo SHARES
        sizes = {
            "train": (train, context, lengths, np.arange(2, SHARES)),
            "validation": (validation, context, lengths, np.array([0])),
            "test": (test, context, lengths, np.array([1])),
        }
        for name, tokens in longer(context, test_lengths).items():
            most = tokens // context * longest
            sizes[name] = (test, tokens, (most - longest + 1, most), np.arange(SHARES))
        rows, reference = {}, {}
        for name, (n, tokens, between, sums) in sizes.items():
            drawn = draw(streams(name), task, n, tokens, vocabulary, between, sums)
            rows[name] = drawn[:2]
            if name != "train":
                reference[name] = float(drawn[2].mean())
        references = {"any_word_cross_entropy": reference}
        super().__init__(rows, len(MARKS) + vocabulary, references)

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        right = self.hits(predictions, targets) | (targets == SILENT)
        return super().scores(predictions, targets) | {"exact_match": right.all(1).float()}


def draw(
    rng: np.random.Generator,
    task: Task,
    rows: int,
    tokens: int,
    vocabulary: int,
    lengths: tuple[int, int],
    sums: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of `Copy`: inputs and targets (rows, tokens), the reference's score of each (rows,)."""
    inputs, targets = np.full((rows, tokens), BLANK), np.full((rows, tokens), SILENT)
    reference = np.empty(rows)
    drawn = rng.integers(lengths[0], lengths[1] + 1, size=rows)
    for n in np.unique(drawn):
        here = np.flatnonzero(drawn == n)
        free = {"repeat_one": 1, "repeat_two": 2}.get(task, n) - 1
        words = rng.integers(vocabulary, size=(len(here), free))
        rest = (rng.choice(sums, size=len(here)) - n - words.sum(1)) % SHARES
        last = rest + SHARES * rng.integers(vocabulary // SHARES, size=len(here))
        words = len(MARKS) + np.column_stack([words, last])
        source, answer = dialogue(rng, task, words, n)
        ask, end = 1 + source.shape[1], 1 + source.shape[1] + answer.shape[1]
        inputs[here, 0], inputs[here, ask] = BEGIN, ASK
        inputs[here, 1:ask], inputs[here, ask + 1 : end] = source, answer[:, :-1]
        targets[here, ask:end] = answer
        bag = words if task == "induction" else answer
        share = (answer[:, :, None] == bag[:, None, :]).mean(2)  # of each token, in the bag
        reference[here] = -np.log(share).mean(1)
    return inputs, targets, reference


def dialogue(
    rng: np.random.Generator, task: Task, words: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sources of length n and their answers, (rows, …) both; words (rows, 1, 2 or n)."""
    rows = len(words)
    end = np.full((rows, 1), END)
    if task == "repeat_one":
        source = words.repeat(n, axis=1)
        return source, np.hstack([source, end])
    if task == "repeat_two":
        a, b = words[:, :1], words[:, 1:]
        return np.hstack([a, b, a.repeat(n, axis=1)]), np.hstack([b.repeat(n, axis=1), end])
    if task == "copy_twice":
        return words, np.hstack([words, np.full((rows, 1), NEXT), words, end])
    if task == "selective":
        places = rng.permuted(np.tile(np.arange(2 * n), (rows, 1)), axis=1)[:, :n]
        source = np.full((rows, 2 * n), BLANK)
        np.put_along_axis(source, np.sort(places), words, axis=1)
        return source, np.hstack([words, end])
    if task == "induction":
        at = rng.integers(n, size=(rows, 1))  # the word that ASK is put before
        places = np.arange(n) + (np.arange(n) >= at)
        source = np.full((rows, n + 1), ASK)
        np.put_along_axis(source, places, words, axis=1)
        return source, np.take_along_axis(words, at, axis=1)
    return words, np.hstack([words, end])
