"""Every arm on every track that allows it: a step lowers the loss, and no later step is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from omegaconf import DictConfig

from tests.conftest import GRID_MIXERS, names
from tests.tracks.test_every_track import few
from tracks.track import Track
from training.build import build, build_track
from training.check import check
from training.config import validated
from training.errors import UserError
from training.probes.causal import causal
from training.probes.trained import Trained
from training.step import batch_loss

SOON = [
    *(("recall", "exp_mixture"), ("video_next", "cope"), ("image", "tensor_mixer")),
    *(("dynamics", "base_conv"), ("image", "baseline"), ("language", "dense_attention")),
    *(("video_next", "causal_tensor_mixer"), ("image", "dense_lag_table")),
]
SEE_ALL = GRID_MIXERS | {"dense_attention"}  # what stands after, too


def pairs() -> list[Any]:
    """A few of them are quick tests; what is large is the same at another size."""
    return [
        pytest.param(track, variant, marks=() if (track, variant) in SOON else pytest.mark.slow)
        for track in names("track")
        for variant in names("variant")
        if not track.endswith("_large")
    ]


def is_refused(track: Track, variant: str) -> bool:
    """What needs a time axis that is not there, or sees what it must not."""
    if variant in SEE_ALL:
        return track.requires_causal
    if variant == "base_conv" and len(track.axes) > 1:
        return True
    if variant == "causal_tensor_mixer" and len(track.axes) == 1:
        return True
    return variant != "no_mixer" and track.time_axis is None


@pytest.mark.parametrize(("track", "variant"), pairs())
def test_a_step_lowers_the_loss_and_no_later_step_is_seen(
    composed: Callable[..., DictConfig], track: str, variant: str
) -> None:
    overrides = [f"track={track}", f"variant={variant}", *few(composed, track)]
    config = validated(composed(*overrides, "model.dim=16", "model.heads=2"))
    if is_refused(build_track(config), variant):
        with pytest.raises(UserError, match=r"time|causal"):
            check(config)
        return
    check(config)
    built, network, _, _ = build(config)
    claimed = variant not in SEE_ALL and built.time_axis is not None
    assert causal(Trained(network, built, {}, finished=True)) is (True if claimed else None)

    x, y = built.train.inputs[:16], built.train.targets[:16]
    loss_of = batch_loss(network, built, config)
    before = loss_of(x, y)
    before.backward()
    with torch.no_grad():  # so short that the loss is all but linear
        moved = [p for p in network.parameters() if p.grad is not None]
        norm = sum(float(p.grad.square().sum()) for p in moved if p.grad is not None) ** 0.5
        for p in moved:
            assert p.grad is not None
            p -= 1e-2 * p.grad / norm
    assert loss_of(x, y).item() < before.item()
