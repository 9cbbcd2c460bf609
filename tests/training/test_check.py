"""A mistake in a new mechanism or track is told in one line, before anything is trained."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, open_dict

from tests.conftest import SMALL
from training.check import check
from training.config import validated
from training.errors import UserError
from training.run import train_one

HEAD = """
import numpy as np, torch
from torch import nn
from models.mixer import Mechanism, Mixer, Observed, Trains
from models.lag_bias import LogitBias
from models.rotation import Rotation
from tracks.forecasting import Forecasting
from tracks.sequence import Sequence
from tracks.track import Metric, Split, Track

class Good(Mixer, Mechanism):
    causal = True
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
    def forward(self, x): return x * self.scale
    def neutral(self): return nn.Identity()
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Writes the package `mine`, a folder of the user's own, with so much beside `Good`."""

    def write(text: str) -> None:
        (tmp_path / "mine.py").write_text(HEAD + text)
        monkeypatch.syspath_prepend(str(tmp_path))
        sys.modules.pop("mine", None)

    yield write
    sys.modules.pop("mine", None)


def asked(
    composed: Callable[..., DictConfig],
    mixer: dict[str, Any] | None = None,
    track: dict[str, Any] | None = None,
    **others: Any,
) -> DictConfig:
    cfg = composed(*SMALL)
    with open_dict(cfg):
        cfg.allow = ["mine"]
        cfg.variant.signature = None
        if mixer is not None:
            cfg.variant.mixer = mixer
        if track is not None:
            cfg.track = track
        for key, value in others.items():
            cfg[key] = value
    return cfg


def complaint(cfg: DictConfig) -> str:
    with pytest.raises(UserError) as raised:
        check(validated(cfg))
    text = str(raised.value)
    assert "\n" not in text
    return text


def test_what_keeps_its_promises_passes(composed, written) -> None:
    written("")
    check(validated(asked(composed, {"_target_": "mine.Good"})))
    bias = """
class Bias(LogitBias):
    def forward(self, q, k, x): return q.new_zeros(1, 1, q.shape[-2], k.shape[-2])
"""
    written(bias)
    attention = {"_target_": "models.attention.Attention", "bias": {"_target_": "mine.Bias"}}
    check(validated(asked(composed, attention)))
    one_example = {"_target_": "tracks.sequence.Sequence", **SEQUENCE, "test": 1}
    check(validated(asked(composed, track=one_example)))


SLOTS = {
    "rows of all queries": (
        "def forward(self, q, k, x): return torch.zeros(1, 2, 32, 32)",
        "mine.Bad.forward must give (B or 1, H or 1, Nq, Nk) = (3, 2, 1, 32), found (1, 2, 32, 32)",
    ),
    "no batch": (
        "def forward(self, q, k, x): return torch.zeros(2, q.shape[-2], 32)",
        "mine.Bad.forward must give (B or 1, H or 1, Nq, Nk) = (3, 2, 32, 32), found (2, 32, 32)",
    ),
}


@pytest.mark.parametrize(("body", "told"), SLOTS.values(), ids=SLOTS)
def test_a_bias_of_another_shape(composed, written, body: str, told: str) -> None:
    written(f"class Bad(LogitBias):\n    {body}\n")
    attention = {"_target_": "models.attention.Attention", "bias": {"_target_": "mine.Bad"}}
    assert told in complaint(asked(composed, attention))


@pytest.mark.parametrize("which", ["queries", "keys"])
def test_a_rotation_of_another_shape(composed, written, which: str) -> None:
    turned = {"queries": "q[:, :1], k", "keys": "q, k[:, :1]"}[which]
    written(f"class Bad(Rotation):\n    def forward(self, q, k, x): return {turned}\n")
    attention = {"_target_": "models.attention.Attention", "rotation": {"_target_": "mine.Bad"}}
    text = complaint(asked(composed, attention))
    assert f"mine.Bad.forward must give {which}" in text
    assert "= (3, 2, 32, 8), found (3, 1, 32, 8)" in text


