"""Probes on networks with a fault planted in them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from models.lag_table import LagTable
from models.mixer import Mixer, Observed
from models.network import Network
from tests.conftest import SMALL
from tracks.sequence import Sequence
from tracks.track import Metric, Split, Track
from training import probes
from training.build import build
from training.config import validated
from training.errors import UserError
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


def test_a_network_claims_to_be_causal_where_all_its_mixers_do(composed: Compose) -> None:
    track, network = built(composed)
    network.blocks[1].mixer.causal = False
    assert probes.causal(network, track) is None


@pytest.mark.parametrize("which", ["validation", "test"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_score_that_is_not_finite_is_a_run_that_diverged(
    composed: Compose, which: str, value: float
) -> None:
    track, network = built(composed)
    scores = {
        split: {"mse": torch.ones(4), "mae": torch.ones(4)} for split in ("validation", "test")
    }
    done = probes.measure(None, network, network, track, scores["validation"], scores["test"])
    assert done["status"] == "finished"
    scores[which]["mse"][2] = value
    done = probes.measure(None, network, network, track, scores["validation"], scores["test"])
    assert done["status"] == "diverged"
    assert {done["probes"][name] for name in ("reach", "ablation", "causal")} == {None}


@pytest.mark.parametrize(("share", "expected"), [(0.0, True), (0.01, False), (1.0, False)])
def test_a_look_at_the_future_is_seen(composed: Compose, share: float, expected: bool) -> None:
    track, network = built(composed)
    network.blocks[1].mixer = Peeking(share)
    assert probes.causal(network, track) is expected


@pytest.mark.parametrize("token", [0, 8, 16, 24, 30])
def test_one_token_that_looks_at_the_next_is_seen(composed: Compose, token: int) -> None:
    class One(Peeking):
        def forward(self, x: Tensor) -> Tensor:
            x = x.clone()
            x[:, token] += x[:, token + 1]
            return x

    track, network = built(composed)
    network.blocks[1].mixer = One(1.0)
    assert probes.causal(network, track) is False


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
    square = sum(p.grad.square().sum() for p in network.parameters())
    expected = {
        f"blocks.{i}.mixer.bias.table": (b.mixer.bias.table.grad.norm() / square.sqrt()).item()
        for i, b in enumerate(network.blocks)
    }
    network.zero_grad()
    assert probes.reach(network, track) == pytest.approx(expected, rel=1e-4)
    assert min(expected.values()) > 1e-4


def test_a_mechanism_that_the_loss_does_not_reach_has_reach_zero(composed: Compose) -> None:
    """The earlier bench's fault: a bias that is the same for all keys cancels in the softmax."""
    track, network = built(composed)
    for block in network.blocks:
        block.mixer.lag.zero_()  # every key at lag 0: a constant per head
    reached = probes.reach(network, track)
    assert len(reached) == 2
    assert max(reached.values()) < 1e-6
    without = probes.ablation(network, track, evaluate(network, track, track.test))
    assert without["mse"] == pytest.approx(0, abs=1e-6)


def test_ablation_is_the_score_without_the_bias(composed: Compose) -> None:
    track, network = built(composed)
    with torch.no_grad():
        for block in network.blocks:
            block.mixer.bias.table.normal_(std=3.0)
    test = evaluate(network, track, track.test)
    seen = probes.ablation(network, track, test)
    for block in network.blocks:
        nn.init.zeros_(block.mixer.bias.table)
    for name, scores in evaluate(network, track, track.test).items():
        assert seen[name] == pytest.approx(mean(scores) - mean(test[name]))
        assert abs(seen[name]) > 1e-3
    assert set(seen) == {"mse", "mae"}


def test_without_a_mechanism_there_is_nothing_to_probe(composed: Compose) -> None:
    track, network = built(composed, "dense_attention")
    assert probes.reach(network, track) == {}
    assert probes.ablation(network, track, evaluate(network, track, track.test)) == {}
    assert probes.causal(network, track) is None


def test_a_frozen_mechanism_has_no_reach_but_an_ablation(composed: Compose) -> None:
    track, network = built(composed, "frozen_mixture")
    assert probes.reach(network, track) == {}
    assert set(probes.ablation(network, track, evaluate(network, track, track.test))) == {
        "mse",
        "mae",
    }


