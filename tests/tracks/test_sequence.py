"""The synthetic track: what its windows are made of, and that its splits are what they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tracks.sequence import Sequence, draw
from tracks.track import Streams


def streams(seed: int = 0) -> Streams:
    """A generator per split, as a run has them."""
    return lambda split: np.random.default_rng([seed, *split.encode()])


def test_noiseless_windows_are_two_sinusoids() -> None:
    """A sum of two sinusoids obeys a linear recurrence of order 4: its Hankel matrix has rank 4."""
    for window in draw(np.random.default_rng(0), 20, 40, (8.0, 16.0), 0.0, 0.5):
        hankel = np.lib.stride_tricks.sliding_window_view(window, 12)
        singular = np.linalg.svd(hankel, compute_uv=False)
        assert singular[4] < 1e-10 * singular[0]
        assert singular[3] > 1e-6 * singular[0]


def test_noise_is_stationary_with_the_correlation_it_claims() -> None:
    arguments = (20_000, 12, (8.0, 16.0))
    clean = draw(np.random.default_rng(0), *arguments, 0.0, 0.6)
    noise = draw(np.random.default_rng(0), *arguments, 0.5, 0.6) - clean
    np.testing.assert_allclose(noise.std(0), 0.5, rtol=0.03)
    for lag in (1, 2, 3):
        seen = (noise[:, 4] * noise[:, 4 + lag]).mean() / 0.25
        assert seen == pytest.approx(0.6**lag, abs=0.03)


def test_windows_are_standardised_by_their_context_alone() -> None:
    track = Sequence(streams(), test=300)
    inputs = track.test.inputs.double()
    assert inputs.shape == (300, 32, 1)
    assert track.test.targets.shape == (300, 8)
    np.testing.assert_allclose(inputs.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(inputs.std(1, correction=0), 1, atol=1e-5)


def test_horizon_follows_the_context() -> None:
    """Without noise the recurrence that holds in the context goes on into the horizon."""
    track = Sequence(streams(), noise=0.0, periods=(8.0, 16.0))
    x = np.concatenate([track.test.inputs[:, :, 0], track.test.targets], axis=1).astype(float)
    for window in x[:20]:
        # order 5: four for the sinusoids, one for the mean that standardising took away
        rows = np.lib.stride_tricks.sliding_window_view(window, 6)
        coefficients = np.linalg.lstsq(rows[:27, :5], rows[:27, 5], rcond=None)[0]
        np.testing.assert_allclose(rows[27:, :5] @ coefficients, rows[27:, 5], atol=2e-2)


def test_data_depend_on_the_seed_alone() -> None:
    one, same, other = (Sequence(streams(s)) for s in (0, 0, 1))
    assert one.train.inputs.equal(same.train.inputs)
    assert not one.train.inputs.equal(other.train.inputs)


def test_loss_and_scores_are_of_each_example_alone() -> None:
    track = Sequence(streams(), test=4)
    off = torch.tensor([0.0, 0.5, -2.0, 3.0])
    predictions = track.test.targets + off[:, None]
    scores = track.scores(predictions, track.test.targets)
    torch.testing.assert_close(track.loss(predictions, track.test.targets), off.square())
    torch.testing.assert_close(scores, {"mse": off.square(), "mae": off.abs()})


@pytest.mark.parametrize("larger", ["train", "validation", "test"])
def test_the_size_of_a_split_changes_no_other(larger: str) -> None:
    sizes = {"train": 20, "validation": 10, "test": 10}
    track, other = Sequence(streams(), **sizes), Sequence(streams(), **{**sizes, larger: 30})
    for split in sizes:
        same = getattr(track, split).inputs.equal(getattr(other, split).inputs)
        assert same is (split != larger)
    assert not track.test.inputs.equal(track.validation.inputs)


@pytest.mark.parametrize(
    "wrong",
    [
        {"context": 1},
        {"horizon": 0},
        {"train": 0},
        {"validation": 0},
        {"test": 0},
        {"noise": -1.0},
        {"noise": 1e300},
        {"correlation": 1.0},
        {"periods": (8.0, 8.0)},
        {"periods": (0.0, 8.0)},
        {"periods": (16.0, math.inf)},
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sequence(streams(), **wrong)