def test_a_bias_may_be_its_own_table(composed, written) -> None:
    """A view of a parameter, which torch's counter does not take without gradients."""
    written("""
class Bias(LogitBias):
    def __init__(self, heads, context):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(heads, context, context))
    def forward(self, q, k, x): return self.table[None, :, -q.shape[-2]:]
""")
    attention = {"_target_": "models.attention.Attention", "bias": {"_target_": "mine.Bias"}}
    check(validated(asked(composed, attention)))


def test_a_mixer_is_given_the_context(composed, written) -> None:
    written("""
class Wants(Good):
    def __init__(self, dim, context):
        super().__init__(dim)
        assert context == 32
""")
    check(validated(asked(composed, {"_target_": "mine.Wants"})))


def test_blocks_that_gather_a_metric_in_two_ways(composed, written) -> None:
    written("""
class Most(Good):
    def signature(self, start, x): return {"size": Observed(1.0, over="max")}
class Mean(Good):
    def signature(self, start, x): return {"size": Observed(1.0)}
""")
    text = complaint(asked(composed, [{"_target_": "mine.Most"}, {"_target_": "mine.Mean"}]))
    assert (
        "mine.Mean.signature must gather size over blocks as an earlier block does, by max" in text
    )


def test_what_one_block_of_a_hybrid_is_certain_of_another_may_refute(composed, written) -> None:
    written("""
class Sure(Good):
    by_construction = {"size": "it is 1"}
    def signature(self, start, x): return {"size": Observed(1.0)}
class Open(Good):
    def signature(self, start, x): return {"size": Observed(1.0)}
""")
    sure, unsure = {"_target_": "mine.Sure"}, {"_target_": "mine.Open"}
    criteria = [{"metric": "size", "op": ">", "value": 2.0}]
    cfg = asked(composed, [sure, unsure])
    cfg.variant.signature = {"prediction": "it grows", "criteria": criteria}
    check(validated(cfg))
    cfg.variant.mixer = [sure, sure]
    assert "metric size could not be refuted: it is 1" in complaint(cfg)


def test_what_is_wrong_around_the_mixers_is_not_said_of_them(composed) -> None:
    cfg = asked(composed)
    cfg.model.mlp = "relu"
    assert complaint(cfg).startswith("model: mlp is relu, must be null or one of")