def test_overlap_counts_planted_examples(composed: Compose) -> None:
    track, _ = built(composed)
    assert probes.split_overlap(track) == 0
    inputs, targets = track.test.inputs.clone(), track.test.targets.clone()
    for i, split in [(0, track.train), (3, track.validation)]:
        inputs[i], targets[i] = split.inputs[5], split.targets[5]
    inputs[7] = track.train.inputs[5]  # same context, another horizon: not the same example
    track.test = Split(inputs, targets)
    assert probes.split_overlap(track) == 2


class Modes(Peeking):
    """Observes the modes in which it and its start are asked."""

    def signature(self, start: Mixer, x: Tensor) -> dict[str, Observed]:
        return {"training": Observed(float(self.training)), "start": Observed(start.training)}


@pytest.mark.parametrize("training", [False, True])
def test_both_networks_are_observed_in_evaluation_mode(composed: Compose, training: bool) -> None:
    track, network = built(composed)
    start = copy.deepcopy(network)
    for each in (network, start):
        for block in each.blocks:
            block.mixer = Modes(0.0)
        each.train(training)
    seen = probes.gathered(probes.observe(network, start, track))
    assert seen == {"training": 0.0, "start": 0.0}
    assert {m.training for n in (network, start) for m in n.modules()} == {training}


def test_metrics_over_blocks(composed: Compose) -> None:
    track, network = built(composed, "idea")
    with torch.no_grad():
        network.blocks[1].mixer.bias.log_rates += 0.5  # else the blocks are alike
        network.blocks[1].mixer.bias.logits[:, 0] += 1.0
    seen = probes.gathered(probes.observe(network, network, track))
    blocks = [b.mixer.bias.shape_signature(b.mixer.bias, torch.arange(32)) for b in network.blocks]
    for metric, gather in [
        ("bias_max_slope", max),
        ("bias_min_curvature", min),
        ("effective_components", lambda values: sum(values) / 2),
    ]:
        values = [block[metric].value for block in blocks]
        assert values[0] != values[1]
        assert seen[metric] == pytest.approx(gather(values))


def test_how_blocks_are_gathered_is_said_not_read_from_the_name() -> None:
    blocks = [
        {"max_in_name": Observed(v), "plain": Observed(v, over="max"), "min_x": Observed(v, "min")}
        for v in (1.0, 5.0)
    ]
    assert probes.gathered(blocks) == {"max_in_name": 3.0, "plain": 5.0, "min_x": 1.0}
    assert probes.gathered([]) == {}


def block(**values: float) -> list[dict[str, Observed]]:
    return [{name: Observed(value) for name, value in values.items()}]


def test_confirmed_only_where_every_criterion_holds_and_none_did_before(composed: Compose) -> None:
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

    def said(observed: dict[str, float], before: dict[str, float]) -> dict:
        found = probes.signature(predicted, network, block(**observed), block(**before))
        assert found is not None
        assert found["observed_at_start"] == before
        assert found["blocks"] == [observed]
        return found

    assert said(good, bad)["confirmed"] is True
    for metric in good:
        assert said(good | {metric: bad[metric]}, bad)["confirmed"] is False
        assert said(good, bad | {metric: good[metric]})["confirmed"] is False
    diverged = probes.signature(predicted, network, [], block(**bad))
    assert diverged is not None
    assert (diverged["observed"], diverged["blocks"]) == ({}, [])
    assert diverged["confirmed"] is False
    assert probes.signature(None, network, block(**good), block(**bad)) is None


@pytest.mark.parametrize(
    ("op", "value", "refused"),
    [("<", 7.5, True), ("<=", 3.0, True), ("<", 3.0, False), (">", 1.0, False), (">=", 1.0, True)],
)
def test_what_the_settings_make_certain_is_no_prediction(
    composed: Compose, op: str, value: float, refused: bool
) -> None:
    """Three components are never more than 3, nor fewer than 1."""
    criterion = f"{{metric: effective_components, op: '{op}', value: {value}}}"
    config = validated(
        composed(
            *SMALL,
            "variant=idea",
            "variant.mixer.bias.components=3",
            f"variant.signature.criteria=[{criterion}]",
        )
    )
    if not refused:
        build(config)
        return
    with pytest.raises(UserError, match="lies between 1 and 3 with these settings"):
        build(config)


