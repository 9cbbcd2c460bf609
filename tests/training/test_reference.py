"""A whole run of the product, held against the plain second implementation in `reference.py`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from scipy import stats
from torch import Tensor, nn
from torch.optim import _muon as muon

import training.build
import training.errors
import training.run
from records.files import finite
from records.signature import Signature
from tests import reference
from training.config import resolved, validated

Compose = Callable[..., DictConfig]
SPLITS = ("train", "validation", "test")

SIZES = (
    *("model.dim=8", "model.heads=2", "training.epochs=2", "training.batch_size=8"),
    *("gamma=0.7", "mechanism_lr_scale=4", "lr=0.003", "save_weights=true", "device=cpu"),
    *("optimizer.weight_decay=0.1", "optimizer.warmup=0.2", "optimizer.clip_norm=5"),
)
SEQUENCE = (  # 7 steps an epoch, the last of half a batch; more examples than are scored at a time
    *("track=sequence", "track.context=10", "track.horizon=3", "track.periods=[4, 10]"),
    *("track.train=52", "track.validation=40", "track.test=70"),
)
SUNSPOTS = (  # a horizon longer than a season
    *("track=sunspots", "track.context=9", "track.horizon=12", "training.batch_size=32"),
)
CO2 = ("track=series", "track.context=8", "track.horizon=4", "training.batch_size=256")
MUON = ("optimizer=muon",)
SGD = ("optimizer=sgd", "lr=0.05")
PREDICTS = (
    "variant.signature={prediction: heads rise, criteria: [{metric: nonmonotone_heads, op: '>',"
    " value: 0.9}]}"
)
FORGETS = (
    "variant.signature={prediction: it forgets, criteria: [{metric: kept_share, op: '<',"
    " value: 0.8}]}"
)
# What a run is made of. Its gradients are clipped on some steps, and not on others.
CASES: dict[str, tuple[str, ...]] = {
    "table": ("variant=lag_table", *SEQUENCE),
    "table, float32": ("variant=lag_table", *SEQUENCE, "seed=5"),
    "table, sgd": ("variant=lag_table", *SEQUENCE, *SGD),
    "table, muon": ("variant=lag_table", *SEQUENCE, *MUON, "seed=1"),
    "table, short": ("variant=lag_table", *SEQUENCE, "variant.mixer.bias.length=4", "seed=2"),
    "table, both ways": (
        *("variant=lag_table", *SUNSPOTS, "variant.mixer.causal=false", "optimizer.clip_norm=12"),
    ),
    "table, often validated": ("variant=lag_table", *SEQUENCE, "validations_per_epoch=3"),
    "table, constant lr": (
        *("variant=lag_table", *SEQUENCE, "optimizer.schedule=constant"),
        "optimizer.clip_norm=null",
    ),
    "table, co2": ("variant=lag_table", *CO2, "seed=3"),
    "mixture": ("variant=exp_mixture", *SEQUENCE),
    "mixture, sgd, float32": ("variant=exp_mixture", *SEQUENCE, *SGD),
    "mixture, sunspots": ("variant=exp_mixture", *SUNSPOTS, "seed=1"),
    "mixture, muon": ("variant=exp_mixture", *SEQUENCE, *MUON, "seed=4", "optimizer.clip_norm=6"),
    "mixture, one component": (
        *("variant=exp_mixture", *SEQUENCE, "variant.mixer.bias.components=1"),
        *("variant.signature=null", "model.heads=4"),
    ),
    "mixture, frozen": ("variant=exp_mixture_frozen", *SEQUENCE, PREDICTS, "seed=6"),
    "tensor": ("variant=tensor_mixer", *SEQUENCE),
    "tensor, float32": ("variant=tensor_mixer", *SEQUENCE, "seed=7", "model.layers=3"),
    "tensor, sunspots, muon": (
        *("variant=tensor_mixer", *SUNSPOTS, *MUON, "optimizer.clip_norm=8"),
        "variant.mixer.rank=3",
    ),
    "dense, float32": ("variant=dense_attention", *SEQUENCE, PREDICTS),
    "dense, co2, muon": (
        *("variant=dense_attention", *CO2, *MUON, "seed=1", "optimizer.clip_norm=20"),
    ),
    "dense, causal": (
        *("variant=dense_attention", *SEQUENCE, "variant.mixer.causal=true"),
        "variant.positions=none",
    ),
    "no positions": ("variant=nope", *SEQUENCE, PREDICTS, "seed=2"),
    "line": ("variant=alibi", *SEQUENCE, PREDICTS),
    "rotary": ("variant=rope", *SEQUENCE, PREDICTS),
    "rotary, float32": ("variant=rope", *SEQUENCE, PREDICTS, "seed=3"),
    "forgetting": ("variant=forgetting", *SEQUENCE, FORGETS),
    "forgetting, muon": ("variant=forgetting", *SEQUENCE, FORGETS, *MUON, "optimizer.clip_norm=6"),
    "forgetting, frozen": ("variant=forgetting", *SEQUENCE, "variant.frozen=true"),
    "none": ("variant=no_mixer", *SEQUENCE),
    "none, sunspots, sgd": ("variant=no_mixer", *SUNSPOTS, *SGD, "seed=2"),
    "twin, sunspots": ("variant=twin", *SUNSPOTS, "seed=1"),
}


ORTHOGONAL = muon._zeropower_via_newtonschulz
KEYS_BIAS = "mixer.qkv.bias"  # its middle third cancels in the softmax: its gradient is rounding


@dataclass
class Run:
    """What a run of the product left behind, and what the reference says of the same."""

    config: dict[str, Any]
    expected: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    examples: dict[str, np.ndarray] = field(default_factory=dict)
    artifacts: dict[str, np.ndarray] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)  # trained
    splits: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    start: dict[str, Tensor] = field(default_factory=dict)  # the network's parameters, then
    order: Tensor = field(default_factory=lambda: torch.empty(0))
    passes: list[tuple[bool, bool]] = field(default_factory=list)  # in fit: gradients?, training?
    after: bool = True  # whether the network was in training mode when fit was done
    double: bool = True  # trained in float64
    names: tuple[str, str] = ("", "")  # of the track's and the variant's YAML

    @property
    def tolerance(self) -> float:
        """Relative."""
        return 1e-9 if self.double else 1e-5


def orthogonal_in_full(*arguments: Any) -> Tensor:
    """Torch's own, without bfloat16: there, gradients that differ in the last digit part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "bfloat16", Tensor.clone)
        return ORTHOGONAL(*arguments)


