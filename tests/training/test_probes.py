"""Probes on networks with a fault planted in them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from models.lag_table import LagTable
from models.mixer import Mixer, Observed
from models.network import Network
from tests.conftest import SMALL
from tracks.forecasting import Forecasting
from tracks.sequence import Sequence
from tracks.track import SPLITS, Metric, Split, Track
from training import fit, run
from training.build import build, build_network
from training.check import check
from training.config import validated
from training.errors import UserError
from training.fit import evaluate, mean
from training.observe import gathered, observe, signature
from training.probes import probed, probes
from training.probes.trained import Trained
from training.record import means
from training.run import train_one

Compose = Callable[..., DictConfig]


def built(composed: Compose, variant: str = "baseline") -> tuple[Track, Network]:
    track, network, _, _ = build(validated(composed(*SMALL, f"variant={variant}")))
    return track, network


def probe(name: str, network: Network, track: Track) -> Any:
    """What one probe finds in a network, its scores taken now."""
    scores = {split: evaluate(network, track, track.splits[split]) for split in ("test",)}
    return probes()[name](Trained(network, track, scores, finished=True))


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
    assert probe("causal", network, track) is None


@pytest.mark.parametrize("which", [None, "validation", "test", "test@64"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_score_that_is_not_finite_is_a_run_that_diverged(
    composed: Compose, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, which: str, value: float
) -> None:
    def spoiled(network: nn.Module, track: Track, split: Split) -> dict[str, Tensor]:
        scores = {name: each.clone() for name, each in evaluate(network, track, split).items()}
        if which and split is track.splits[which]:
            scores["mse"][2] = value
        return scores

    for module in (fit, run):  # validation is scored as it trains, the tests after it
        monkeypatch.setattr(module, "evaluate", spoiled)
    done = train_one(composed(*SMALL, "track.test_lengths=[2]", "variant.positions=none"), tmp_path)
    assert done["status"] == ("diverged" if which else "finished")
    for name in ("reach", "ablation", "causal"):
        assert (done["probes"][name] is None) is bool(which)
    assert (done["signature"]["observed"] == {}) is bool(which)


@pytest.mark.parametrize(("share", "expected"), [(0.0, True), (0.01, False), (1.0, False)])
def test_a_look_at_the_future_is_seen(composed: Compose, share: float, expected: bool) -> None:
    track, network = built(composed)
    network.blocks[1].mixer = Peeking(share)
    assert probe("causal", network, track) is expected


@pytest.mark.parametrize("token", [0, 8, 16, 24, 30])
def test_one_token_that_looks_at_the_next_is_seen(composed: Compose, token: int) -> None:
    class One(Peeking):
        def forward(self, x: Tensor) -> Tensor:
            x = x.clone()
            x[:, token] += x[:, token + 1]
            return x

    track, network = built(composed)
    network.blocks[1].mixer = One(1.0)
    assert probe("causal", network, track) is False


def test_a_look_at_the_very_last_token_is_seen(composed: Compose) -> None:
    class LastToFirst(Peeking):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x[:, :1] + x[:, -1:], x[:, 1:]], dim=1)

    track, network = built(composed)
    network.blocks[0].mixer = LastToFirst(1.0)
    assert probe("causal", network, track) is False


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("peeks", [False, True])
def test_of_few_time_steps_a_look_at_the_next_is_seen(
    composed: Compose, steps: int, peeks: bool
) -> None:
    windows = np.random.default_rng(0).normal(size=(3, 8, steps + 2))
    track = Forecasting(dict(zip(SPLITS, windows, strict=True)), horizon=2)
    network = build_network(validated(composed(*SMALL)), track)
    if peeks:
        network.blocks[1].mixer = Peeking(1.0)
    assert probe("causal", network, track) is not (peeks and steps > 1)  # after one there is none


def test_reach_is_the_share_of_the_gradient(composed: Compose) -> None:
    track, network = built(composed)
    few = Split(track.validation.inputs[:32], track.validation.targets[:32])
    track.loss(track.readout(network(few.inputs)), few.targets).mean().backward()
    square = sum(p.grad.square().sum() for p in network.parameters())
    expected = {
        f"blocks.{i}.mixer.bias.table": (b.mixer.bias.table.grad.norm() / square.sqrt()).item()
        for i, b in enumerate(network.blocks)
    }
    network.zero_grad()
    found = probe("reach", network, track)
    assert found["by_parameter"] == pytest.approx(expected, rel=1e-4)
    assert found["all"] == pytest.approx(math.hypot(*expected.values()), rel=1e-4)
    assert min(expected.values()) > 1e-4


def test_a_mechanism_that_the_loss_does_not_reach_has_reach_zero(composed: Compose) -> None:
    """The earlier bench's fault: a bias that is the same for all keys cancels in the softmax."""
    track, network = built(composed)
    for block in network.blocks:
        bias = block.mixer.bias
        nn.init.normal_(bias.table)
        bias.curve = lambda lags, b=bias: LagTable.curve(b, 0 * lags)  # a constant per head
    reached = probe("reach", network, track)
    assert len(reached["by_parameter"]) == 2
    assert max(reached["by_parameter"].values()) < 1e-6
    assert probe("ablation", network, track) == pytest.approx(0, abs=1e-6)


