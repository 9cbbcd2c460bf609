"""A track that nobody can learn, or everybody can, tells nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from training.build import build
from training.config import validated
from training.fit import batch_order, evaluate, fit, mean


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "low", "high"), [("baseline", 0.15, 0.35), ("no_mixer", 0.5, 1.1)]
)
def test_the_sequence_track_is_neither_hopeless_nor_trivial(
    composed: Callable[..., DictConfig], variant: str, low: float, high: float
) -> None:
    """Test MSE as a share of the target variance, at the default budget."""
    config = validated(composed(f"variant={variant}", "lr=0.006"))
    track, network, _, optimizers = build(config)
    fit(network, track, optimizers, batch_order(config, len(track.train)), config)
    share = mean(evaluate(network, track, track.test)["mse"]) / track.test.targets.var().item()
    assert low < share < high
