"""The last lines of a single run name what its probes found wrong, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from records.probes import LEAST_REACH
from training.summary import summary


def told(can_tie: bool = False, direction: str = "min", **probes: Any) -> str:
    fine = {
        "causal": True,
        "reach": {"all": 0.1, "by_parameter": {"table": LEAST_REACH}},
        "split_overlap": 0,
        "ablation": 0.2,
        "loss_ablation": None,
    }
    found = {
        "status": "finished",
        "metric": {"name": "mse", "direction": direction, "can_tie": can_tie},
        "scores": {"validation": 0.25, "test": 0.125},
        "secondary": {
            "mae": {"direction": "min", "scores": {"validation": 0.4, "test": 0.3}},
            "mean_mse": {"scores": {"validation": 2.0, "test": 1.5}},
        },
        "probes": fine | probes,
    }
    return "\n".join(summary(found, Path("there")))


def test_of_a_run_without_fault() -> None:
    assert told() == (
        "finished: mse validation 0.25, test 0.125 (lower is better)\n"
        "beside it, on test: mean_mse 1.5\n"
        "probes: nothing amiss\n"
        "record: there/result.json"
    )
    assert "(higher is better)" in told(direction="max")
    none = {"causal": None, "reach": None, "ablation": None}
    assert "nothing amiss" in told(**none)


@pytest.mark.parametrize(
    ("probes", "words"),
    [
        ({"causal": False}, "LEAK"),
        ({"reach": {"all": 0.1, "by_parameter": {"a": 1.0, "b": 1e-7}}}, "hardly depends on b"),
        ({"split_overlap": 3}, "OVERLAP.*: 3"),
        ({"ablation": 0.0}, "IDLE"),
        ({"can_tie": True, "loss_ablation": 0.0}, "IDLE"),
    ],
)
def test_of_a_fault(probes: dict[str, Any], words: str) -> None:
    [*_, line, _] = told(**probes).split("\n")
    assert re.search(words, line)
    assert ";" not in line


def test_a_score_that_ties_is_no_fault_where_the_loss_moves() -> None:
    assert "nothing amiss" in told(can_tie=True, ablation=0.0, loss_ablation=0.1)
