"""Probes on networks with a fault planted in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from models.mixer import Mixer
from models.network import Network
from tests.conftest import SMALL
from tracks.track import Split, Track
from training import probes
from training.build import build
from training.config import validated
from training.fit import evaluate, mean

Compose = Callable[..., DictConfig]


def built(composed: Compose, variant: str = "baseline") -> tuple[Track, Network]:
    track, network, _, _ = build(validated(composed(*SMALL, f"variant={variant}")))
    return track, network


class Peeking(Mixer):
    """Claims to be causal, and adds a little of the next token."""

    causal = True

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        return x + self.share * x.roll(-1, dims=1)


@pytest.mark.parametrize(("share", "expected"), [(0.0, True), (0.01, False), (1.0, False)])
def test_a_look_at_the_future_is_seen(composed: Compose, share: float, expected: bool) -> None:
    track, network = built(composed)
    network.blocks[1].mixer = Peeking(share)
    assert probes.causal(network, track) is expected


def test_a_look_at_the_very_last_token_is_seen(composed: Compose) -> None:
    class LastToFirst(Peeking):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x[:, :1] + x[:, -1:], x[:, 1:]], dim=1)

    track, network = built(composed)
    network.blocks[0].mixer = LastToFirst(1.0)
    assert probes.causal(network, track) is False


def test_reach_is_the_share_of_the_gradient(composed: Compose) -> None:
    track, network = built(composed)
    probed = Split(track.validation.inputs[:32], track.validation.targets[:32])
    track.loss(network(probed.inputs), probed.targets).mean().backward()
    own = [b.mixer.bias.table.grad for b in network.blocks]
    square = sum(p.grad.square().sum() for p in network.parameters())
    expected = (sum(g.square().sum() for g in own) / square).sqrt().item()
    network.zero_grad()
    assert probes.reach(network, track) == pytest.approx(expected, rel=1e-4)
    assert expected > 1e-4


def test_a_mechanism_that_the_loss_does_not_reach_has_reach_zero(composed: Compose) -> None:
    """The earlier bench's fault: a bias that is the same for all keys cancels in the softmax."""
    track, network = built(composed)
    for block in network.blocks:
        block.mixer.lag.zero_()  # every key at lag 0: a constant per head
    reached = probes.reach(network, track)
    assert reached is not None
    assert reached < 1e-6
    score = mean(evaluate(network, track, track.test)["mse"])
    assert probes.ablation(network, track, score) == pytest.approx(0, abs=1e-6)


def test_ablation_is_the_score_without_the_bias(composed: Compose) -> None:
    track, network = built(composed)
    with torch.no_grad():
        for block in network.blocks:
            block.mixer.bias.table.normal_(std=3.0)
    score = mean(evaluate(network, track, track.test)["mse"])
    seen = probes.ablation(network, track, score)
    for block in network.blocks:
        nn.init.zeros_(block.mixer.bias.table)
    assert seen == pytest.approx(mean(evaluate(network, track, track.test)["mse"]) - score)
    assert abs(seen) > 1e-3


def test_without_a_mechanism_there_is_nothing_to_probe(composed: Compose) -> None:
    track, network = built(composed, "dense_attention")
    assert probes.reach(network, track) is None
    assert probes.ablation(network, track, 0.0) is None
    assert probes.causal(network, track) is None


def test_a_frozen_mechanism_has_no_reach_but_an_ablation(composed: Compose) -> None:
    track, network = built(composed, "frozen_mixture")
    assert probes.reach(network, track) is None
    assert probes.ablation(network, track, 0.0) is not None


def test_overlap_counts_planted_examples(composed: Compose) -> None:
    track, _ = built(composed)
    assert probes.split_overlap(track) == 0
    inputs, targets = track.test.inputs.clone(), track.test.targets.clone()
    for i, split in [(0, track.train), (3, track.validation)]:
        inputs[i], targets[i] = split.inputs[5], split.targets[5]
    inputs[7] = track.train.inputs[5]  # same context, another horizon: not the same example
    track.test = Split(inputs, targets)
    assert probes.split_overlap(track) == 2


def test_metrics_over_blocks(composed: Compose) -> None:
    track, network = built(composed, "idea")
    seen = probes.observe(network, network, track)
    blocks = [b.mixer.bias.shape_signature(b.mixer.bias, 32) for b in network.blocks]
    assert seen["bias_max_slope"] == max(b["bias_max_slope"] for b in blocks)
    assert seen["bias_min_curvature"] == min(b["bias_min_curvature"] for b in blocks)
    assert seen["effective_components"] == pytest.approx(
        sum(b["effective_components"] for b in blocks) / 2
    )


def test_confirmed_only_where_every_criterion_holds(composed: Compose) -> None:
    config = validated(composed(*SMALL, "variant=idea"))
    _, network, _, _ = build(config)
    predicted = config.variant.signature
    assert predicted is not None
    good = {
        "rate_distance_from_start": 0.2,
        "effective_components": 2.0,
        "attention_rise_over_start": 0.02,
    }
    bad = {**dict.fromkeys(good, 0.0), "effective_components": 8.0}
    said = probes.signature(predicted, network, good)
    assert said is not None
    assert said["confirmed"] is True
    for metric in good:
        said = probes.signature(predicted, network, good | {metric: bad[metric]})
        assert said is not None
        assert said["confirmed"] is False
    assert probes.signature(predicted, network, {})["confirmed"] is False  # a diverged run
    assert probes.signature(None, network, good) is None
