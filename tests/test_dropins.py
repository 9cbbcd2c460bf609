"""A new track, mechanism, probe or audit is one file, and a YAML where it is chosen: nothing else.

What lies in tests/dropins/ is laid over a copy of the project, swept and judged there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, SMALL

DROPINS = ROOT / "tests" / "dropins"
PRODUCT = (
    *("analysis", "conf", "hydra_plugins", "models", "records", "sweeping", "tracks", "training"),
    *("train.py", "analyze.py"),
)
SIZES = ("model.dim=16", "model.heads=2", "training.epochs=2", "seed=0,1", "lr=0.003")
Swept = tuple[dict[str, dict[str, Any]], dict[str, Any]]  # records by variant, the report


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with all of them in it; none takes the place of a file there."""
    copy = tmp_path_factory.mktemp("project")
    for name in PRODUCT:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, copy / name, ignore=ignored)
        else:
            shutil.copy(source, copy / name)
    for path in dropped():
        target = copy / path.relative_to(DROPINS)
        assert not target.exists()
        shutil.copy(path, target)
    return copy


def dropped() -> list[Path]:
    return sorted(p for p in DROPINS.rglob("*") if p.suffix in (".py", ".yaml"))


@pytest.fixture(scope="module")
def swept(project: Path) -> Callable[..., Swept]:
    """Sweeps and judges, as a user does."""

    def run(name: str, *overrides: str) -> Swept:
        sweep = project / name
        train = ["train.py", "-m", *SIZES, *overrides, f"hydra.sweep.dir={sweep}"]
        for command in (train, ["analyze.py", str(sweep)]):
            done = subprocess.run(
                [sys.executable, *command],
                cwd=project,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
                env={**os.environ, "PYTHONPATH": ""},
            )
            assert done.returncode == 0, done.stdout + done.stderr
        records = [json.loads(path.read_text()) for path in sweep.rglob("result.json")]
        assert {record["status"] for record in records} == {"finished"}
        report = json.loads((sweep / "report" / "report.json").read_text())
        return {record["variant"]: record for record in records}, report

    return run


@pytest.mark.parametrize("path", dropped(), ids=lambda path: str(path.relative_to(DROPINS)))
def test_each_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60


def test_mechanisms(swept: Callable[..., Swept]) -> None:
    variants = ("xpos", "salience", "recurrence", "token_mlp", "hybrid")
    small = [each for each in SMALL if each.startswith("track.")]
    records, report = swept("mechanisms", *small, f"variant=baseline,{','.join(variants)}")
    assert records.keys() == {"baseline", *variants}
    for variant in variants:
        record = records[variant]
        probes = record["probes"]
        # a token MLP has no order, and a hybrid holds one layer that sees both ways
        assert probes["causal"] is (None if variant in ("token_mlp", "hybrid") else True)
        assert probes["ablation"] != 0
        assert record["cost"]["flops_per_example"] > 0
        if variant == "xpos":  # has no parameters
            assert probes["reach"] is None
        else:
            assert 0 < probes["reach"]["all"] <= 1
    observed = records["hybrid"]["signature"]["observed"]
    assert {"table_distance_from_start", "effective_rank_ratio"} <= observed.keys()
    assert records["recurrence"]["signature"]["observed"]["decay_moved"] > 0
    assert records["xpos"]["config"]["variant"]["positions"] == "none"
    # what gives order is a variant's own: no arm is confounded by it
    codes = {audit["code"] for each in report["comparisons"] for audit in raised(each)}
    assert "confounded" not in codes
    assert len(report["comparisons"]) == len(variants)


def raised(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    return comparison["bench_report"]["audits"]


def test_a_track_of_token_ids(swept: Callable[..., Swept]) -> None:
    records, report = swept("highest", "track=highest", "variant=baseline,xpos,recurrence")
    for record in records.values():
        assert record["metric"]["name"] == "cross_entropy"
        assert 0 <= record["secondary"]["accuracy"]["scores"]["test"] <= 1
        assert record["probes"]["causal"] is True
        assert record["metric"]["mean_over"] == "all tokens but the first"
    assert len(report["comparisons"]) == 2


@pytest.mark.slow
def test_a_rollout_that_runs_free(swept: Callable[..., Swept]) -> None:
    records, report = swept("rollout", "track=rollout", "variant=baseline,xpos")
    for record in records.values():
        assert record["metric"]["name"] == "horizon"
        assert 0 <= record["scores"]["test"] <= 4
        assert record["secondary"]["loss"]["scores"]["test"] > 0
        assert record["probes"]["loss_ablation"] != 0
    # four passes of the network for one prediction
    one, _ = swept("one", "track=rollout", "track.horizon=1", "variant=baseline,xpos")
    ratio = records["xpos"]["cost"]["flops_per_example"] / one["xpos"]["cost"]["flops_per_example"]
    assert ratio == pytest.approx(4)
    assert report["bench_report"]["metric_direction"] == "higher is better"


@pytest.mark.slow
def test_a_classification_of_pictures(swept: Callable[..., Swept]) -> None:
    records, _ = swept(
        "blobs", "track=blobs", "variant=dense_attention,tensor_mixer", "baseline=dense_attention"
    )
    for record in records.values():
        assert record["probes"]["causal"] is None
        assert record["secondary"]["loss"]["scores"]["test"] > 0
    # factors of either axis: 4 by 2 and 6 by 3, and their spectra, in both layers
    assert records["tensor_mixer"]["cost"]["mixer_parameters"] == 2 * (4 * 2 + 2 + 6 * 3 + 3)


def test_a_probe_and_an_audit(swept: Callable[..., Swept]) -> None:
    small = [each for each in SMALL if each.startswith("track.")]
    records, report = swept("probe", *small, "variant=baseline,idea")
    assert all(record["probes"]["gradient_norm"] > 0 for record in records.values())
    [found] = [audit for audit in raised(report) if audit["code"] == "still_steep"][:1]
    assert "The loss of baseline is steep at its end" in found["message"]


def test_the_readmes_example(project: Path, swept: Callable[..., Swept]) -> None:
    """Its imports are left out there."""
    text = (ROOT / "README.md").read_text()
    [code] = re.findall(r"```python\n(class Slope.*?)```", text, re.DOTALL)
    [yaml] = re.findall(r"```yaml\n(mixer:.*?)```", text, re.DOTALL)
    imports = "import torch\nfrom torch import Tensor, nn\nfrom models.lag_bias import LagBias\n"
    (project / "models" / "slope.py").write_text(imports + code)
    (project / "conf" / "variant" / "slope.yaml").write_text(yaml)
    small = [each for each in SMALL if each.startswith("track.")]
    records, _ = swept("slope", *small, "variant=baseline,slope")
    assert records["slope"]["probes"]["reach"]["all"] > 1e-6
    assert records["slope"]["config"]["variant"]["mixer"]["bias"]["gamma"] == 1.0
