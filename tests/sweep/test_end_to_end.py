"""From `train.py -m` to a verdict, by the two commands of the README."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from records.record import read_plan, read_record
from tests.conftest import ROOT, SMALL, here

SWEEPS = {  # name → its command line, and the verdict and audits that it must end in
    "lag_bias": (
        ("experiment=lag_bias", "design=fixed", "seed=0,1", "lr=0.003,0.01", *SMALL),
        "underpowered",
        {"few_seeds", "tuned_on_reported_seeds", "grid_edge"},  # two values are nothing but edges
    ),
    "tensor_mixer": (
        ("experiment=tensor_mixer", "design=fixed", "seed=0,1", "lr=0.003", *SMALL),
        "underpowered",
        {"few_seeds", "untuned", "parameter_parity", "flop_parity", "memory_parity"},
    ),
    "sunspots": (
        (
            "experiment=lag_bias",
            "design=fixed",
            "track=sunspots",
            "seed=0,1",
            "lr=0.003",
            "model.dim=16",
            "model.heads=2",
            "training.epochs=2",
        ),
        "underpowered",
        {"few_seeds", "untuned", "fixed_data"},
    ),
    # without mixing the last token sees itself alone: no training makes up for that
    "no_mixer": (
        (
            "variant=baseline,no_mixer",
            "seed=range(6)",
            "lr=0.01",
            "training.epochs=4",
            "track.train=800",
            *SMALL[1:4],
            *SMALL[5:],
        ),
        "idea worse (significant)",
        {"untuned", "noisy_test", "parameter_parity", "flop_parity", "memory_parity"},
    ),
    # one configuration under two names: whatever the seeds, the arms are numerically one
    "one_and_the_same": (
        ("variant=baseline,lag_table", "seed=range(2)", *SMALL),
        "inert",
        {"few_seeds", "untuned"},
    ),
}


@pytest.fixture(params=SWEEPS)
def report(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict]:
    arguments = SWEEPS[request.param][0]
    sweep = tmp_path / "sweep"
    trained = here("train.py", "-m", *arguments, f"hydra.sweep.dir={sweep}")
    assert trained.returncode == 0, trained.stderr
    analysed = here("analyze.py", str(sweep))
    assert analysed.returncode == 0, analysed.stderr
    assert f"report: {sweep}/report/report.json" in analysed.stdout
    for path in sweep.rglob("result.json"):
        read_record(path)  # what training writes is what analysis reads
    assert len(read_plan(sweep / "plan.json").runs) == len(list(sweep.rglob("result.json")))
    return request.param, json.loads((sweep / "report/report.json").read_text())


def test_ends_in_the_verdict_that_it_must(report: tuple[str, dict]) -> None:
    name, said = report
    bench = said["bench_report"]
    _, verdict, audits = SWEEPS[name]
    assert bench["comparison"]["verdict"] == verdict
    # whether models so small do as was predicted is chance
    assert {audit["code"] for audit in bench["audits"]} - {"unconfirmed_signature"} == audits
    assert bench["comparison"]["n_pairs"] == (6 if name == "no_mixer" else 2)
    if name == "no_mixer":
        assert bench["comparison"]["p_value"] == 2 / 2**6
        assert said["practical_verdict"] == "hurts"
    if name == "one_and_the_same":
        assert bench["comparison"]["inert_ulps"] == 0
        assert said["practical_verdict"] == "no_effect"
    if name == "sunspots":
        trivial = {"persistence_mse", "seasonal_naive_mse"}
        assert set(bench["idea"]["secondary"]) == {"mae", "dlinear_mse"} | trivial


@pytest.mark.parametrize("file", ["README.md", "docs/protocol.md"])
def test_tables_are_those_of_the_reports(file: str) -> None:
    from results import tables

    text = (ROOT / file).read_text()
    assert tables.written(file, text) == text
    assert list(tables.HERE.glob("*.json"))