def test_ablation_is_the_score_without_the_bias(composed: Compose) -> None:
    track, network = built(composed)
    with torch.no_grad():
        for block in network.blocks:
            block.mixer.bias.table.normal_(std=3.0)
    test = evaluate(network, track, track.test)
    seen = probe("ablation", network, track)
    for block in network.blocks:
        nn.init.zeros_(block.mixer.bias.table)
    without = evaluate(network, track, track.test)
    assert seen == pytest.approx(mean(without["mse"]) - mean(test["mse"]))
    assert abs(seen) > 1e-3


def test_without_a_mechanism_there_is_nothing_to_probe(composed: Compose) -> None:
    track, network = built(composed, "dense_attention")
    for name in ("reach", "ablation", "causal"):
        assert probe(name, network, track) is None


def test_a_frozen_mechanism_has_no_reach_but_an_ablation(composed: Compose) -> None:
    track, network = built(composed, "exp_mixture_frozen")
    assert probe("reach", network, track) is None
    assert abs(probe("ablation", network, track)) > 1e-6


def test_overlap_counts_planted_examples(composed: Compose) -> None:
    track, network = built(composed)
    assert probe("split_overlap", network, track) == 0
    inputs, targets = track.test.inputs.clone(), track.test.targets.clone()
    for i, split in [(0, track.train), (3, track.validation)]:
        inputs[i], targets[i] = split.inputs[5], split.targets[5]
    inputs[7] = track.train.inputs[5]  # same context, another horizon: not the same example
    track.splits["test"] = Split(inputs, targets)
    assert probe("split_overlap", network, track) == 2


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
    seen = gathered(observe(network, start, track))
    assert (seen["training"], seen["start"]) == (0.0, 0.0)
    assert {m.training for n in (network, start) for m in n.modules()} == {training}


def test_metrics_over_blocks(composed: Compose) -> None:
    track, network = built(composed, "idea")
    with torch.no_grad():
        network.blocks[1].mixer.bias.log_rates += 0.5  # else the blocks are alike
        network.blocks[1].mixer.bias.logits[:, 0] += 1.0
    seen = gathered(observe(network, network, track))
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
    assert gathered(blocks) == {"max_in_name": 3.0, "plain": 5.0, "min_x": 1.0}
    assert gathered([]) == {}


def block(**values: float) -> list[dict[str, Observed]]:
    return [{name: Observed(value) for name, value in values.items()}]