def run_of(cfg: DictConfig, directory: Path, double: bool = True) -> Run:
    """Train by `train_one` itself, in this process, and read back what it wrote.

    Args:
        double: all of it in float64. In float32 two ways to compute the same part where a gradient
            is all rounding: Adam makes a whole step of it.
    """
    run = Run(resolved(cfg), double=double)
    build, fit = training.run.build, training.run.fit

    def seen_build(config: Any) -> Any:
        track, network, start, optimizers = build(config)
        run.splits = {
            name: (split.inputs.clone(), split.targets.clone())
            for name, split in track.splits.items()
        }
        if double:
            network.double(), start.double()  # in place
            for name, split in track.splits.items():
                inputs, targets = split.inputs.double(), split.targets.double()
                track.splits[name] = type(split)(inputs, targets)
        run.start = {n: p.detach().clone() for n, p in network.named_parameters()}
        return track, network, start, optimizers

    def seen_fit(network: nn.Module, track: Any, optimizers: Any, order: Tensor, c: Any) -> Any:
        run.order = order.clone()
        hook = network.register_forward_pre_hook(
            lambda module, _: run.passes.append((torch.is_grad_enabled(), module.training))
        )
        history = fit(network, track, optimizers, order, c)
        hook.remove()
        run.after = network.training
        return history

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.errors, "_started", False)
        patch.setattr(training.run, "build", seen_build)
        patch.setattr(training.run, "fit", seen_fit)
        patch.setattr(muon, "_zeropower_via_newtonschulz", orthogonal_in_full)
        if double:
            patch.setattr(Tensor, "float", lambda tensor: tensor)
        returned = training.run.train_one(cfg, directory)

    run.record = json.loads((directory / "result.json").read_text())
    with open(directory / "history.csv") as file:
        run.history = [
            {key: float(value) for key, value in row.items()} for row in csv.DictReader(file)
        ]
    assert json.loads(json.dumps(finite(returned))) == run.record
    if (directory / "examples.npz").exists():
        run.examples = dict(np.load(directory / "examples.npz"))
    run.artifacts = dict(np.load(directory / "artifacts.npz"))
    run.weights = torch.load(directory / "weights.pt")
    return run