class LooksAheadWhileItTrains(Peeking):
    """As `is_causal=not self.training` does."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else x


class Dropping(Peeking):
    """Causal, and random while it trains."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.3, self.training)


class LooksAheadOnceTrained(Peeking):
    """The other way round."""

    def forward(self, x: Tensor) -> Tensor:
        return x if self.training else super().forward(x)


@pytest.mark.parametrize(
    ("mixer", "expected"),
    [(LooksAheadWhileItTrains, False), (LooksAheadOnceTrained, False), (Dropping, True)],
)
def test_a_look_at_the_future_in_one_mode_alone_is_seen(
    composed: Compose, mixer: type[Peeking], expected: bool
) -> None:
    track, network = built(composed)
    network.blocks[1].mixer = mixer(1.0)
    network.eval()
    state = torch.random.get_rng_state()
    assert probes.causal(network, track) is expected
    assert not any(module.training for module in network.modules())
    assert torch.random.get_rng_state().equal(state)


class Rising(Sequence):
    """Says of every value of the horizon whether it lies above the context's mean."""

    metric = "accuracy"
    metrics: ClassVar = {"accuracy": Metric("max", bounds=(0.0, 1.0), can_tie=True)}

    def scores(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": ((outputs[:, -1] > 0) == (targets > 0)).float().mean(-1)}


def test_beside_a_metric_that_can_tie_stands_the_loss(composed: Compose) -> None:
    _, network = built(composed)
    track = Rising(lambda split: np.random.default_rng(len(split)), train=4, validation=8, test=9)
    with torch.no_grad():
        for each in network.blocks:
            each.mixer.bias.table.normal_(std=0.01)  # too little to turn a sign
    validation = evaluate(network, track, track.validation)
    test = evaluate(network, track, track.test)
    measured = probes.measure(None, network, network, track, validation, test)
    assert measured["secondary"] == {
        "loss": {
            "validation": pytest.approx(validation["loss"].mean().item()),
            "test": pytest.approx(test["loss"].mean().item()),
            "direction": "min",
            "bounds": (None, None),
            "can_tie": False,
        }
    }
    errors = (network(track.test.inputs)[:, -1] - track.test.targets).square().mean(-1)
    torch.testing.assert_close(test["loss"], errors.detach())
    assert measured["scores"]["test"] == pytest.approx(test["accuracy"].mean().item())
    with pytest.raises(KeyError, match="undescribed"):
        track.describe("undescribed")
    assert measured["probes"]["ablation"] == 0  # the accuracy ties
    assert 0 < abs(measured["probes"]["loss_ablation"]) < 1e-2


def test_a_metric_that_cannot_tie_needs_no_loss_beside_it(composed: Compose) -> None:
    track, network = built(composed)
    scores = evaluate(network, track, track.test)
    measured = probes.measure(None, network, network, track, scores, scores)
    assert set(measured["secondary"]) == {"mae"}
    assert measured["probes"]["loss_ablation"] is None
    assert measured["probes"]["ablation"] is not None


class Keeping(LagTable):
    """Keeps what it gave last, gradients and all."""

    def forward(self, lags: Tensor) -> Tensor:
        self.last = super().forward(lags)
        return self.last


class Around(LagTable):
    """A mechanism with another one inside."""

    def __init__(self, heads: int, context: int) -> None:
        super().__init__(heads, context)
        self.layers = nn.ModuleList([LagTable(heads, context)])

    def forward(self, lags: Tensor) -> Tensor:
        return super().forward(lags) + self.layers[0](lags)


@pytest.mark.parametrize("bias", [Keeping, Around])
def test_mechanisms_of_any_build_are_measured(composed: Compose, bias: type[LagTable]) -> None:
    track, network = built(composed)
    for each in network.blocks:
        each.mixer.bias = bias(2, 32)
        nn.init.normal_(each.mixer.bias.table)
    network.eval()
    scores = evaluate(network, track, track.test)
    measured = probes.measure(None, network, network, track, scores, scores)
    assert measured["probes"]["causal"] is True
    assert measured["probes"]["ablation"] != 0
    assert evaluate(network, track, track.test)["mse"].equal(scores["mse"])  # all is put back


def test_a_gradient_beyond_all_numbers_is_not_measured(composed: Compose) -> None:
    track, network = built(composed)
    network.head.weight.register_hook(lambda gradient: gradient * math.inf)
    assert probes.reach(network, track) == {}