MIXERS = {
    "another shape": (
        "def forward(self, x): return x.mT",
        "mine.Bad.forward must give (B, N, d) = (3, 32, 16), found (3, 16, 32)",
    ),
    "no tensor": (
        "def forward(self, x): return (x, x)",
        "mine.Bad.forward must give (B, N, d) = (3, 32, 16), found tuple",
    ),
    "an error of its own": (
        "def forward(self, x): return x @ torch.ones(3, 3)",
        "mine.Bad.forward (line",
    ),
    "a layer without a rule": (
        "def __init__(self, dim):\n        super().__init__(dim)\n"
        "        self.layer = nn.Bilinear(dim, dim, dim)",
        "layer.weight of Bilinear starts at random, and no rule says how",
    ),
    "a start of another shape": (
        "def __init__(self, dim):\n        super().__init__(dim)\n"
        "        self.w = nn.Parameter(torch.empty(dim))\n"
        "    def draw(self, name, generator): return torch.zeros(3)",
        "was drawn as (3,), must be (16,)",
    ),
    "a signature that is a tensor": (
        "def signature(self, start, x): return x.mean()",
        "mine.Bad.signature must give metrics by name, found Tensor",
    ),
    "a metric that is a tensor": (
        "def signature(self, start, x): return {'size': x.mean()}",
        "mine.Bad.signature must give size as Observed(a float",
    ),
    "a metric gathered in no known way": (
        "def signature(self, start, x): return {'size': Observed(1.0, over='sum')}",
        "mine.Bad.signature must give size as Observed(a float, over=one of mean, max, min)",
    ),
    "a neutral that does not fit": (
        "def neutral(self): return nn.Linear(3, 3)",
        "mine.Bad.neutral cannot be used: RuntimeError",
    ),
    "needs that are none": ("def trains(self, name): return 3", "variant.mixer: trains()"),
    "numbers that are none": (
        "def forward(self, x): return x * float('nan')",
        "mine.Bad.forward must give finite numbers before training",
    ),
    "a draw that is not finite": (
        "def draw(self, name, generator): return torch.full((16,), float('inf'))",
        "mine.Bad.forward must give finite numbers before training",
    ),
    "an answer by chance": (
        "def forward(self, x): return x * self.scale + torch.randn_like(x)",
        "mine.Bad.forward must give the same in two equal passes",
    ),
    "a state between passes": (
        "seen = 0\n    def forward(self, x):\n        self.seen += 1\n        return x * self.seen",
        "mine.Bad.forward must give the same in two equal passes",
    ),
    "a constructor that draws by numpy": (
        "def __init__(self, dim):\n        super().__init__(dim)\n"
        "        self.fixed = torch.from_numpy(np.random.randn(dim)).float()\n"
        "    def forward(self, x): return x * self.fixed",
        "mine.Bad.forward must give the same when it is built again",
    ),
    "a draw by another generator": (
        "def draw(self, name, generator): return torch.randn(16)",
        "the start value of blocks.0.mixer.scale must be drawn from its generator alone",
    ),
    "examples that are mixed": (
        "def forward(self, x): return x * self.scale + x.mean(0, keepdim=True)",
        "mine.Bad.forward must answer for each example by itself",
    ),
    "training that raises": (
        "def forward(self, x):\n        if self.training: raise OSError('late')\n        return x",
        "a training step cannot be used: mine.Bad.forward (line",
    ),
    "another shape in training": (
        "def forward(self, x): return x[:, :1] if self.training else x",
        "mine.Bad.forward must give (B, N, d) = (32, 32, 16), found (32, 1, 16)",
    ),
    "an exit": (
        "def forward(self, x): raise SystemExit(7)",
        "a pass of the network cannot be used: mine.Bad.forward (line",
    ),
    "a claim that is none": (
        "causal = 'no'",
        "mine.Bad.causal must be true or false, found 'no'",
    ),
    "a claim that raises": (
        "@property\n    def causal(self): raise KeyError('x')",
        "mine.Bad.causal",
    ),
    "a rate below zero": (
        "def trains(self, name): return Trains(-1.0)",
        "mine.Bad.trains('scale') must give a scale that is None, or a number of 0 or more",
    ),
    "an artifact that is no tensor": (
        "def artifacts(self, x): return {'a': 3}",
        "mine.Bad.artifacts",
    ),
    "artifacts that are a list": ("def artifacts(self, x): return [1]", "mine.Bad.artifacts"),
    "an artifact that numpy has no type for": (
        "def artifacts(self, x): return {'a': self.scale.bfloat16()}",
        "mine.Bad.artifacts",
    ),
    "an annotation without a meaning": (
        "def __init__(self, dim, foo: 'Nope' = None): super().__init__(dim)",
        "variant.mixer: Bad has an annotation without a meaning: NameError",
    ),
    "a constructor that raises": (
        "def __init__(self, dim): raise KeyError('dim')",
        "variant.mixer: mine.Bad.__init__ (line",
    ),
    "a constructor with a TypeError in it": (
        "def __init__(self, dim): None + dim",
        "variant.mixer: mine.Bad.__init__ (line",
    ),
    "artifacts that are numbers": (
        "def artifacts(self, x): return {'size': 1.0}",
        "mine.Bad.artifacts must give tensors by name, found {'size': 1.0}",
    ),
    "an error in code made of text": (
        "def __init__(self, dim): exec('1 / 0')",
        "variant.mixer: mine.Bad.__init__ (line",
    ),
    "a constructor that wants more": (
        "def __init__(self, dim, width): super().__init__(dim)",
        "missing 1 required positional argument: 'width'",
    ),
}


@pytest.mark.parametrize(("body", "told"), MIXERS.values(), ids=MIXERS)
def test_a_mistake_in_a_mixer(composed, written, body: str, told: str) -> None:
    written(f"class Bad(Good):\n    {body}\n")
    assert told in complaint(asked(composed, {"_target_": "mine.Bad"}))


@pytest.mark.parametrize("base", ["nn.Module", "object"])
def test_a_mixer_is_a_mixer(composed, written, base: str) -> None:
    written(f"class Bad({base}): pass\n")
    text = complaint(asked(composed, {"_target_": "mine.Bad"}))
    assert text == "variant.mixer must be a Mixer, found Bad, which is none"