@pytest.fixture(scope="module", params=CASES)
def run(
    request: pytest.FixtureRequest, composed: Compose, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    cfg = composed(*SIZES, *CASES[request.param])
    done = run_of(cfg, tmp_path_factory.mktemp("run"), "float32" not in request.param)
    chosen = dict(override.split("=", 1) for override in CASES[request.param])
    done.names = (chosen["track"], chosen["variant"])
    done.expected = reference.run(done.config, done.start)
    return done


def distance(seen: Tensor | np.ndarray, expected: Tensor) -> float:
    """Of two arrays, relative to the second: ‖a − b‖/‖b‖."""
    seen = torch.as_tensor(seen).double()
    assert seen.shape == expected.shape
    size = expected.double().norm().item()
    return (seen - expected).norm().item() / (size or 1.0)


def same(
    seen: dict[str, float], expected: dict[str, float], tolerance: float, least: float = 0.0
) -> None:
    """The same keys, and numbers equal to a relative tolerance, or to `least` where small."""
    assert seen.keys() == expected.keys()
    for key, value in expected.items():
        assert seen[key] == pytest.approx(value, rel=tolerance, abs=least), key


def test_data_start_and_order(run: Run) -> None:
    for split in SPLITS:
        for seen, expected in zip(run.splits[split], run.expected["splits"][split], strict=True):
            assert seen.dtype == expected.dtype
            assert distance(seen, expected) < 1e-7, split
    assert run.start.keys() == run.expected["drawn"].keys()
    for name, expected in run.expected["drawn"].items():
        assert distance(run.start[name], expected) < 1e-7, name
    assert run.order.equal(run.expected["order"])
    assert run.record["probes"]["split_overlap"] == run.expected["overlap"]


def test_who_it_was(run: Run) -> None:
    record, config = run.record, run.config
    hyper = {key: config[key] for key in ("lr", "gamma", "mechanism_lr_scale")}
    assert record["hyper"] == hyper
    assert record["seed"] == config["seed"]
    assert record["baseline"] == "baseline"
    assert record["analysis"] == config["analysis"]
    assert record["config"] == json.loads(json.dumps(config))
    assert (record["track"], record["variant"]) == run.names
    track = config["track"]
    is_series = track["_target_"] == "tracks.series.Series"
    assert record["overlap"] == (track["context"] + track["horizon"] - 1 if is_series else 0)


def test_hashes_are_of_what_the_run_started_from(run: Run) -> None:
    hashes = run.record["hashes"]
    assert hashes["order"] == reference.digest(run.order)
    dtype = run.start["embed.weight"].dtype
    data = [t.to(dtype) for split in SPLITS for t in run.splits[split]]
    assert hashes["data"] == reference.digest(*data)
    assert hashes["init"] == {
        f"{name} {'x'.join(map(str, value.shape))}": reference.digest(value)[:16]
        for name, value in run.start.items()
    }


def test_trained_weights(run: Run) -> None:
    """Each to 1e-5 of its norm; a frozen mechanism's not moved by a bit."""
    assert run.weights.keys() == run.start.keys()
    for name, expected in run.expected["trained"].items():
        seen = run.weights[name]
        if name.endswith(KEYS_BIAS):
            d = len(expected) // 3
            seen, expected = (torch.cat([b[:d], b[2 * d :]]) for b in (seen, expected))
        assert distance(seen, expected) < run.tolerance, name
        if not reference.trains(run.config, name):
            assert seen.equal(run.start[name]), name


def test_history(run: Run) -> None:
    rows = run.expected["history"]["rows"]
    assert len(run.history) == len(rows)
    for seen, expected in zip(run.history, rows, strict=True):
        same({key: seen[key] for key in expected}, expected, run.tolerance)
    seconds = [row["seconds"] for row in run.history]
    assert seconds == sorted(seconds)
    assert run.record["cost"]["train_seconds"] == seconds[-1] > seconds[0] > 0


def test_scores(run: Run) -> None:
    expected = {
        metric: {split: run.expected[split][metric].mean().item() for split in SPLITS[1:]}
        for metric in ("mse", "mae")
    }
    bounded = {"direction": "min", "bounds": [0.0, None], "can_tie": False}
    assert run.record["status"] == "finished"
    assert run.record["metric"] == {
        "name": "mse",
        "mean_over": "the horizon's values",
        **bounded,
    }
    same(run.record["scores"], expected["mse"], run.tolerance)
    secondary = run.record["secondary"]
    assert secondary.keys() == {"mae", *run.expected["references"]}
    assert {key: secondary["mae"][key] for key in bounded} == bounded
    same(secondary["mae"]["scores"], expected["mae"], run.tolerance)
    for name, by_split in run.expected["references"].items():
        fitted = name == "dlinear_mse"
        assert secondary[name]["is_fitted"] is fitted
        same(secondary[name]["scores"], by_split, 1e-6 if fitted else 1e-9)
    assert run.examples.keys() == {"test/mse", "test/mae"}
    for metric in expected:
        assert run.double or run.examples[f"test/{metric}"].dtype == np.float32
        assert (
            distance(run.examples[f"test/{metric}"], run.expected["test"][metric]) < run.tolerance
        )


FITS = ("mixture_residual", "mixture_residual_share")  # searched for: tests/models have them


def test_probes(run: Run) -> None:
    seen, expected = run.record["probes"], run.expected
    assert seen["causal"] is expected["causal"]
    assert seen["loss_ablation"] is None
    assert seen["ablation"] == (
        None
        if expected["ablation"] is None
        else pytest.approx(expected["ablation"], abs=run.tolerance * run.record["scores"]["test"])
    )
    if expected["reach"] is None:
        assert seen["reach"] is None
    else:
        assert seen["reach"]["all"] == pytest.approx(expected["reach"], rel=run.tolerance)
        same(seen["reach"]["by_parameter"], expected["reach_by_parameter"], run.tolerance)


def test_signature(run: Run) -> None:
    """Differences of float32 numbers hold six digits after the point."""
    seen, predicted = run.record["signature"], run.config["variant"]["signature"]
    if predicted is None:
        assert seen is None
        return
    assert {key: seen[key] for key in predicted} == predicted
    for each in (seen["observed"], seen["observed_at_start"], *seen["blocks"]):
        found = [each.pop(metric) for metric in FITS if metric in each]
        assert len(found) == (2 if "table_distance_from_start" in each else 0)
    least = run.tolerance / 5
    blocks, at_start = run.expected["observed"], run.expected["observed_at_start"]
    assert len(seen["blocks"]) == len(blocks)
    for one, other in zip(seen["blocks"], blocks, strict=True):
        same(one, other, run.tolerance, least)
    gathered = [reference.over_blocks(each) for each in (blocks, at_start)]
    same(seen["observed"], gathered[0], run.tolerance, least)
    same(seen["observed_at_start"], gathered[1], run.tolerance, least)
    judged = msgspec.convert(seen, Signature)
    assert judged.holds is reference.confirmed(run.config, *gathered)


def test_figures(run: Run) -> None:
    assert run.artifacts.keys() == run.expected["figures"].keys()
    for name, expected in run.expected["figures"].items():
        assert distance(run.artifacts[name], expected) < run.tolerance, name


def test_budget_and_cost(run: Run) -> None:
    history = run.expected["history"]
    assert run.record["budget"] == {
        "epochs": 2,
        "steps": history["steps"],
        "examples": history["examples"],
    }
    seen = run.record["cost"]
    assert 0 < seen["evaluate_seconds"] < 60
    assert min(seen["saved_bytes"], seen["peak_bytes"]) > 4 * seen["parameters"]
    for key, expected in reference.cost(run.config, len(run.splits["train"][0])).items():
        assert seen[key] == pytest.approx(expected, abs=1), key


def test_training_mode_while_it_trains_and_evaluation_mode_else(run: Run) -> None:
    assert all(training is gradients for gradients, training in run.passes)
    assert sum(training for _, training in run.passes) == run.record["budget"]["steps"]
    assert run.after is False


def test_the_cases_clip_on_some_steps_and_not_on_others(run: Run) -> None:
    """Else a fault in clipping would not show."""
    largest = run.config["optimizer"]["clip_norm"]
    above = [norm > largest for norm in run.expected["history"]["norms"]] if largest else [0, 1]
    assert any(above)
    assert not all(above)


@pytest.mark.parametrize(
    "track",
    [
        ("track=sequence", "seed=11", "track.train=40", "track.noise=1", "track.correlation=-0.3"),
        ("track=sequence", "track.test=7", "track.periods=[3, 90]", "track.noise=0"),
        ("track=series",),
        ("track=series", "track.period=null", "track.split=[0.6,0.3,0.1]"),
        ("track=sunspots", "track.context=9", "track.horizon=30", "track.period=7"),
        ("track=elnino", "track.split=[300,100,150]", "track.reach_back=true"),
        ("track=series", "track.csv={csv}", "track.columns=y", "track.context=8"),
        # a season so long that not every window has one before it
        (
            "track=series",
            "track.csv={csv}",
            "track.columns=y",
            "track.period=110",
            "track.context=8",
        ),
    ],
    ids=lambda track: " ".join(track).replace("track.", ""),
)
def test_data_and_trivial_scores(composed: Compose, tmp_path: Path, track: tuple[str, ...]) -> None:
    path = tmp_path / "walk.csv"
    walk = np.random.default_rng(3).normal(size=150).cumsum()
    path.write_text("t,y\n" + "".join(f"{t},{y!r}\n" for t, y in enumerate(walk.tolist())))
    cfg = composed(*(override.format(csv=path) for override in track))
    made = training.build.build_track(validated(cfg))
    splits, references = reference.data(resolved(cfg))
    for name in SPLITS:
        split = getattr(made, name)
        for seen, expected in zip((split.inputs, split.targets), splits[name], strict=True):
            assert distance(seen, expected) < 1e-7, name
    found = made.references | made.fitted
    assert found.keys() == references.keys()
    for name, by_split in references.items():
        same(found[name], by_split, 1e-9 if name in made.references else 1e-6)


@pytest.mark.parametrize("variant", ["lag_table", "exp_mixture", "dense_attention", "no_mixer"])
def test_a_run_that_diverges(composed: Compose, tmp_path: Path, variant: str) -> None:
    """In float32 on both sides, where numbers overflow; it ends at the same step."""
    wild = ("optimizer=sgd", "lr=1e6", "optimizer.clip_norm=null")
    run = run_of(composed(*SIZES, *SEQUENCE, f"variant={variant}", *wild), tmp_path, double=False)
    splits, _ = reference.data(run.config)
    _, history = reference.train(run.config, run.start, splits, run.order)
    record = run.record
    assert history["diverged"]
    assert record["status"] == "diverged"
    assert record["scores"] == {"validation": None, "test": None}
    assert record["secondary"] == {}
    assert record["budget"] == {
        "epochs": 2,
        "steps": history["steps"],
        "examples": history["examples"],
    }
    assert run.history == history["rows"] == []
    assert not run.examples
    assert {record["probes"][name] for name in ("reach", "ablation", "causal")} == {None}
    assert run.after is False
    if record["signature"] is not None:
        assert record["signature"]["observed"] == {}
        for metric in FITS:
            record["signature"]["observed_at_start"].pop(metric, None)
        start = {name: value.double() for name, value in run.start.items()}
        expected = reference.over_blocks(reference.observed(run.config, start, start, splits))
        same(record["signature"]["observed_at_start"], expected, 1e-5, 2e-6)


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("variant", ["lag_table", "tensor_mixer", "twin"])
def test_start_values_are_distributed_as_they_should(
    composed: Compose, variant: str, seed: int
) -> None:
    """Mean 0, the standard deviation of its rule, normal, and no two parameters alike."""
    config = composed(f"variant={variant}", f"seed={seed}")
    _, network, _, _ = training.build.build(validated(config))
    drawn: dict[str, np.ndarray] = {}
    for name, parameter in network.named_parameters():
        std = reference.spread(name, tuple(parameter.shape))
        if std is None:
            expected = reference.fixed_start(name, tuple(parameter.shape))
            assert distance(parameter.detach(), expected) < 1e-7, name
            continue
        z = parameter.detach().double().numpy().ravel() / std
        n = len(z)
        drawn[name] = z
        assert abs(z.mean()) < 4.5 / np.sqrt(n), name
        assert stats.chi2.cdf(np.square(z).sum(), n) == pytest.approx(0.5, abs=0.5 - 1e-5), name
        assert stats.kstest(z, "norm").pvalue > 1e-5, name
    first = [tuple(z[:8].round(3)) for z in drawn.values()]
    assert len(set(first)) == len(first) > 5
