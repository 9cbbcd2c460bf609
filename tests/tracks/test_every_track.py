"""What every track's YAML must build: a new one is tested by being there."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest
import torch
from omegaconf import DictConfig

from tests.conftest import names
from tracks.track import Track
from training.build import build
from training.check import check
from training.config import Config, validated
from training.errors import UserError
from training.fit import evaluate
from training.probes.causal import causal
from training.probes.split_overlap import split_overlap
from training.probes.trained import Trained
from training.record import hashes
from training.step import batch_loss

Compose = Callable[..., DictConfig]
FEW = {
    "train": 96,
    "validation": 32,
    "test": 70,
    "rows": 96,
    "horizon": 8,
}  # where a track has such a key
ARMS = ("baseline", "dense_attention")  # of which one runs on any track


def few(composed: Compose, track: str) -> list[str]:
    """Overrides that leave a track a few examples."""
    keys = composed(f"track={track}").track
    return [f"track.{key}={n}" for key, n in FEW.items() if type(keys.get(key)) is int]


def config(composed: Compose, track: str, *more: str) -> Config:
    """A small configuration of a track, with the first of `ARMS` that it allows."""
    for arm in ARMS:
        found = validated(
            composed(
                f"track={track}",
                f"variant={arm}",
                "model.dim=16",
                "model.heads=2",
                *few(composed, track),
                *more,
            )
        )
        try:
            check(found)
        except UserError:
            continue
        return found
    pytest.fail(f"{track} takes none of {ARMS}")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.slow if name.endswith("_large") else ())
        for name in names("track")
    ],
)
def built(request: pytest.FixtureRequest, composed: Compose) -> tuple[Config, Track, Any]:
    torch.manual_seed(0)
    found = config(composed, request.param)
    track, network, _, _ = build(found)
    return found, track, network


def test_scores_are_one_number_an_example_in_their_bounds(built: Any) -> None:
    _, track, network = built
    scores = evaluate(network, track, track.test)
    assert set(scores) == set(track.metrics)
    assert track.metric in scores
    for name, each in scores.items():
        low, high = track.metrics[name].bounds or (None, None)
        assert each.shape == (len(track.test),)
        assert low is None or each.min() >= low - 1e-6
        assert high is None or each.max() <= high + 1e-6


def test_the_primary_metric_is_better_where_predictions_are(built: Any) -> None:
    """Training on a batch until it is known moves the batch's score in the metric's direction."""
    found, track, network = built
    network = build(found)[1]
    x, y = track.train.inputs[:16], track.train.targets[:16]
    loss_of = batch_loss(network, track, found)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)

    def state() -> tuple[float, float]:
        with torch.no_grad():
            score = track.scores(track.readout(network(x)), y)[track.metric].mean()
            return loss_of(x, y).item(), score.item()

    loss, score = state()
    for _ in range(30):
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()
    after = state()
    assert after[0] < loss
    assert (after[1] < score) == (track.metrics[track.metric].direction == "min")


def test_the_same_seed_gives_the_same_data_and_another_other_data(
    built: Any, composed: Compose
) -> None:
    found, track, _ = built
    again, _, start, _ = build(found)
    order = torch.arange(3)

    def of(track: Track) -> str:
        told: str = hashes(track, start, order, [])["data"]
        return told

    assert of(again) == of(track)
    other = build(found.model_copy(update={"seed": 1}))[0]
    draws = "streams" in signature(type(track)).parameters
    each_once = "rows" in found.track and found.track["rows"] is None
    assert (of(other) == of(track)) is (each_once or not draws)


def test_no_training_example_stands_in_another_split(built: Any) -> None:
    _, track, network = built
    assert split_overlap(Trained(network, track, {}, finished=True)) == 0


def test_a_causal_arm_sees_no_later_step(built: Any) -> None:
    _, track, network = built
    if not all(mixer.causal for mixer in network.mixers):
        assert not track.requires_causal
        pytest.skip("the arm that this track takes sees everything")
    assert causal(Trained(network, track, {}, finished=True)) is True


def test_scores_do_not_depend_on_the_batch(built: Any) -> None:
    """In batches of 7 as in batches of 64, as an independent pass over each example."""
    _, track, network = built

    def by(size: int) -> dict[str, torch.Tensor]:
        parts = [
            track.measured(track.predict(network, x), y)
            for x, y in zip(
                track.test.inputs.split(size), track.test.targets.split(size), strict=True
            )
        ]
        return {name: torch.cat([part[name] for part in parts]).detach() for name in parts[0]}

    small, large = by(7), by(64)
    for name, scores in large.items():
        torch.testing.assert_close(small[name], scores, rtol=1e-4, atol=1e-6)
