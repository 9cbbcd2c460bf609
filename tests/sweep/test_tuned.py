"""A tuned design as a user starts it: the real command, stopped and resumed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from omegaconf import DictConfig

from records.design import Rule
from records.record import PlannedRun
from sweeping.arguments import meant
from sweeping.rule import rule_of
from sweeping.tuned import Frozen, read
from tests.conftest import ROOT, here, small
from tests.sweep.test_resume import FOLDERS
from training.config import validated_design
from training.errors import UserError

Compose = Callable[..., DictConfig]
Shell = Callable[..., subprocess.CompletedProcess[str]]
ARMS = ("-m", "variant=baseline,idea", "design=tuned", *small("training.epochs=1"))
SHORT = (*ARMS, "design.looks=[7,8]", "design.tuning_seeds=[90,91]", "design.extend=1")


def records(sweep: Path) -> dict[str, Any]:
    """Every record's scores, by its folder."""
    return {
        str(path.parent.relative_to(sweep)): json.loads(path.read_text())["scores"]
        for path in sweep.rglob("result.json")
    }


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole tuned sweep; what it said is beside it."""
    directory = tmp_path_factory.mktemp("tuned") / "sweep"
    done = here("train.py", *SHORT, f"hydra.sweep.dir={directory}")
    assert done.returncode == 0, done.stderr
    (directory.parent / "said").write_text(done.stderr)
    return directory


def test_the_plan_holds_the_rule_and_every_batch_with_its_reason(sweep: Path) -> None:
    plan = json.loads((sweep / "plan.json").read_text())
    rule = plan["design"]
    assert rule["grid"] == {"lr": [0.0015, 0.003, 0.006]}
    assert rule["tuning_seeds"] == [90, 91]
    assert rule["seeds"] == list(range(8))
    assert rule["looks"] == [7, 8]
    assert [arm["variant"] for arm in rule["arms"]] == ["baseline", "idea"]
    assert plan["batches"][0]["why"] == "every arm is tuned over the grid"
    assert len(plan["batches"][0]["runs"]) == 2 * 3 * 2
    assert plan["runs"] == [run for batch in plan["batches"] for run in batch["runs"]]
    assert len(records(sweep)) == len(plan["runs"])


def test_the_stages_are_told_as_they_pass(sweep: Path) -> None:
    said = (sweep.parent / "said").read_text()
    assert "every arm is tuned over the grid: 12 runs now, then at most " in said
    assert "7 pairs, of at most 8, of idea on sequence" in said
    assert "idea on sequence ended at " in said
    assert "judge it: python analyze.py" in said


def test_it_is_judged_by_the_same_rule(sweep: Path) -> None:
    done = here("analyze.py", str(sweep))
    assert done.returncode == 0, done.stderr
    report = json.loads((sweep / "report" / "report.json").read_text())
    said = report["bench_report"]["comparison"]
    codes = {audit["code"] for audit in report["bench_report"]["audits"]}
    assert said["looks"]["stopped"]["pairs"] == said["n_pairs"]
    assert said["seeds"] == list(range(said["n_pairs"]))
    assert said["tuning_seeds"] == [90, 91]
    assert not codes & {"unplanned_run", "missing_run", "unpaired_seed", "tuned_on_reported_seeds"}


def test_it_is_resumed_to_the_same_decisions_and_bits(sweep: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(sweep, tmp_path / "copy"))
    expected, plan = records(sweep), json.loads((sweep / "plan.json").read_text())
    for lost in list(copy.rglob("result.json"))[::5]:
        lost.unlink()
    done = here("train.py", *SHORT, f"hydra.sweep.dir={copy}")
    assert done.returncode == 0, done.stderr
    assert records(copy) == expected
    again = json.loads((copy / "plan.json").read_text())
    assert {**again, "commands": 0} == {**plan, "commands": 0}


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 14])  # records: in the first batch, and in a later one
def test_a_kill_loses_nothing(sweep: Path, tmp_path: Path, after: int) -> None:
    command = [sys.executable, "train.py", *SHORT, f"hydra.sweep.dir={tmp_path / 'killed'}"]
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
        while len(records(tmp_path)) < after:
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = here(*command[1:])
    assert done.returncode == 0, done.stderr
    assert records(tmp_path / "killed") == records(sweep)
    plans = [
        json.loads((folder / "plan.json").read_text()) for folder in (tmp_path / "killed", sweep)
    ]
    assert plans[0]["batches"] == plans[1]["batches"]


def test_a_design_that_was_changed_is_refused(sweep: Path) -> None:
    for other, key in (
        ("design.looks=[6,8]", "looks"),
        ("lr=0.001,0.003,0.009", "grid"),
        ("seed=0-8", "seeds"),
    ):
        given = [each for each in SHORT if each.split("=")[0] != other.split("=")[0]]
        done = here("train.py", *given, other, f"hydra.sweep.dir={sweep}")
        assert done.returncode == 2
        assert f"already holds a design with {key}" in done.stderr
    fixed = [each for each in SHORT if "design" not in each]
    done = here("train.py", *fixed, "seed=0-7", f"hydra.sweep.dir={sweep}")
    assert done.returncode == 2
    assert "a sweep of another design" in done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["design.tuning_seeds=[3,1000]"], "share seed 3"),
        (["seed=5,5,6"], "seed names 5 twice"),
        (["design.looks=[12,8]"], "design.looks must rise"),
        (["seed=0-3"], "at a last look of 4 pairs nothing could be significant"),
        (["lr=0.001,0.003"], "lr has 2 values: a grid that is to grow needs three"),
        (["lr=0.003"], "lr has 1 value"),
        (["variant=idea"], "baseline baseline, which is not swept"),
        (["variant=baseline"], "needs an idea beside the baseline"),
        (["model.dim=16,32"], "model.dim is swept, and is not tunable"),
        (["analysis.tuning_seeds=[4]"], "say design.tuning_seeds alone"),
        (["design.budgets=[1]"], "design.budgets must hold each factor once, and not 1"),
        (["design.futility=2"], "design.futility must be less than 1, found 2"),
        (["seed=0,a"], "seed=a: must be a whole number"),
        (["design.looks=[]"], "design.looks must"),
        (["lr=0.001,0.001,0.003"], "sweep each value once"),
        (["design.looks=8"], "design.looks must be a valid list, found 8"),
        (["design.grid=null"], "design.grid must be a valid dictionary, found None"),
        (["budget=0.5,1"], "budget=0.5,1: design=tuned judges at a budget of 1"),
    ],
)
def test_a_rule_that_cannot_be_is_one_line(given: list[str], told: str, tmp_path: Path) -> None:
    keys = {each.partition("=")[0] for each in given}
    rest = [each for each in ARMS if each.partition("=")[0] not in keys]
    done = here("train.py", *rest, *given, f"hydra.sweep.dir={tmp_path / 'sweep'}")
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.strip().splitlines()
    assert told in line
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize("value", ["8", "null", "[0]", "[-3]", "[]", "[8,a]"])
def test_looks_that_are_none_are_refused_before_they_are_used(
    composed: Compose, value: str
) -> None:
    with pytest.raises(UserError, match=r"^design\.looks"):
        validated_design(composed("design=tuned", f"design.looks={value}"))


def rule(composed: Compose, *given: str) -> Rule:
    """Of a sweep; an override, `key=values`, is an axis."""
    axes = {each.partition("=")[0]: each for each in ("variant=baseline,idea", *given)}
    varied = {
        key: [f"{key}={value}" for value in re.split(r",(?![^[]*\])", each.partition("=")[2])]
        for key, each in axes.items()
    }
    varied = {"design": ["design=tuned"], "track": ["track=sequence"], **varied}
    return rule_of(varied, lambda runs: [composed(*run) for run in runs])


def test_reported_seeds_are_paired_in_order_however_they_were_typed(composed: Compose) -> None:
    seeds = "seed=15,3,0,1,2,4,5,14"
    assert rule(composed, seeds, "lr=0.001,0.002,0.004").seeds == [0, 1, 2, 3, 4, 5, 14, 15]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("budget=0.5", "say design.budgets="),
        ("analysis.report_tuning_seeds=true", "leave it false"),
        ("analysis.tuning_seeds=[1000,1001,1002]", "say design.tuning_seeds alone"),
    ],
)
def test_what_a_tuned_design_says_itself_is_refused(
    composed: Compose, given: str, told: str
) -> None:
    with pytest.raises(UserError, match=told):
        rule(composed, "seed=0,1,2,3,4,5,6,7", "lr=0.001,0.002,0.004", given)


def test_tuning_seeds_are_read_as_those_of_a_fixed_sweep() -> None:
    assert meant(["-m", "design.tuning_seeds=1000-1002,7"]) == [
        "-m", "design.tuning_seeds=[1000,1001,1002,7]"
    ]  # fmt: skip


PLANNED = PlannedRun(
    track="sequence",
    variant="idea",
    seed=0,
    hyper={"lr": 0.0015, "gamma": 1.0, "mechanism_lr_scale": 10.0},
)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("training.epochs=3", "training of idea on sequence changed under way"),
        ("variant.mixer.bias.components=3", "variant of idea on sequence"),
        ("analysis.alpha=0.01", "rules of idea on sequence"),
        ("gamma=2", "hyper of idea on sequence"),
    ],
)
def test_what_a_batch_is_made_of_is_compared_with_the_first(
    composed: Compose, tmp_path: Path, edit: str, told: str
) -> None:
    frozen = Frozen(tmp_path)
    frozen.check([composed("variant=idea")], [PLANNED])
    frozen.check([composed("variant=idea")], [PLANNED])
    with pytest.raises(UserError, match=told):
        frozen.check([composed("variant=idea", edit)], [PLANNED])


def test_a_record_of_another_run_is_not_taken_for_the_one_asked_for(
    composed: Compose, sweep: Path
) -> None:
    config = composed("variant=idea", "seed=90")
    asked = {**to_builtins(PLANNED), "seed": 91}
    with pytest.raises(RuntimeError, match="seed=90 holds"):
        read(sweep, [config], [PlannedRun(**asked)])
    [found] = read(sweep, [config], [PlannedRun(**asked | {"seed": 90})])
    assert found[2] == 90


EDITED_AFTER_A_BATCH = """
import runpy, sys
from sweeping import tuned
read, (_, name, text, *arguments) = tuned.read, sys.argv
def edited(*given):
    with open(name, "a") as file:
        file.write(text)
    return read(*given)
