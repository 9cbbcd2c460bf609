"""A sweep that was stopped, goes on; what is finished is kept, or done anew, or taken elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, here, once, small

FOLDERS = (
    *("conf", "models", "tracks", "training", "records", "analysis", "hydra_plugins", "sweeping"),
)
ARMS = ("variant=baseline,idea", "seed=0,1", *SMALL)
Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with a finished sweep of two arms and two seeds, `sweep`."""
    copy = tmp_path_factory.mktemp("project")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "train.py", copy)
    done = train(copy, "-m", *ARMS, "hydra.sweep.dir=sweep")
    assert done.returncode == 0, done.stderr
    return copy


@pytest.fixture
def again(project: Path, tmp_path: Path) -> Path:
    """A project of one's own, to edit."""
    return Path(shutil.copytree(project, tmp_path / "project"))


def train(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "train.py", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def untouched(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same, sooner; for a project whose code is as it was."""
    return here("train.py", *arguments, root=project)


def written(sweep: Path) -> dict[str, int]:
    """Every record that counts, and when it was written."""
    return {
        str(path.parent.relative_to(sweep)): path.stat().st_mtime_ns
        for path in sweep.rglob("result.json")
        if "superseded" not in path.parts
    }


def test_a_finished_sweep_has_nothing_left_to_do(again: Path) -> None:
    before = written(again / "sweep")
    done = untouched(again, "-m", *ARMS, "hydra.sweep.dir=sweep")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 runs are finished and kept" in done.stdout
    assert "few_seeds: the sweep reports on 2 seeds; at level 0.05 in a family of 1" in done.stdout
    assert "untuned: Every arm has one configuration" in done.stdout
    assert "prediction" not in done.stdout
    assert "declared nothing" not in done.stdout
    assert done.stderr.splitlines()[-1] == "judge it: python analyze.py sweep"
    assert written(again / "sweep") == before


def test_what_kept_runs_predicted_or_never_declared_is_told(again: Path) -> None:
    [undeclared] = (again / "sweep").glob("sequence/baseline/*/seed=1/result.json")
    record = json.loads(undeclared.read_text())
    del record["analysis"]  # as an older one
    undeclared.write_text(json.dumps(record))
    idea = again / "conf/variant/exp_mixture.yaml"
    idea.write_text(idea.read_text().replace("prediction: ", "prediction: surely, "))
    for arguments in (["hydra.sweep.dir=sweep"], ["reuse=[sweep]", "hydra.sweep.dir=new"]):
        done = untouched(again, "-m", *ARMS, *arguments)
        assert done.returncode == 0, done.stderr
        assert "2 finished runs of idea keep the prediction" in done.stdout
        assert "runs of baseline keep" not in done.stdout
        assert "1 finished runs declared nothing of how they are to be judged" in done.stdout


@pytest.mark.slow
def test_the_plan_keeps_each_command_that_began_or_resumed_the_sweep(again: Path) -> None:
    path = again / "sweep" / "plan.json"
    plan = json.loads(path.read_text())
    [first] = plan["commands"]
    assert first == shlex.join(["python", "train.py", "-m", *ARMS, "hydra.sweep.dir=sweep"])
    arms = [each.replace("seed=0,1", "seed=0-1") for each in ARMS]
    for _ in range(2):
        assert untouched(again, "-m", *arms, "hydra.sweep.dir=sweep").returncode == 0
    second = shlex.join(["python", "train.py", "-m", *arms, "hydra.sweep.dir=sweep"])
    assert json.loads(path.read_text()) == plan | {"commands": [first, second]}
    del plan["commands"]  # as an older one
    path.write_text(json.dumps(plan))
    assert untouched(again, "-m", *arms, "hydra.sweep.dir=sweep").returncode == 0
    assert json.loads(path.read_text())["commands"] == [second]


def test_a_plan_is_the_same_whatever_its_order_and_how_its_numbers_are_written(
    again: Path,
) -> None:
    path = again / "sweep" / "plan.json"
    plan = json.loads(path.read_text())
    path.write_text(json.dumps(plan | {"runs": plan["runs"][::-1]}).replace("1.0", "1"))
    done = untouched(again, "-m", *ARMS, "hydra.sweep.dir=sweep")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 runs are finished and kept" in done.stdout
    keys = "tunable=[gamma,lr,mechanism_lr_scale]"  # other folders
    done = untouched(again, "-m", *ARMS, keys, "hydra.sweep.dir=sweep")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "say tunable=[lr,gamma,mechanism_lr_scale]" in line
    path.write_text("{")
    done = untouched(again, "-m", *ARMS, "hydra.sweep.dir=sweep")
    assert done.returncode == 2
    assert "plan.json cannot be read (no valid JSON" in done.stderr


def test_another_level_than_the_runs_declared_is_refused_and_nothing_is_touched(
    again: Path,
) -> None:
    [missing] = (again / "sweep").glob("sequence/idea/*/seed=1/result.json")
    missing.unlink()
    before = {path: path.read_bytes() for path in (again / "sweep").rglob("*.json")}
    done = untouched(again, "-m", *ARMS, "analysis.alpha=0.01", "hydra.sweep.dir=sweep")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "declared analysis.alpha=0.05, and 0.01 is asked for" in line
    assert "python analyze.py sweep --alpha 0.01" in line
    assert {path: path.read_bytes() for path in (again / "sweep").rglob("*.json")} == before


def test_what_is_missing_torn_or_stale_is_done_and_nothing_else(again: Path) -> None:
    sweep = again / "sweep"
    before = written(sweep)
    [lost] = sweep.glob("sequence/baseline/*/seed=0")
    (lost / "result.json").unlink()
    [torn] = sweep.glob("sequence/baseline/*/seed=1")
    (torn / "result.json").write_text('{"schema": 2, "status"')
    model = again / "models" / "exp_mixture.py"
    model.write_text(model.read_text() + "# an edit\n")
    done = train(again, "-m", *ARMS, "hydra.sweep.dir=sweep")
    assert done.returncode == 0, done.stderr
    assert "0 of 4 runs are finished and kept" in done.stdout
    assert "2 runs (idea) are redone, for models/exp_mixture.py has changed since" in done.stdout
    after = written(sweep)
    assert after.keys() == before.keys()
    assert all(after[name] > before[name] for name in after)
    assert len(list((sweep / "superseded").rglob("result.json"))) == 3  # nothing is lost
    model.write_text(model.read_text() + "# and another\n")
    done = train(again, "-m", *ARMS, "hydra.sweep.dir=sweep")
    assert "2 of 4 runs are finished and kept" in done.stdout  # the baseline never imports it
    assert len(list((sweep / "superseded").rglob("result.json"))) == 5


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (["training.epochs=3"], "config (training) has changed"),
        (["track.noise=0.3"], "config (track) has changed"),
    ],
)
def test_a_configuration_that_changed_is_done_anew(
    again: Path, change: list[str], told: str
) -> None:
    done = untouched(again, "-m", *once(*ARMS, *change), "hydra.sweep.dir=sweep")
    assert done.returncode == 0, done.stderr
    assert "0 of 4 runs are finished and kept" in done.stdout
    assert told in done.stdout


def test_finished_runs_of_another_sweep_are_taken(again: Path) -> None:
    """A new idea against yesterday's baseline trains the idea alone."""
    model = again / "models" / "exp_mixture.py"
    model.write_text(model.read_text() + "# the new idea\n")
    done = train(again, "-m", *ARMS, "reuse=[sweep]", "hydra.sweep.dir=new")
    assert done.returncode == 0, done.stderr
    assert "2 of 4 runs are taken from other sweeps" in done.stdout
    assert "models/exp_mixture.py differs" in done.stdout
    origins = {}
    for path in (again / "new").rglob("result.json"):
        record = json.loads(path.read_text())
        origins[record["variant"], record["seed"]] = record.get("taken_from")
    assert origins["idea", 0] is origins["idea", 1] is None
    assert origins["baseline", 1].startswith("sweep/sequence/baseline/")
    done = train(again, "-m", *ARMS, "reuse=[nowhere]", "hydra.sweep.dir=other")
    assert done.returncode == 2
    assert "reuse: nowhere is no directory" in done.stderr


@pytest.mark.slow
def test_two_sweeps_of_one_second_get_two_directories(again: Path) -> None:
    day = "hydra.sweep.dir=taken"  # what the clock would name
    config = again / "conf" / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("dir: multirun/${now:%Y-%m-%d}/${now:%H-%M-%S}", "dir: taken"))
    assert config.read_text() != text
    command = [sys.executable, "train.py", "-m", *ARMS]
    both = [
        subprocess.Popen(command, cwd=again, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    assert len(written(again / "taken")) == len(written(again / "taken-2")) == 4
    assert (again / "taken-2" / "plan.json").exists()
    assert train(again, "-m", *ARMS, day).returncode == 0  # one that is named is resumed


def test_a_run_that_hangs_costs_itself_alone(again: Path) -> None:
    done = untouched(
        *(again, "-m", "seed=0,1", *small("training.epochs=100000")),
        *("hydra.launcher.run_timeout=2", "hydra.sweep.dir=slow"),
    )
    assert done.returncode == 1
    assert done.stderr.count("killed after run_timeout = 2 s") == 2
    assert "2 of 2 runs failed" in done.stderr


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupt_is_quick_and_tells_how_to_go_on(again: Path, sent: signal.Signals) -> None:
    command = [sys.executable, "train.py", "-m", "seed=0,1", *small("training.epochs=100000")]
    command.append("hydra.sweep.dir=stopped")
    with subprocess.Popen(command, cwd=again, stderr=subprocess.PIPE, text=True) as process:
        log = again / "stopped"
        deadline = time.monotonic() + 120
        while not any("epoch 1" in path.read_text() for path in log.rglob("run.log")):
            assert time.monotonic() < deadline, "no run ever started"
            time.sleep(0.05)
        process.send_signal(sent)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "2 of 2 runs left" in said
    assert f"python {' '.join(command[1:])}" in said.replace("'", "")
    assert not written(again / "stopped")
    assert not [path for path in log.rglob("*") if path.name.startswith(".result.json")]


def test_code_that_changes_under_way_stops_the_sweep(again: Path) -> None:
    command = [sys.executable, "train.py", "-m", "variant=baseline,idea", "seed=range(4)"]
    command += [*small("training.epochs=20"), "hydra.launcher.workers=1", "hydra.sweep.dir=edited"]
    with subprocess.Popen(command, cwd=again, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not written(again / "edited"):
            assert time.monotonic() < deadline, "no run ever finished"
            time.sleep(0.02)
        model = again / "models" / "exp_mixture.py"
        model.write_text(model.read_text() + "# an edit\n")
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "models/exp_mixture.py changed under way" in said
    assert 1 <= len(written(again / "edited")) < 8
    assert os.path.exists(again / "edited" / "plan.json")


def test_an_interrupt_while_planning_is_told_in_one_line(project: Path) -> None:
    command = [sys.executable, "train.py", "-m", "seed=range(40)", "hydra.sweep.dir=early"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True) as process:
        while not (project / "early" / ".lock").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()  # lest a test that fails waits for the whole sweep
    assert process.returncode == 130
    assert said.strip() == "interrupted; what had finished is kept"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(disk)]
    mounted = sys.platform == "linux" and subprocess.run(command, check=False).returncode == 0
    if not mounted:
        pytest.skip("only root may mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_stops_the_sweep_and_loses_nothing(project: Path, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2_500_000))
    command = ("-m", "seed=range(12)", *SMALL, "save_weights=true", f"hydra.sweep.dir={small_disk}")
    done = untouched(project, *command)
    assert done.returncode == 1
    assert "takes no more: No space left on device; " in done.stderr
    assert "Traceback" not in done.stderr
    kept = written(small_disk)
    assert 0 < len(kept) < 12
    for name in kept:
        assert json.loads((small_disk / name / "result.json").read_text())["status"] == "finished"

    full = untouched(project, "seed=1", *SMALL, f"hydra.run.dir={small_disk}/one")
    assert full.returncode == 2
    assert full.stderr.startswith("error: the disk is full: make room")
    assert len(full.stderr.splitlines()) == 1
    ballast.unlink()
    done = untouched(project, *command[:1], "seed=range(4)", *command[2:])
    assert done.returncode == 2
    assert "already holds another sweep, of 12 runs" in done.stderr
    done = untouched(project, *command)
    assert f"{len(kept)} of 12 runs are finished and kept" in done.stdout
    assert kept.items() <= written(small_disk).items()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal")
def test_on_a_terminal_there_is_one_bar(project: Path) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "train.py", "-m", *ARMS, "hydra.sweep.dir=seen"]
    with subprocess.Popen(
        command, cwd=project, stderr=theirs, env={**os.environ, "COLUMNS": "150", "TERM": "xterm"}
    ):
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # which is how a terminal ends
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    last = shown.decode().split("runs")[-1]
    assert "━" in last
    assert "4/4" in last
    assert "ETA" in last
    assert "best validation so far: baseline on sequence" in last
    assert "to go" not in shown.decode()