def test_methods_that_are_missing_are_named(composed, written) -> None:
    written("class Bad(Mixer, Mechanism):\n    causal = True\n")
    text = complaint(asked(composed, {"_target_": "mine.Bad"}))
    assert "mine.Bad lacks methods that it must have: forward, neutral" in text


SEQUENCE = {"train": 64, "validation": 32, "test": 32}
TRACKS = {
    "a scalar loss": (
        "def loss(self, p, t): return (p - t).square().mean()",
        "mine.Bad.loss must give one number per example, (B,) = (3,), found ()",
    ),
    "a loss of each token": (
        "def loss(self, p, t): return (p - t).square()",
        "mine.Bad.loss must give one number per example, (B,) = (3,), found (3, 8)",
    ),
    "a loss without a gradient": (
        "def loss(self, p, t): return (p - t).square().mean(-1).detach()",
        "mine.Bad.loss must depend on the network",
    ),
    "no primary metric": (
        "def scores(self, p, t): return {'mae': (p - t).abs().mean(-1)}",
        "mine.Bad.scores must give the primary metric mse, found ['mae']",
    ),
    "a score of another shape": (
        "def scores(self, p, t): return {'mse': (p - t).square()}",
        "mine.Bad.scores: mse must give one number per example",
    ),
    "a metric without a direction": (
        "def scores(self, p, t): return super().scores(p, t) | {'rmse': (p - t).abs().mean(-1)}",
        "mine.Bad.metrics must say what the score rmse is like",
    ),
    "a primary metric without a direction": (
        "metric = 'rmse'",
        "mine.Bad.metrics must say what rmse, the primary metric, is like, found ['mse', 'mae']",
    ),
    "a time axis that is missing": (
        "time_axis = None; requires_causal = True",
        "mine.Bad.time_axis must say which axis is time",
    ),
    "an overlap of less than none": (
        "overlap = -1",
        "mine.Bad.overlap must be a whole number, at least 0, found -1",
    ),
    "an encoder that drops a token": (
        "def encoder(self, dim):\n        class Short(nn.Linear):\n"
        "            def forward(self, x): return super().forward(x[:, 1:])\n"
        "        return Short(1, dim)",
        "mine.Bad.encoder must give tokens (B, N, d) with B 3 and N 32, as axes (32,), "
        "found (3, 31, 16)",
    ),
    "a head of one number": (
        "def head(self, dim):\n        return nn.Sequential(nn.Linear(dim, 1), nn.Flatten())",
        "mine.Bad.head must give (B, N, out) with B 3 and N 32, found (3, 32)",
    ),
    "ids that a linear layer reads": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.splits = {n: Split(s.inputs.long(), s.targets) for n, s in "
        "self.splits.items()}",
        "mine.Bad.encoder cannot be used: RuntimeError",
    ),
    "data from another generator": (
        "def __init__(self, streams, **sizes):\n"
        "        super().__init__(lambda name: np.random.default_rng(), **sizes)",
        "mine.Bad.__init__ must draw train from streams('train') alone, found other data",
    ),
    "splits of one stream": (
        "def __init__(self, streams, **sizes):\n"
        "        one = streams('train')\n        super().__init__(lambda name: one, **sizes)",
        "mine.Bad.__init__ must draw validation from streams('validation') alone, found other data",
    ),
    "targets that are not finite": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.train.targets[3] = float('nan')",
        "mine.Bad.__init__ must give finite targets of train",
    ),
    "splits of arrays": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        x = np.zeros((4, 32, 1))\n        self.splits['test'] = Split(x, x)",
        "mine.Bad",
    ),
    "a constructor without its base's": (
        "def __init__(self, streams, **sizes): pass",
        "mine.Bad",
    ),
    "nothing where it is moved": ("def to(self, device): pass", "mine.Bad.to must give the track"),
    "no metrics": ("metrics = None", "mine.Bad"),
    "metrics that raise": ("@property\n    def metrics(self): raise KeyError('x')", "mine.Bad"),
    "half of the bounds": ("metrics = {'mse': Metric('min', (0.0,), False)}", "bounds"),
    "a word for whether scores tie": (
        "metrics = {'mse': Metric('min', (0.0, None), 'no')}",
        "can_tie",
    ),
    "a reference that is a number": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.references = {'naive': 1.0}",
        "reference naive could not be read back from a record",
    ),
    "a reference that is a tensor": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.references = {'naive': {'test': torch.ones(())}}",
        "reference naive could not be read back from a record",
    ),
    "time counted from the end": (
        "time_axis = -1",
        "mine.Bad.time_axis must be None, or an axis from 0 to 0 of axes (32,), found -1",
    ),
    "scores that overwrite the targets": (
        "def scores(self, p, t):\n        t.copy_(p)\n        return super().scores(p, t)",
        "mine.Bad.scores must leave what it is given as it is",
    ),
    "a prediction that overwrites the inputs": (
        "def predict(self, network, x): return super().predict(network, x.mul_(0.5))",
        "mine.Bad.predict on validation must leave what it is given as it is",
    ),
    "a loss that overwrites the targets": (
        "def loss(self, p, t): return super().loss(p, t.mul_(0))",
        "mine.Bad.loss must leave what it is given as it is",
    ),
    "a loss over the batch": (
        "def loss(self, p, t): return super().loss(p, t).mean().expand(len(p))",
        "mine.Bad.loss must answer for each example by itself",
    ),
    "scores of the examples against each other": (
        "def scores(self, p, t): return {'mse': (p[:, 0] - t[:, :1]).square().mean(-1)}",
        "mine.Bad.scores: mse must answer for each example by itself",
    ),
    "scores that depend on the batch": (
        "def scores(self, p, t):\n        found = super().scores(p, t)\n"
        "        return found if len(p) > 1 else {'mse': found['mse']}",
        "mine.Bad.scores must be the same of any batch",
    ),
    "a prediction by chance": (
        "def predict(self, network, x):\n        p = super().predict(network, x)\n"
        "        return p + torch.randn_like(p)",
        "mine.Bad.predict must answer for each example by itself",
    ),
    "a prediction of two": (
        "def predict(self, network, x): return (super().predict(network, x),)",
        "mine.Bad.predict must give a Tensor, found tuple",
    ),
    "a head that is no module": (
        "def head(self, dim): return lambda x: x[..., :8]",
        "must be an nn.Module",
    ),
    "data that are not finite": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.train.inputs[3] = float('nan')",
        "mine.Bad.__init__ must give finite inputs of train",
    ),
    "inputs without targets": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.splits['test'] = Split(self.test.inputs, self.test.targets[1:])",
        "mine.Bad.__init__ must give as many inputs as targets of test, found (4000, 3999)",
    ),
    "a split of another name": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        Track.__init__(self, self.splits | {'extra': self.test}, self.axes)",
        "track: a further test split is named test@…, not extra",
    ),
    "an answer without gradients": (
        "@torch.no_grad()\n    def predict(self, network, inputs): return network(inputs)[:, -1]",
        "mine.Bad.predict must keep gradients, which a probe follows, found none",
    ),
    "no mean": (
        "@property\n    def mean_over(self): raise AttributeError('no mean_over')",
        "mine.Bad cannot be used: mine.Bad.mean_over (line",
    ),
    "no metric": (
        "@property\n    def metric(self): raise AttributeError('no metric')",
        "mine.Bad cannot be used: mine.Bad.metric (line",
    ),
    "a direction that is none": (
        "@property\n    def metrics(self): return {'mse': Metric('lower', (0.0, None), False)}",
        "ValueError: a metric's direction is lower, must be min or max",
    ),
    "data of another library": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.splits['test'] = Split(self.test.inputs.numpy(), self.test.targets)",
        "a split's inputs must be a Tensor, found ndarray",
    ),
    "time along another dimension": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.splits = {n: Split(s.inputs.mT, s.targets) for n, s in "
        "self.splits.items()}",
        "mine.Bad.time_axis must have its 32 steps along dimension 1 of the inputs, found inputs "
        "(8000, 1, 32)",
    ),
    "an encoder that starts at random": (
        "def encoder(self, dim):\n        class Odd(nn.Linear): pass\n"
        "        made = nn.Sequential(nn.Linear(1, dim)); "
        "made.w = nn.Parameter(torch.randn(3)); return made",
        "start values: embed.w of Sequential starts at random, and no rule says how",
    ),
    "an encoder that raises": (
        "def encoder(self, dim): return nn.Linear(1, None)",
        "track: mine.Bad.encoder (line",
    ),
    "a constructor that raises": (
        "def __init__(self, streams, **sizes): raise IndexError('no such file')",
        "track: mine.Bad.__init__ (line",
    ),
}


