"""What a sweep declared before its first run cannot be declared otherwise afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig

from analysis.arguments import parse
from sweeping.declared import declares_otherwise, predicts_otherwise, refuse_other_rules
from sweeping.resume import finished
from training.config import validated
from training.errors import UserError

DECLARED: dict[str, Any] = {
    **{"alpha": 0.05, "margin_pct": 1.0, "family": "all"},
    **{"tuning_seeds": [], "report_tuning_seeds": False},
    **{"contrasts": [], "lengths": [], "expects": []},
}
NO_OPTION = (
    *("baseline=null", "analysis.tuning_seeds=[]", "analysis.report_tuning_seeds=true"),
    "analysis.contrasts=[[idea,nope]]",
)


def record(baseline: str | None = "baseline", **analysis: Any) -> dict[str, Any]:
    return {"baseline": baseline, "analysis": DECLARED | analysis}


@pytest.mark.parametrize(
    ("asked", "kept", "told"),
    [
        ("analysis.alpha=0.01", record(), ["analysis.alpha=0.05", "0.01 is", "--alpha 0.01"]),
        ("analysis.margin_pct=2", record(), ["analysis.margin_pct=1.0", "--margin-pct 2"]),
        ("analysis.family=track", record(), ["analysis.family=all", "--family track"]),
        ("analysis.tuning_seeds=[1,0]", record(), ["tuning_seeds=[]", "--tuning-seeds 0,1"]),
        ("analysis.tuning_seeds=[]", record(tuning_seeds=[0]), ["tuning_seeds=[0], and [] is"]),
        ("analysis.report_tuning_seeds=true", record(), ["seeds=false, and true is asked"]),
        ("analysis.contrasts=[[idea,nope]]", record(), ["contrasts=[], and [['idea','nope']] is"]),
        ("baseline=idea", record(), ["baseline=baseline", "--baseline idea"]),
        ("baseline=null", record(), ["baseline=baseline, and null is"]),
        ("baseline=idea", record() | {"taken_from": "x"}, ["--baseline idea"]),
    ],
)
def test_other_rules_than_the_finished_runs_declared_are_refused(
    composed: Callable[..., DictConfig], asked: str, kept: dict[str, Any], told: list[str]
) -> None:
    config = validated(composed(asked))
    with pytest.raises(UserError) as error:
        refuse_other_rules([kept], config, Path("a sweep"))
    said = str(error.value)
    assert "\n" not in said
    assert all(part in said for part in told)
    command = said.partition("`python analyze.py ")[2].partition("`")[0]
    if asked in NO_OPTION:  # analyze.py has no word for these
        assert "analyze.py" not in said
        return
    assert command.startswith("'a sweep'")
    parse(["sweep", *command.removeprefix("'a sweep'").split()])  # which takes these options


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("seed=1", [record()]),
        ("analysis.alpha=0.01", []),  # nothing is finished yet
        ("analysis.alpha=0.01", [record(alpha=0.01)]),
        ("analysis.tuning_seeds=[1,0]", [record(tuning_seeds=[0, 1])]),
        ("analysis.alpha=0.01", [record() | {"taken_from": "x"}]),  # declared elsewhere
        ("analysis.alpha=0.01", [{}]),  # not recorded
    ],
)
def test_the_same_rules_and_runs_that_declared_nothing_here_are_kept(
    composed: Callable[..., DictConfig], asked: str, kept: list[dict[str, Any]]
) -> None:
    refuse_other_rules(kept, validated(composed(asked)), Path("sweep"))


def test_rules_that_differ_are_named(composed: Callable[..., DictConfig]) -> None:
    """A run of another sweep is taken where it declared what is declared here."""
    config = validated(composed("analysis.alpha=0.01", "baseline=idea"))
    assert declares_otherwise(record(), config) == ["baseline", "analysis.alpha"]
    assert declares_otherwise(record(alpha=0.01) | {"baseline": "idea"}, config) == []


def test_an_edited_prediction_is_seen(composed: Callable[..., DictConfig]) -> None:
    config = validated(composed("variant=idea"))
    assert config.variant.signature
    then = {"signature": config.variant.signature.model_dump() | {"observed": {}, "blocks": []}}
    then = json.loads(json.dumps(then))  # as a record keeps it
    assert not predicts_otherwise(then, config)
    for edit in ("prediction=x", "criteria.0.value=1"):
        assert predicts_otherwise(
            then, validated(composed("variant=idea", f"variant.signature.{edit}"))
        )
    nothing = validated(composed("variant=no_mixer"))
    assert predicts_otherwise(then, nothing)
    assert predicts_otherwise({"signature": None}, config)
    assert not predicts_otherwise({"signature": None}, nothing)


WHO = {"track": "sequence", "variant": "idea", "seed": 0, "hyper": {"lr": 0.1}}


@pytest.mark.parametrize("edit", [{}, {"hyper": None}, {"hyper": {"lr": []}}, {"seed": [0]}])
def test_a_record_that_does_not_say_which_run_it_is_of_is_no_finished_run(
    tmp_path: Path, edit: dict[str, object]
) -> None:
    whole = {"hashes": {}, "environment": {}, "scores": {}, "status": "diverged"}
    np.savez(tmp_path / "artifacts.npz", a=np.zeros(1))
    for identity, is_whole in ((WHO, True), (WHO | edit if edit else {}, False)):
        (tmp_path / "result.json").write_text(json.dumps(whole | identity))
        assert (finished(tmp_path) is not None) is is_whole


@pytest.mark.parametrize("declared", ["x", {"tuning_seeds": 5}, ["alpha"]])
def test_a_record_whose_declaration_is_damaged_is_no_finished_run(
    tmp_path: Path, declared: object
) -> None:
    whole = WHO | {"hashes": {}, "environment": {}, "scores": {}, "status": "diverged"}
    np.savez(tmp_path / "artifacts.npz", a=np.zeros(1))
    for analysis, is_whole in ((None, True), (declared, False)):
        (tmp_path / "result.json").write_text(json.dumps(whole | {"analysis": analysis}))
        assert (finished(tmp_path) is not None) is is_whole
