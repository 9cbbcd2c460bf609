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

HEAD = """
import numpy as np, torch
from torch import nn
from models.mixer import Mechanism, Mixer, Observed, Trains
from models.lag_bias import LogitBias
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
        "neutral() of Bad",
    ),
    "needs that are none": ("def trains(self, name): return 3", "variant.mixer: trains()"),
    "a constructor that raises": (
        "def __init__(self, dim): raise KeyError('dim')",
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
    "data that are not finite": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.train.inputs[3] = float('nan')",
        "mine.Bad.__init__ must give finite inputs of train",
    ),
    "inputs without targets": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        self.splits['test'] = Split(self.test.inputs, self.test.targets[1:])",
        "mine.Bad.__init__ must give as many inputs as targets of test, found (300, 299)",
    ),
    "a split of another name": (
        "def __init__(self, streams, **sizes):\n        super().__init__(streams, **sizes)\n"
        "        Track.__init__(self, self.splits | {'extra': self.test}, self.axes)",
        "track: a further test split is named test@…, not extra",
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
