"""Associative recall: every answer stands in its row, and what is asked is as published."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from tests.tracks.test_sequence import streams
from tracks.recall import BLANK, Recall, distinct
from tracks.tokens import SILENT

SIZES = {"train": 300, "validation": 100, "test": 200}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"vocabulary": 8, "pairs": (1, 3), "context": 12},
        {"pairs": (16, 16)},
        {"spread": 1.0},
        {"test_lengths": (2, 3)},
    ],
)
def test_every_answer_is_found_in_its_row_by_reading_it(settings: dict) -> None:
    track = Recall(streams(), **SIZES, **settings)
    fewest, most = settings.get("pairs", (4, 8))
    half = settings.get("vocabulary", 64) // 2
    for split in track.splits.values():
        numbers = set()
        for row, target in zip(split.inputs.tolist(), split.targets.tolist(), strict=True):
            asked = [i for i, t in enumerate(target) if t != SILENT]
            value_of = {}
            for i in range(0, 2 * len(asked), 2):
                assert 0 < row[i] < half <= row[i + 1] < 2 * half
                value_of[row[i]] = row[i + 1]
            assert len(value_of) == len(set(value_of.values())) == len(asked)
            assert [value_of[row[i]] for i in asked] == [target[i] for i in asked]
            assert sorted(row[i] for i in asked) == sorted(value_of)  # each once
            assert all(i >= 2 * len(asked) and i % 2 == 0 for i in asked)
            rest = set(range(2 * len(asked), len(row))) - set(asked)
            assert all(row[i] == BLANK for i in rest)
            numbers.add(len(asked))
        assert numbers == set(range(fewest, most + 1))
    expected = {f"test@{64 * k}": 64 * k for k in settings.get("test_lengths", ())}
    found = {n: s.inputs.shape[1] for n, s in track.tests.items() if n != "test"}
    assert found == expected


@pytest.mark.parametrize("spread", [0.01, 0.5, 1.0])
def test_a_query_comes_where_the_power_law_has_it(spread: float) -> None:
    track = Recall(streams(), pairs=(1, 1), context=22, spread=spread, train=40_000)
    at = (track.train.targets != SILENT).int().argmax(1)
    found = np.bincount((at.numpy() - 2) // 2, minlength=10) / len(at)
    weights = np.array([j ** (spread - 1) for j in range(1, 11)])
    np.testing.assert_allclose(found, weights / weights.sum(), atol=0.01)


def test_keys_are_asked_in_an_order_of_their_own() -> None:
    track = Recall(streams(), pairs=(2, 2), train=2000)
    told, asked = track.train.inputs[:, [0, 2]], track.train.targets != SILENT
    again = track.train.inputs[asked].view(-1, 2)
    assert 0.45 < (told == again).all(1).float().mean() < 0.55


def test_numbers_are_drawn_evenly_without_repeating() -> None:
    drawn = distinct(np.random.default_rng(0), 24_000, 4, 3)
    rows, counts = np.unique(drawn, axis=0, return_counts=True)
    assert [tuple(row) for row in rows] == list(itertools.permutations(range(4), 3))
    np.testing.assert_allclose(counts, 1000, atol=5 * 1000**0.5)


def test_the_reference_says_any_of_the_rows_values() -> None:
    track = Recall(streams(), **SIZES)
    for name in ("validation", "test"):
        asked = (track.splits[name].targets != SILENT).sum(1)
        mean = sum(float(np.log(n)) for n in asked.tolist()) / len(asked)
        assert track.references["any_value_cross_entropy"][name] == pytest.approx(mean)


def test_loss_and_scores_are_of_the_queries_alone() -> None:
    track = Recall(streams(), **SIZES)
    targets = track.test.targets[:6]
    logits = torch.randn(6, 64, 64, generator=torch.Generator().manual_seed(0))
    scores = track.scores(logits, targets)
    for i in range(6):
        asked = [t for t in range(64) if targets[i, t] != SILENT]
        said = logits[i].log_softmax(-1)
        losses = [-said[t, targets[i, t]].item() for t in asked]
        right = [said[t].argmax() == targets[i, t] for t in asked]
        assert scores["cross_entropy"][i].item() == pytest.approx(np.mean(losses), rel=1e-5)
        assert scores["accuracy"][i].item() == pytest.approx(np.mean(right))
    assert track.loss(logits, targets).equal(scores["cross_entropy"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": (0, 4)},
        {"pairs": (5, 4)},
        {"pairs": (4, 17)},
        {"vocabulary": 16, "pairs": (4, 8)},
        {"vocabulary": 63},
        {"context": 63},
        {"spread": 0.0},
        {"train": 0},
        {"validation": 0},
        {"test": 0},
        {"test_lengths": (2, 2)},
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Recall(streams(), **{**SIZES, **wrong})
