"""Clusters: submitit's local executor and a Ray cluster, started for real, and a Slurm of paper."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, here, once, small
from tests.sweep.test_sweep import HYPER, records, timeless, writer_of

RUNS = ("-m", "seed=0,1", *small("training.epochs=10", "track.train=400"))
started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _none_left() -> Iterator[None]:
    """A sweep whose test failed would leave a Ray cluster that the next one finds."""
    yield
    while started:
        process = started.pop()
        process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()


def sweep(directory: Path, *overrides: str, **environment: str) -> subprocess.Popen[str]:
    arguments = once(*RUNS, f"hydra.sweep.dir={directory}", *overrides)
    command = [sys.executable, "train.py", *arguments]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )
    started.append(process)
    return process


def outcome(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=300)
    return process.returncode, said


def timeless_records(directory: Path) -> dict[str, dict]:
    return {name: timeless(record) for name, record in records(directory).items()}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sweep by the local launcher."""
    directory = tmp_path_factory.mktemp("local")
    code, said = outcome(sweep(directory))
    assert code == 0, said
    return directory


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker in /proc")
@pytest.mark.parametrize(
    "launcher", ["submitit_local", pytest.param("ray", marks=pytest.mark.slow)]
)
def test_a_cluster_makes_the_same_records_and_survives(
    local: Path, launcher: str, tmp_path: Path
) -> None:
    """One run is killed and tried again, one fails; the sweep goes on, and is then resumed."""
    folder = tmp_path / f"sequence/baseline/{HYPER}"
    obstacle = folder / "seed=1/history.csv"
    obstacle.mkdir(parents=True)  # makes the run raise at its end
    process = sweep(tmp_path, f"hydra/launcher={launcher}")
    log = folder / "seed=0/run.log"
    deadline = time.monotonic() + 300
    while not (log.exists() and "epoch 1" in log.read_text()):
        assert time.monotonic() < deadline, "the run to be killed never started"
        time.sleep(0.02)
    os.kill(writer_of(log), signal.SIGKILL)
    code, said = outcome(process)
    assert code == 1, said
    assert "seed=1: IsADirectoryError: " in said
    assert "1 of 2 runs failed" in said
    assert (folder / "seed=0/run.first.log").exists()
    assert [r["seed"] for r in records(tmp_path).values()] == [0]

    obstacle.rmdir()
    code, said = outcome(sweep(tmp_path, f"hydra/launcher={launcher}"))
    assert code == 0, said
    assert "1 of 2 runs are finished and kept" in said
    both = (json.loads((folder / "plan.json").read_text()) for folder in (tmp_path, local))
    assert len({str(plan["runs"]) for plan in both}) == 1
    assert timeless_records(tmp_path) == timeless_records(local)
    for name in records(local):
        both = (local / name / "examples.npz", tmp_path / name / "examples.npz")
        assert both[0].read_bytes() == both[1].read_bytes()