@pytest.mark.parametrize(("body", "told"), TRACKS.values(), ids=TRACKS)
def test_a_mistake_in_a_track(composed, written, body: str, told: str) -> None:
    written(f"class Bad(Sequence):\n    {body}\n")
    keys = {} if "**sizes" in body else SEQUENCE
    text = complaint(asked(composed, track={"_target_": "mine.Bad", **keys}))
    assert told in text


GRID = """
class Grid(Sequence):
    requires_causal = False
    def __init__(self, streams, **sizes):
        super().__init__(streams, **sizes)
        Track.__init__(self, self.splits | {further}, (4, 8))
    time_axis = None
"""


@pytest.mark.parametrize(
    ("further", "found"),
    [
        ("{'test@4x8': self.test}", None),
        ("{'test@far': self.test}", None),
        ("{'test@2x16': self.test}", "(2, 16) in its name"),
        (
            "{'test@half': Split(self.test.inputs[:, :16], self.test.targets)}",
            "inputs (n, *(16, 1))",
        ),
    ],
)
def test_a_grid_of_several_axes_stays_as_it_is(composed, written, further: str, found) -> None:
    written(GRID.replace("{further}", further))
    tensor = {"_target_": "models.tensor_mixer.TensorMixer"}
    cfg = asked(composed, tensor, {"_target_": "mine.Grid"})
    if found is None:
        check(validated(cfg))
        return
    text = complaint(cfg)
    assert "on the grid of training, (4, 8), as it has several axes" in text
    assert text.endswith(f"found {found}")


