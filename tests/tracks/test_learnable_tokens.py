"""A track that nobody can learn, or everybody can, tells nothing: the baseline at its size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from tests.conftest import ROOT
from training.build import build
from training.config import validated
from training.fit import batch_order, evaluate, fit, mean

# test cross-entropy in nats, and its trivial reference, as the YAML says them too
FOUND = {
    "recall": (0.004, 1.76),
    "copy": (0.066, 2.16),
    "language": (1.56, 3.25),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_the_baseline_is_between_the_trivial_and_the_best(
    composed: Callable[..., DictConfig], name: str
) -> None:
    expected, trivial = FOUND[name]
    said = (ROOT / "conf" / "track" / f"{name}.yaml").read_text()
    assert f"{expected:g} nats on test" in said
    assert f"where {trivial:g} is trivial" in said
    config = validated(composed(f"track={name}", "lr=0.003", "seed=0"))
    track, network, _, optimizers = build(config)
    fit(network, track, optimizers, batch_order(config, len(track.train)), config)
    scores = evaluate(network, track, track.test)
    found = mean(scores["cross_entropy"])
    [reference] = [scores["test"] for scores in track.references.values()]
    assert reference == pytest.approx(trivial, abs=0.006)
    assert found < 0.9 * reference
    assert expected / 5 < found < expected + 0.1  # another machine rounds otherwise
    assert 0.3 < mean(scores["accuracy"]) <= 1