@pytest.fixture(scope="module")
def tuned_here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned sweep by the local launcher."""
    directory = tmp_path_factory.mktemp("tuned")
    code, said = outcome(tuned(directory))
    assert code == 0, said
    return directory


def tuned(directory: Path, *overrides: str) -> subprocess.Popen[str]:
    design = ("design=tuned", "design.tuning_seeds=[90]", "design.extend=0", "design.budgets=[]")
    arms = ("variant=baseline,idea", "seed=0-6", "design.looks=[6]", "lr=0.003,0.006")
    return sweep(directory, *design, *arms, *small("training.epochs=1"), *overrides)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["submitit_local", "ray"])
def test_a_tuned_design_makes_the_same_decisions_and_records_on_a_cluster(
    tuned_here: Path, launcher: str, tmp_path: Path
) -> None:
    code, said = outcome(tuned(tmp_path, f"hydra/launcher={launcher}"))
    assert code == 0, said
    plans = [json.loads((each / "plan.json").read_text()) for each in (tmp_path, tuned_here)]
    assert plans[0] | {"commands": 0} == plans[1] | {"commands": 0}
    assert len(plans[0]["batches"]) > 1
    assert timeless_records(tmp_path) == timeless_records(tuned_here)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker in /proc")
def test_an_interrupt_ends_the_jobs_too(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell's & has it
    process = sweep(tmp_path, "hydra/launcher=submitit_local", "training.epochs=1000")
    signal.signal(signal.SIGINT, before)
    log = tmp_path / f"sequence/baseline/{HYPER}/seed=0/run.log"
    deadline = time.monotonic() + 300
    while not (log.exists() and "epoch 1" in log.read_text()):
        assert time.monotonic() < deadline, "the run to be interrupted never started"
        time.sleep(0.05)
    worker = writer_of(log)
    process.terminate()
    code, said = outcome(process)
    assert code == 130, said
    assert "2 of 2 runs left. To resume:\npython train.py" in said
    assert "Traceback" not in said
    deadline = time.monotonic() + 20
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < deadline, "the run goes on"
        time.sleep(0.05)


SBATCH = """
    #!{python}
    import os, re, subprocess, sys
    script = open(sys.argv[-1]).read()
    open("{folder}/submitted.sh", "a").write(script)
    tasks = re.search("#SBATCH --array=0-(\\\\d+)", script)
    for task in range(int(tasks[1]) + 1 if tasks else 1):
        given = dict(SLURM_JOB_ID=str(70 + task), SLURM_NTASKS="1", SLURM_PROCID="0",
                     SLURM_LOCALID="0", SLURM_NODEID="0", SLURM_JOB_NUM_NODES="1",
                     SLURM_JOB_NODELIST="here")
        if tasks:
            given |= dict(SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID=str(task))
        subprocess.Popen(["bash", sys.argv[-1]], env=os.environ | given,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print("Submitted batch job 7")
"""
SRUN = """
    #!{python}
    import os, sys
    command = sys.argv[sys.argv.index("--error") + 2:]
    os.execvp(command[0], command)
"""
SACCT = """
    #!{python}
    print("JobID|State|NodeList")
"""


def test_slurm_is_given_one_array_of_all_runs(local: Path, tmp_path: Path) -> None:
    """Slurm's commands are stand-ins that run a job where they are called."""
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT)):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        source = textwrap.dedent(text).lstrip()
        path.write_text(
            source.replace("{python}", sys.executable).replace("{folder}", f"{tmp_path}")
        )
        path.chmod(0o755)
    code, said = outcome(
        sweep(
            tmp_path / "out",
            *("hydra/launcher=submitit_slurm", "hydra.launcher.slurm_partition=fast"),
            PATH=f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        )
    )
    assert code == 0, said
    script = (tmp_path / "submitted.sh").read_text()
    for line in ("--array=0-1%2", "--partition=fast", "--cpus-per-task=1", "--mem=4GB"):
        assert f"#SBATCH {line}\n" in script
    assert script.count("--array") == 1
    expected = {name: timeless(record) for name, record in records(local).items()}
    assert {
        name: timeless(record) for name, record in records(tmp_path / "out").items()
    } == expected


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["hydra/launcher=submitit_slurm"], 'Could not detect "srun"'),
        (["hydra/launcher=submitit_local", "hydra.launcher.timeout_min=x"], "timeout_min"),
        (["hydra/launcher=ray", "hydra.launcher.address=auto"], "address is auto"),
        (["hydra/launcher=ray", "hydra.launcher.address=127.0.0.1:1"], "address is 127.0.0.1:1"),
        (["hydra/launcher=ray", "hydra.launcher.workers=0"], "workers is 0, must be"),
    ],
)
def test_a_cluster_that_is_not_there_is_told_in_one_line(
    tmp_path: Path, overrides: list[str], says: str
) -> None:
    done = here("train.py", *once(*RUNS, f"hydra.sweep.dir={tmp_path}", *overrides))
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not records(tmp_path)