def test_a_record_keeps_what_was_predicted_and_what_was_seen_before_and_after(
    composed: Compose,
) -> None:
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

    found = signature(predicted, network, block(**good), block(**bad))
    assert (found["observed"], found["observed_at_start"]) == (good, bad)
    assert found["blocks"] == [good]
    assert found["prediction"] == predicted.prediction
    assert [c["metric"] for c in found["criteria"]] == list(good)
    diverged = signature(predicted, network, [], block(**bad))
    assert (diverged["observed"], diverged["blocks"]) == ({}, [])
    assert diverged["observed_at_start"] == bad


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
        check(config)
        return
    with pytest.raises(UserError, match="lies between 1 and 3 with these settings"):
        check(config)


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
    assert probe("causal", network, track) is expected
    assert not any(module.training for module in network.modules())
    assert torch.random.get_rng_state().equal(state)


class Rising(Sequence):
    """Says of every value of the horizon whether it lies above the context's mean."""

    metric = "accuracy"
    metrics: ClassVar = {"accuracy": Metric("max", bounds=(0.0, 1.0), can_tie=True)}

    def scores(self, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": ((predictions > 0) == (targets > 0)).float().mean(-1)}


def test_beside_a_metric_that_can_tie_stands_the_loss(composed: Compose) -> None:
    _, network = built(composed)
    track = Rising(lambda split: np.random.default_rng(len(split)), train=4, validation=8, test=9)
    with torch.no_grad():
        for each in network.blocks:
            each.mixer.bias.table.normal_(std=0.01)  # too little to turn a sign
    validation = evaluate(network, track, track.validation)
    test = evaluate(network, track, track.test)
    primary, secondary = means(track, {"validation": validation, "test": test})
    assert secondary == {
        "loss": {
            "scores": {
                "validation": pytest.approx(validation["loss"].mean().item()),
                "test": pytest.approx(test["loss"].mean().item()),
            },
            "direction": "min",
            "bounds": (None, None),
            "can_tie": False,
        }
    }
    errors = (network(track.test.inputs)[:, -1] - track.test.targets).square().mean(-1)
    torch.testing.assert_close(test["loss"], errors.detach())
    assert primary["test"] == pytest.approx(test["accuracy"].mean().item())
    with pytest.raises(KeyError, match="undescribed"):
        track.describe("undescribed")
    assert probe("ablation", network, track) == 0  # the accuracy ties
    assert 0 < abs(probe("loss_ablation", network, track)) < 1e-2


def test_a_metric_that_cannot_tie_needs_no_loss_beside_it(composed: Compose) -> None:
    track, network = built(composed)
    scores = evaluate(network, track, track.test)
    assert set(means(track, {"validation": scores, "test": scores})[1]) == {"mae"}
    assert probe("loss_ablation", network, track) is None
    assert probe("ablation", network, track) is not None


class Keeping(LagTable):
    """Keeps what it gave last, gradients and all."""

    def curve(self, lags: Tensor) -> Tensor:
        self.last = super().curve(lags)
        return self.last


class Around(LagTable):
    """A mechanism with another one inside."""

    def __init__(self, heads: int, context: int) -> None:
        super().__init__(heads, context)
        self.layers = nn.ModuleList([LagTable(heads, context)])

    def curve(self, lags: Tensor) -> Tensor:
        return super().curve(lags) + self.layers[0].curve(lags)


@pytest.mark.parametrize("bias", [Keeping, Around])
def test_mechanisms_of_any_build_are_measured(composed: Compose, bias: type[LagTable]) -> None:
    track, network = built(composed)
    for each in network.blocks:
        each.mixer.bias = bias(2, 32)
        nn.init.normal_(each.mixer.bias.table)
    network.eval()
    scores = evaluate(network, track, track.test)
    measured = probed(Trained(network, track, {"test": scores}, finished=True))
    assert measured["causal"] is True
    assert measured["ablation"] != 0
    assert evaluate(network, track, track.test)["mse"].equal(scores["mse"])  # all is put back


def test_a_gradient_beyond_all_numbers_is_not_measured(composed: Compose) -> None:
    track, network = built(composed)
    network.head.weight.register_hook(lambda gradient: gradient * math.inf)
    assert probe("reach", network, track) is None
