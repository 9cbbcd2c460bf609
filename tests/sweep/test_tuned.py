"""A tuned design as a user starts it: the real command, stopped and resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, small

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
    done = subprocess.run(
        [sys.executable, "train.py", *SHORT, f"hydra.sweep.dir={directory}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
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


def test_it_is_judged_by_the_same_rule(sweep: Path, shell: Shell) -> None:
    done = shell("analyze.py", str(sweep))
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
    done = subprocess.run(
        [sys.executable, "train.py", *SHORT, f"hydra.sweep.dir={copy}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert records(copy) == expected
    again = json.loads((copy / "plan.json").read_text())
    assert {**again, "commands": 0} == {**plan, "commands": 0}


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
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert records(tmp_path / "killed") == records(sweep)
    plans = [
        json.loads((folder / "plan.json").read_text()) for folder in (tmp_path / "killed", sweep)
    ]
    assert plans[0]["batches"] == plans[1]["batches"]


def test_a_design_that_was_changed_is_refused(sweep: Path, shell: Shell) -> None:
    for other, key in (
        ("design.looks=[6,8]", "looks"),
        ("lr=0.001,0.003,0.009", "grid"),
        ("seed=0-8", "seeds"),
    ):
        given = [each for each in SHORT if each.split("=")[0] != other.split("=")[0]]
        done = shell("train.py", *given, other, f"hydra.sweep.dir={sweep}")
        assert done.returncode == 2
        assert f"already holds a design with {key}" in done.stderr
    fixed = [each for each in SHORT if "design" not in each]
    done = shell("train.py", *fixed, "seed=0-7", f"hydra.sweep.dir={sweep}")
    assert done.returncode == 2
    assert "a sweep of another design" in done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["design.tuning_seeds=[3,1000]"], "share seed 3"),
        (["design.tuning_seeds=1000-1002,5"], "share seed 5"),
        (["seed=3,3"], "sweep each value once"),
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
        (["design.looks=8"], "design.looks must"),
        (["design.looks=null"], "design.looks must"),
        (["design.looks=[0]"], "design.looks.0 must"),
        (["design.looks=[-3]"], "design.looks.0 must"),
        (["design.grid=null"], "design.grid must"),
        (["design.kind=foo"], "design.kind must be fixed or tuned, found 'foo'"),
        (["budget=0.5"], "budget is not for design=tuned"),
        (["budget=0.5,1"], "budget is not for design=tuned"),
        (["analysis.report_tuning_seeds=true"], "report_tuning_seeds is not for design=tuned"),
        (["lr=0.001,0.001,0.003"], "sweep each value once"),
    ],
)
def test_a_rule_that_cannot_be_is_one_line(
    given: list[str], told: str, shell: Shell, tmp_path: Path
) -> None:
    keys = {each.partition("=")[0] for each in given}
    rest = [each for each in ARMS if each.partition("=")[0] not in keys]
    done = shell("train.py", *rest, *given, f"hydra.sweep.dir={tmp_path / 'sweep'}")
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.strip().splitlines()
    assert told in line
    assert not (tmp_path / "sweep").exists()


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


def tuned_in(home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "train.py", *SHORT, *more]
    return subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)


def test_seeds_are_trained_and_judged_in_their_order(tmp_path: Path, sweep: Path) -> None:
    """Whatever the order in which they were typed: the plan is that of the plain command."""
    seeds = "seed=" + ",".join(map(str, reversed(range(8))))
    copy = Path(shutil.copytree(sweep, tmp_path / "copy"))
    assert tuned_in(ROOT, seeds, f"hydra.sweep.dir={copy}").returncode == 0
    assert json.loads((copy / "plan.json").read_text())["design"]["seeds"] == list(range(8))


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("conf/optimizer/adamw.yaml", "weight_decay: 0.01", "weight_decay: 0.02",
         (2, "the optimizer of baseline on sequence is configured otherwise")),
        ("models/attention.py", '"""', '"""\n', (1, "models/attention.py changed under way")),
    ],
)  # fmt: skip
def test_what_is_edited_after_the_first_batch_stops_the_sweep(
    tmp_path: Path, file: str, old: str, new: str, told: tuple[int, str]
) -> None:
    """As what is edited during a batch does."""
    home = tmp_path / "home"
    shutil.copytree(ROOT, home, ignore=shutil.ignore_patterns(".*", "multirun", "outputs"))
    directory = tmp_path / "sweep"
    command = [sys.executable, "train.py", *SHORT, f"hydra.sweep.dir={directory}"]
    process = subprocess.Popen(
        command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while not list(tmp_path.rglob("result.json")):  # planned, composed and hashed
        assert process.poll() is None
        time.sleep(0.05)
    while len(list(directory.rglob("result.json"))) < 12:  # the last of the first batch
        assert process.poll() is None
        time.sleep(0.005)
    text = (home / file).read_text()
    assert old in text
    (home / file).write_text(text.replace(old, new, 1))
    _, said = process.communicate()
    assert process.returncode == told[0], said
    assert told[1] in said
    assert "Traceback" not in said


def test_finished_baselines_are_taken_from_a_fixed_sweep(tmp_path: Path) -> None:
    fixed = ["-m", "variant=baseline", "seed=0-7,90,91", "lr=0.0015,0.003,0.006,0.012",
             *small("training.epochs=1"), f"hydra.sweep.dir={tmp_path / 'fixed'}"]  # fmt: skip
    subprocess.run([sys.executable, "train.py", *fixed], cwd=ROOT, check=True, capture_output=True)
    done = tuned_in(ROOT, f"reuse=[{tmp_path / 'fixed'}]", f"hydra.sweep.dir={tmp_path / 'tuned'}")
    assert done.returncode == 0, done.stderr
    taken = {
        (record["variant"], record["seed"])
        for path in (tmp_path / "tuned").rglob("result.json")
        if "taken_from" in (record := json.loads(path.read_text()))
    }
    assert {variant for variant, _ in taken} == {"baseline"}
    assert {90, 91, 0, 7} <= {seed for _, seed in taken}
    judged = subprocess.run([sys.executable, "analyze.py", str(tmp_path / "tuned")], cwd=ROOT,
                            capture_output=True, text=True, check=False)  # fmt: skip
    assert judged.returncode == 0, judged.stderr
    assert "rules_changed" not in judged.stdout
