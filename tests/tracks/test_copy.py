"""Copying: each answer derived once more from its row; lengths and splits are as they say."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch

from tests.tracks.test_sequence import streams
from tracks.copy import ASK, BEGIN, BLANK, END, MARKS, NEXT, Copy, Task
from tracks.tokens import SILENT

TASKS = get_args(Task)
SIZES = {"train": 400, "validation": 200, "test": 200}


def answer(task: str, source: list[int]) -> tuple[int, list[int]]:
    """The length of a source, and what is to be said of it, as one would explain it."""
    words = [w for w in source if w >= len(MARKS)]
    if task == "repeat_one":
        assert len(set(words)) == 1
        return len(words), [*words, END]
    if task == "repeat_two":
        a, b, *rest = words
        assert set(rest) == {a}
        return len(rest), [b for _ in rest] + [END]
    if task == "copy_twice":
        return len(words), [*words, NEXT, *words, END]
    if task == "selective":
        assert source.count(BLANK) == len(words)
        return len(words), [*words, END]
    if task == "induction":
        return len(words), [source[source.index(ASK) + 1]]
    return len(words), [*words, END]


@pytest.mark.parametrize("task", TASKS)
def test_every_answer_follows_from_its_source(task: str) -> None:
    track = Copy(streams(), task=task, test_lengths=(2, 3), **SIZES)
    context = track.axes[0]
    bounds = {"train": (2, 20), "validation": (2, 20), "test": (2, 20)}
    bounds |= {f"test@{2 * context}": (21, 40), f"test@{3 * context}": (41, 60)}
    assert list(track.splits) == list(bounds)
    for name, split in track.splits.items():
        lengths = set()
        for row, target in zip(split.inputs.tolist(), split.targets.tolist(), strict=True):
            asked = [i for i, t in enumerate(target) if t != SILENT]
            first = asked[0]
            assert (row[0], row[first]) == (BEGIN, ASK)
            n, expected = answer(task, row[1:first])
            assert [target[i] for i in range(first, first + len(expected))] == expected
            assert len(asked) == len(expected)
            end = first + len(expected)
            assert row[first + 1 : end] == expected[:-1]  # it reads what it should have said
            assert set(row[end:]) <= {BLANK}
            lengths.add(n)
        assert lengths == set(range(bounds[name][0], bounds[name][1] + 1))
        assert split.inputs.shape[1] == context * int(name.partition("@")[2] or context) // context


@pytest.mark.parametrize("task", TASKS)
def test_the_longest_row_fills_the_context(task: str) -> None:
    track = Copy(streams(), task=task, lengths=(7, 7), **SIZES)
    assert (track.train.inputs[:, -1] != BLANK).all()


@pytest.mark.parametrize("task", TASKS)
def test_no_row_stands_in_two_splits(task: str) -> None:
    """Of 8 words at lengths 2 and 3 there are few: each would be in all of them."""
    track = Copy(streams(), task=task, vocabulary=8, lengths=(2, 3), train=4000)
    rows = {name: set(map(tuple, s.inputs.tolist())) for name, s in track.splits.items()}
    assert not rows["train"] & rows["test"]
    assert not rows["train"] & rows["validation"]
    assert not rows["validation"] & rows["test"]


@pytest.mark.parametrize("task", TASKS)
def test_no_split_has_words_of_its_own(task: str) -> None:
    track = Copy(streams(), task=task, vocabulary=8, **SIZES)
    words = set(range(len(MARKS), len(MARKS) + 8))
    for split in track.splits.values():
        assert words <= set(split.inputs.flatten().tolist())


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_words_are_drawn_evenly(split: str) -> None:
    track = Copy(streams(), vocabulary=16, lengths=(3, 3), **{**SIZES, split: 16_000})
    words = track.splits[split].inputs[:, 1:4].numpy() - len(MARKS)
    for column in words.T:
        np.testing.assert_allclose(np.bincount(column, minlength=16), 1000, atol=6 * 1000**0.5)


def test_places_are_drawn_evenly() -> None:
    """Where a word of `selective` stands, and which one `induction` asks for."""
    track = Copy(streams(), task="selective", lengths=(3, 3), train=16_000)
    found = (track.train.inputs[:, 1:7] != BLANK).float().mean(0)
    np.testing.assert_allclose(found, 0.5, atol=0.02)
    track = Copy(streams(), task="induction", lengths=(5, 5), train=20_000)
    found = (track.train.inputs[:, 1:7] == ASK).float().mean(0)
    np.testing.assert_allclose(found, [0.2] * 5 + [0], atol=0.02)


@pytest.mark.parametrize("task", TASKS)
def test_the_reference_knows_the_tokens_but_not_their_order(task: str) -> None:
    track = Copy(streams(), task=task, test_lengths=(2,), **SIZES)
    for name, split in track.tests.items():
        losses = []
        for row, target in zip(split.inputs.tolist(), split.targets.tolist(), strict=True):
            said = [t for t in target if t != SILENT]
            bag = said
            if task == "induction":
                bag = [w for w in row if w >= len(MARKS)]
            losses.append(np.mean([-np.log(bag.count(t) / len(bag)) for t in said]))
        assert track.references["any_word_cross_entropy"][name] == pytest.approx(np.mean(losses))


def test_an_exact_match_has_no_token_wrong() -> None:
    track = Copy(streams(), **SIZES)
    targets = track.test.targets[:4]
    said = targets.clamp(min=0)
    first = [row.index(True) for row in (targets != SILENT).tolist()]
    said[1, first[1]] = END  # wrong at once
    said[2, 0] = NEXT  # where nothing is asked
    logits = 50 * torch.nn.functional.one_hot(said, track.vocabulary).float()
    scores = track.scores(logits, targets)
    assert scores["exact_match"].tolist() == [1, 0, 1, 1]
    asked = (targets[1] != SILENT).sum().item()
    assert scores["accuracy"][1].item() == pytest.approx(1 - 1 / asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"vocabulary": 12},
        {"vocabulary": 0},
        {"lengths": (0, 4)},
        {"lengths": (5, 4)},
        {"lengths": (1, 4), "task": "induction"},
        {"train": 0},
        {"validation": 0},
        {"test": 0},
        {"test_lengths": (0,)},
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Copy(streams(), **{**SIZES, **wrong})
