"""Images, video and dynamics can be learned, and not by everybody: at their default size.

The numbers are those of the YAMLs, at lr .003 and seed 0.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from tests.conftest import names
from training.build import build
from training.config import Config, validated
from training.fit import batch_order, evaluate, fit, mean

Compose = Callable[..., DictConfig]
OURS = [name for name in names("track") if name.startswith(("image", "video", "dynamics"))]
LARGE = [name for name in OURS if name.endswith("_large")]
SMALL = ("model.dim=16", "model.heads=2", "training.epochs=1")
FEW = ("track.train=64", "track.validation=16", "track.test=16")


def small(composed: Compose, track: str, variant: str) -> Config:
    few = ("track.rows=64",) if track.startswith("image") else FEW
    return validated(composed(f"track={track}", f"variant={variant}", *SMALL, *few))


@pytest.mark.parametrize("track", OURS)
def test_a_score_is_of_its_example_alone(composed: Compose, track: str) -> None:
    config = small(composed, track, "no_mixer")
    found, network, _, _ = build(config)
    predicted = found.predict(network, found.test.inputs[:6])
    together = found.measured(predicted, found.test.targets[:6])
    for i in range(6):
        one = slice(i, i + 1)
        alone = found.measured(
            found.predict(network, found.test.inputs[one]), found.test.targets[one]
        )
        for name, score in alone.items():
            assert score.item() == pytest.approx(together[name][i].item(), rel=1e-3, abs=1e-5)


# The arm that stands for the baseline, the score that it must reach, and one that it must not: the
# ceiling is far.
REACHED: dict[str, tuple[str, float, float]] = {
    "image": ("dense_attention", 0.9, 0.1),
    "image_digits": ("dense_attention", 0.8, 0.1),
    "image_raster": ("baseline", 0.5, 0.1),
    "video": ("baseline", 0.6, 0.1),
    "video_next": ("baseline", 0.3, 0.02),
    "dynamics": ("baseline", 0.1, 0.003),
    "dynamics_ks": ("baseline", 0.1, 0.003),
}


@pytest.mark.slow
@pytest.mark.parametrize("track", REACHED)
def test_the_baseline_leaves_what_is_trivial_behind(composed: Compose, track: str) -> None:
    """Scores as shares of the best trivial reference's, by test splits."""
    variant, most, least = REACHED[track]
    config = validated(composed(f"track={track}", f"variant={variant}", "lr=0.003"))
    found, network, _, optimizers = build(config)
    fit(network, found, optimizers, batch_order(config, len(found.train)), config)
    score = mean(evaluate(network, found, found.test)[found.metric])
    trivial = min(scores["test"] for scores in found.references.values())
    assert least * trivial < score < most * trivial


def test_each_track_is_tried() -> None:
    assert {*REACHED, *LARGE} == {*OURS}