tuned.read = edited
sys.argv = ["train.py", *arguments]
runpy.run_path("train.py", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        pytest.param(
            *("models/exp_mixture.py", "# an edit\n", "models/exp_mixture.py changed under way"),
            marks=pytest.mark.slow,
        ),
        ("conf/variant/idea.yaml", "frozen: true\n", "variant of idea on sequence changed"),
    ],
)
def test_an_edit_between_two_batches_stops_the_sweep_and_touches_nothing(
    sweep: Path, tmp_path: Path, file: str, text: str, told: str
) -> None:
    project = tmp_path / "project"
    for folder in FOLDERS:
        shutil.copytree(
            ROOT / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "train.py", project)
    copy = Path(shutil.copytree(sweep, project / "sweep"))
    before = records(copy)
    done = subprocess.run(
        [sys.executable, "-c", EDITED_AFTER_A_BATCH, file, text, *SHORT, "hydra.sweep.dir=sweep"],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert told in done.stderr.splitlines()[-1]
    assert records(copy) == before
    assert not (copy / "superseded").exists()


@pytest.mark.slow
def test_a_stop_between_a_batchs_plan_and_its_first_run_changes_nothing(
    sweep: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(sweep, tmp_path / "copy"))
    plan = json.loads((sweep / "plan.json").read_text())
    batches = plan["batches"][:2]
    (copy / "plan.json").write_text(
        json.dumps(plan | {"batches": batches, "runs": [r for b in batches for r in b["runs"]]})
    )
    first = {(run["variant"], run["seed"], run["hyper"]["lr"]) for run in batches[0]["runs"]}
    for path in list(copy.rglob("result.json")):
        run = json.loads(path.read_text())
        if (run["variant"], run["seed"], run["hyper"]["lr"]) not in first or (
            run["budget_factor"] != 1
        ):
            shutil.rmtree(path.parent)
    assert len(records(copy)) == len(batches[0]["runs"])
    done = here("train.py", *SHORT, f"hydra.sweep.dir={copy}")
    assert done.returncode == 0, done.stderr
    assert json.loads((copy / "plan.json").read_text()) | {"commands": 0} == plan | {"commands": 0}
    assert records(copy) == records(sweep)


@pytest.mark.slow
def test_finished_baselines_of_a_fixed_sweep_are_taken(tmp_path: Path) -> None:
    fixed = [each for each in SHORT if not each.startswith(("design", "variant"))]
    done = here("train.py", *fixed, "lr=0.003", "seed=90,91", f"hydra.sweep.dir={tmp_path / 'f'}")
    assert done.returncode == 0, done.stderr
    process = subprocess.Popen(
        [sys.executable, "train.py", *SHORT, f"reuse=[{tmp_path / 'f'}]",
         f"hydra.sweep.dir={tmp_path / 'tuned'}"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    first = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert "every arm is tuned over the grid: 10 runs now" in first
    for path in (tmp_path / "tuned").rglob("baseline/lr=0.003,*/seed=9?/result.json"):
        record = json.loads(path.read_text())
        assert record["taken_from"].startswith(str(tmp_path / "f"))
        assert record["analysis"]["tuning_seeds"] == [90, 91]  # as all records here


def test_a_look_that_could_decide_nothing_is_told(shell: Shell, tmp_path: Path) -> None:
    arms = [each for each in SHORT if not each.startswith("design.looks")]
    process = subprocess.Popen(
        [sys.executable, "train.py", *arms, "design.looks=[5,8]",
         f"hydra.sweep.dir={tmp_path / 'sweep'}"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    first = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert "no look at 5 pairs, of which so few could decide nothing" in first
