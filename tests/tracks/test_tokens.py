"""What holds of every track of tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig

from tests.conftest import small, variants
from tracks.tokens import Tokens
from training.build import build
from training.check import check
from training.config import validated
from training.errors import UserError
from training.fit import batch_order, evaluate, fit, mean
from training.probes.causal import causal
from training.probes.trained import Trained

TRACKS = ("copy", "language", "recall")
SEES_AHEAD = {"dense_attention", "tensor_mixer"}
Compose = Callable[..., DictConfig]


@pytest.mark.parametrize("variant", variants())
@pytest.mark.parametrize("track", TRACKS)
def test_every_causal_variant_learns_from_it(composed: Compose, track: str, variant: str) -> None:
    if variant in SEES_AHEAD:
        pytest.skip("it is refused, as the next test sees")
    config = validated(composed(*small(f"track={track}", f"variant={variant}", "lr=0.01")))
    check(config)
    found, network, _, optimizers = build(config)
    assert isinstance(found, Tokens)
    before = mean(evaluate(network, found, found.train)["cross_entropy"])
    fit(network, found, optimizers, batch_order(config, len(found.train)), config)
    assert mean(evaluate(network, found, found.train)["cross_entropy"]) < before
    assert causal(Trained(network, found, {}, finished=True))


@pytest.mark.parametrize("variant", sorted(SEES_AHEAD))
@pytest.mark.parametrize("track", TRACKS)
def test_what_sees_ahead_is_refused(composed: Compose, track: str, variant: str) -> None:
    config = validated(composed(*small(f"track={track}", f"variant={variant}")))
    with pytest.raises(UserError, match=r"variant\.mixer: .* requires mixers that are causal"):
        check(config)


@pytest.mark.parametrize("track", TRACKS)
def test_longer_rows_than_trained_on_are_scored(composed: Compose, track: str) -> None:
    arguments = (f"track={track}", "track.test_lengths=[1,2]")
    found, network = check(validated(composed(*small(*arguments, "variant.positions=none"))))
    [name] = [name for name in found.tests if name != "test"]
    assert name == f"test@{2 * found.axes[0]}"
    scores = evaluate(network, found, found.tests[name])
    assert set(scores) == set(found.metrics)
    with pytest.raises(UserError, match=r"variant\.positions is learned, .* variant\.positions=n"):
        check(validated(composed(*small(*arguments))))


@pytest.mark.parametrize("track", TRACKS)
def test_scores_do_not_depend_on_the_batch(composed: Compose, track: str) -> None:
    found, network, _, _ = build(validated(composed(*small(f"track={track}"))))
    split, whole = found.test, evaluate(network, found, found.test)
    parts = [
        found.measured(found.predict(network, x), y)
        for x, y in zip(split.inputs.split(7), split.targets.split(7), strict=True)
    ]
    for name, scores in whole.items():
        torch.testing.assert_close(torch.cat([part[name] for part in parts]).detach(), scores)