@pytest.mark.parametrize("causal", [True, False])
def test_a_mixer_that_looks_ahead_where_the_track_forbids_it(composed, written, causal) -> None:
    written(
        f"class Ahead(Good):\n    causal = {causal}\n"
        "class Strict(Sequence):\n    requires_causal = True\n"
    )
    cfg = asked(composed, {"_target_": "mine.Ahead"}, {"_target_": "mine.Strict", **SEQUENCE})
    if causal:
        check(validated(cfg))
    else:
        assert "variant.mixer: Strict requires mixers that are causal, and Ahead" in complaint(cfg)


def test_a_package_must_be_allowed(composed, written) -> None:
    written("")
    cfg = asked(composed, {"_target_": "mine.Good"}, allow=[])
    assert "a package of your own must be named by allow: [NAME]" in complaint(cfg)


def test_nothing_is_imported_that_is_not_allowed(composed, written, tmp_path) -> None:
    written("open('imported', 'w')")
    complaint(asked(composed, {"_target_": "mine.Good"}, allow=["other"]))
    assert "mine" not in sys.modules


@pytest.mark.parametrize("as_text", [True, False])
def test_a_run_makes_its_directory(composed, tmp_path, as_text: bool) -> None:
    directory = tmp_path / "new" / "run"
    train_one(composed(*SMALL), str(directory) if as_text else directory)
    assert (directory / "result.json").is_file()


def test_a_run_that_diverged_has_a_record_whatever_its_artifacts_ask(
    composed, written, tmp_path
) -> None:
    """`training.run` asks no trained network for figures whose weights are no numbers."""
    written("""
class Strict(Good):
    def artifacts(self, x):
        assert self.scale.isfinite().all()
        return {"scale": self.scale}
""")
    cfg = asked(composed, {"_target_": "mine.Strict"})
    assert train_one(cfg, tmp_path / "fine")["status"] == "finished"
    cfg.lr = 1e30
    assert train_one(cfg, tmp_path / "not")["status"] == "diverged"
