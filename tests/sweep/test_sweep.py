"""Sweeps as a user starts them: the real command, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from tests.conftest import ROOT, SMALL, here, small

Shell = Callable[..., subprocess.CompletedProcess[str]]
VARIES = ("train_seconds", "evaluate_seconds")  # from one time to the next
HYPER = "lr=0.0015,gamma=1,mechanism_lr_scale=10"


def records(directory: Path) -> dict[str, dict]:
    """Every record below a directory, by its folder."""
    return {
        str(path.parent.relative_to(directory)): json.loads(path.read_text())
        for path in directory.rglob("result.json")
    }


def timeless(record: dict) -> dict:
    """A record without what may differ from one time to the next."""
    cost = {k: v for k, v in record["cost"].items() if k not in VARIES}
    return {**record, "cost": cost}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small sweep of two arms, one of which is a copied and edited YAML, no Python touched."""
    directory = tmp_path_factory.mktemp("sweep")
    (directory / "conf/variant").mkdir(parents=True)
    idea = (ROOT / "conf/variant/idea.yaml").read_text()
    mine = """
        mixer: {bias: {components: 3}}
        signature: {criteria: [{metric: effective_components, op: "<", value: 2.9}]}
    """
    (directory / "conf/variant/mine.yaml").write_text(idea + dedent(mine))
    command = [
        *(sys.executable, "train.py", "--config-dir", str(directory / "conf"), "-m"),
        *("variant=baseline,mine", "seed=0-1", f"hydra.sweep.dir={directory / 'out'}", *SMALL),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return directory / "out"


def test_every_planned_run_leaves_one_record(sweep: Path) -> None:
    plan = json.loads((sweep / "plan.json").read_text())
    hyper = {"lr": 0.0015, "gamma": 1.0, "mechanism_lr_scale": 10.0}
    expected = [
        {
            "track": "sequence",
            "variant": variant,
            "seed": seed,
            "hyper": hyper,
            "budget_factor": 1.0,
        }
        for variant in ("baseline", "mine")
        for seed in (0, 1)
    ]
    [command] = plan.pop("commands")
    assert command.startswith("python train.py --config-dir ")
    assert " -m variant=baseline,mine seed=0-1 hydra.sweep.dir=" in command  # as it was typed
    assert plan == {"schema": 3, "runs": expected}
    found = [{key: record[key] for key in expected[0]} for record in records(sweep).values()]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_copied_yaml_is_an_arm_of_its_own(sweep: Path) -> None:
    mine = records(sweep)[f"sequence/mine/{HYPER}/seed=0"]
    assert mine["variant"] == "mine"
    assert mine["baseline"] == "baseline"
    assert mine["signature"]["observed"]["effective_components"] <= 3
    assert mine["cost"]["mixer_parameters"] == 2 * (4 * 16**2 + 4 * 16 + 2 * 2 * 3)


def test_arms_are_paired_and_seeds_are_not(sweep: Path) -> None:
    run = records(sweep)
    for seed in (0, 1):
        one, two = (
            run[f"sequence/{v}/{HYPER}/seed={seed}"]["hashes"] for v in ("baseline", "mine")
        )
        assert one["data"] == two["data"]
        assert one["order"] == two["order"]
        alike = one["init"].items() & two["init"].items()
        assert len(alike) == 31  # all but the table of each block, and the mixture's two
        assert all(".bias.table" in name for name in one["init"].keys() - two["init"].keys())
        assert {g for g in one["config"] if one["config"][g] != two["config"][g]} == {"variant"}
    zero, one = (run[f"sequence/mine/{HYPER}/seed={s}"]["hashes"] for s in (0, 1))
    assert zero["data"] != one["data"]
    assert zero["order"] != one["order"]
    assert zero["config"] == one["config"]


def test_a_run_remembers_its_own_code_alone(sweep: Path) -> None:
    run = records(sweep)
    baseline = run[f"sequence/baseline/{HYPER}/seed=0"]["hashes"]["code"]
    mine = run[f"sequence/mine/{HYPER}/seed=0"]["hashes"]["code"]
    assert "models/lag_table.py" in baseline
    assert "models/exp_mixture.py" not in baseline
    assert "models/exp_mixture.py" in mine
    assert "tracks/series.py" not in mine
    assert {"train.py", "training/fit.py", "tracks/sequence.py"} <= set(mine)


def test_files_beside_the_record(sweep: Path) -> None:
    for folder, record in records(sweep).items():
        run = sweep / folder
        examples = np.load(run / "examples.npz")["test/mse"]
        assert examples.dtype == np.float32
        assert examples.shape == (32,)
        assert examples.astype(float).mean() == pytest.approx(record["scores"]["test"], rel=1e-9)
        history = (run / "history.csv").read_text().splitlines()
        assert history[0] == "epoch,train_loss,validation,seconds"
        assert len(history) == 1 + 2
        last = float(history[-1].split(",")[2])
        assert last == record["scores"]["validation"]
        artifacts = np.load(run / "artifacts.npz")
        assert artifacts["block0_bias"].shape == (2, 32)
        assert artifacts["predictions"].shape == (4, 8)
        assert not (run / "weights.pt").exists()


def test_one_run_alone_and_hydras_own_launcher_give_the_same_bits(
    sweep: Path, shell: Shell, tmp_path: Path
) -> None:
    alone = shell("train.py", "seed=1", f"hydra.run.dir={tmp_path / 'one'}", *SMALL)
    assert alone.returncode == 0, alone.stderr
    basic = shell(
        *("train.py", "-m", "hydra/launcher=basic", "variant=idea,baseline", "seed=1"),
        *(f"hydra.sweep.dir={tmp_path / 'basic'}", *SMALL),
    )
    assert basic.returncode == 0, basic.stderr
    folder = f"sequence/baseline/{HYPER}/seed=1"
    expected = timeless(records(sweep)[folder])
    assert timeless(records(tmp_path / "one")["."]) == expected
    assert timeless(records(tmp_path / "basic")[folder]) == expected
    assert (tmp_path / "basic/plan.json").exists()


def test_the_optimizer_can_be_swept(tmp_path: Path) -> None:
    done = here(
        *("train.py", "-m", "tunable=[lr,optimizer]", "optimizer=adamw,muon", "lr=0.003"),
        *("variant=baseline,idea", f"hydra.sweep.dir={tmp_path}", *SMALL),
    )
    assert done.returncode == 0, done.stderr
    one, two = (
        records(tmp_path)[f"sequence/baseline/lr=0.003,optimizer={name}/seed=0"]
        for name in ("adamw", "muon")
    )
    assert two["hyper"] == {"lr": 0.003, "optimizer": "muon"}
    assert one["scores"] != two["scores"]
    assert one["hashes"]["init"] == two["hashes"]["init"]

    done = here("analyze.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    bench = json.loads((tmp_path / "report/report.json").read_text())["bench_report"]
    for arm in ("baseline", "idea"):
        validation = {
            optimizer: run["scores"]["validation"]
            for optimizer in ("adamw", "muon")
            for run in [records(tmp_path)[f"sequence/{arm}/lr=0.003,optimizer={optimizer}/seed=0"]]
        }
        chosen = min(validation, key=lambda optimizer: validation[optimizer])
        assert bench[arm]["best_cfg"] == {"lr": 0.003, "optimizer": chosen}
    raised = {audit["code"] for audit in bench["audits"]}
    assert not raised & {"confounded", "unequal_grid", "untuned"}
    assert bench["comparison"]["n_pairs"] == 1


def test_a_finished_run_is_not_overwritten(sweep: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sweep.rglob("result.json")}
    done = here("train.py", "-m", "seed=0,1", f"hydra.sweep.dir={sweep}", *SMALL)
    assert done.returncode == 2
    assert "already holds another sweep, of 4 runs" in done.stderr
    folder = sweep / f"sequence/baseline/{HYPER}/seed=0"
    done = here("train.py", f"hydra.run.dir='{folder}'", *SMALL)
    assert done.returncode == 2
    assert "already holds a finished run" in done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in sweep.rglob("result.json")}


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker in /proc")
def test_a_killed_worker_and_a_raising_run_cost_themselves_alone(tmp_path: Path) -> None:
    """Eight runs: one worker gets SIGKILL once, one run raises, one has no folder."""
    folder = tmp_path / f"sequence/baseline/{HYPER}"
    folder.mkdir(parents=True)
    (folder / "seed=5").write_text("a file where the run's folder belongs")
    (folder / "seed=4/history.csv").mkdir(parents=True)  # makes the run raise at its end
    command = [
        *(sys.executable, "train.py", "-m", "seed=range(8)", f"hydra.sweep.dir={tmp_path}"),
        *small("training.epochs=10", "track.train=400"),
    ]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        log = folder / "seed=2" / "run.log"
        deadline = time.monotonic() + 120
        while not (log.exists() and "epoch 1" in log.read_text()):
            assert time.monotonic() < deadline, "the run to be killed never started"
            time.sleep(0.02)
        os.kill(writer_of(log), signal.SIGKILL)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert sorted(r["seed"] for r in records(tmp_path).values()) == [0, 1, 2, 3, 6, 7]
    failed = [line for line in said.splitlines() if line.startswith("failed: ")]
    assert len(failed) == 2
    assert "seed=4: IsADirectoryError: " in failed[0]
    assert "(exit status 1); see " in failed[0]
    assert "seed=5: [Errno 17] File exists" in failed[1]
    assert "2 of 8 runs failed" in said
    assert (folder / "seed=2" / "run.first.log").exists()  # of the try that was killed


def writer_of(log: Path) -> int:
    """The process whose standard output is this file."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "fd/1") == str(log):
                    return int(entry.name)
            except OSError:
                continue
    raise AssertionError(f"nobody writes {log}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-m", "lr=0.1,abc"], "lr must be a valid number, found 'abc'"),
        (["-m", "variant=baseline,nonesuch"], "nonesuch"),
        (
            ["-m", "variant=tensor_mixer,baseline", "+variant.mixer.rnk=3"],
            "error: variant=tensor_mixer: variant.mixer.rnk: TensorMixer takes no rnk; did you",
        ),
        (["-m", "variant=baseline,tensor_mixer", "track.context=1"], "context is 1"),
        (  # composed whole, although the default arm has no components
            [
                *("-m", "variant=idea,exp_mixture", "variant.mixer.bias.components=4"),
                *("baseline=idea", "seed=0,1", "analysis.tuning_seeds=[0,1]"),
            ],
            "leaves none to report on",
        ),
        (
            ["-m", "variant=idea,baseline", "variant.mixer.bias.components=4"],
            "variant=baseline: variant.mixer.bias.components is no key of this configuration",
        ),
        (["-m", "lr=3e-3,0.003"], "would be one, [lr=0.003]: sweep each value once"),
        (["-m", "gamma=1,1.0"], "would be one: gamma=1 and gamma=1.0 are one value"),
        (["-m", "variant=idea,idea"], "two runs of this sweep would be one, [variant=idea]"),
        (
            ["-m", "variant=baseline,idea", "optimizer=adamw,sgd"],
            "optimizer is swept, and is not tunable; list it: "
            "tunable=[lr,gamma,mechanism_lr_scale,optimizer]\n",
        ),
        (["-m", "track.noise=0.1,0.2"], "tunable=[lr,gamma,mechanism_lr_scale,track.noise]\n"),
        (
            ["-m", "optimizer.schedule=cosine,constant"],
            "optimizer.schedule is swept, and is not tunable; give each value a YAML in "
            "conf/optimizer, and sweep optimizer\n",
        ),
        (["-m", "analysis.alpha=0.05,0.01"], "is not tunable; make a sweep of each value\n"),
        (["-m", "experiment=lag_bias,tensor_mixer"], "experiment cannot be swept"),
        (["-m", "seed=0,1", "hydra.launcher.workers=-1"], "workers is -1, must be"),
        (["-m", "seed=range(0)"], "seed=range(0) is a sweep over nothing"),
        (["lrr=1"], "lrr is no key of this configuration; did you mean lr?"),
        (["variant=null"], "Config group override must be a string"),
        (["--config-dir", "{broken}", "variant=broken"], "broken.yaml"),
        (["gamma=0"], "gamma must be greater than 0, found 0"),
        (["seed=range(8"], "seed=range(8 is no override"),
    ],
)
def test_a_mistake_trains_nothing_and_is_told_in_one_line(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "variant").mkdir()
    (tmp_path / "variant/broken.yaml").write_text("mixer: {_target_: models.attention.Attention")
    arguments = [argument.format(broken=tmp_path) for argument in arguments]
    folders = [f"hydra.sweep.dir={tmp_path}", f"hydra.run.dir={tmp_path}"]
    done = here("train.py", *arguments, *folders)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not records(tmp_path)
    assert not (tmp_path / "plan.json").exists()


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments in (
        ["-m", f"hydra.sweep.dir={tmp_path}/file/x"],
        [f"hydra.run.dir={tmp_path}/file/x"],
    ):
        done = here("train.py", *arguments, *SMALL)
        assert done.returncode == 2
        assert "Not a directory" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_refusal_leaves_no_folder_that_it_made(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for folder in ("old", "new/deep"):
        done = here("train.py", "-m", "lr=1,x", f"hydra.sweep.dir={tmp_path / folder}")
        assert done.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_a_file_is_no_folder_of_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    done = here("train.py", "-m", "seed=0,1", f"hydra.sweep.dir={file}", *SMALL)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: hydra.sweep.dir={file}: Not a directory")
    assert len(done.stderr.splitlines()) == 1
    assert file.read_text() == "mine"


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker in /proc")
@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGKILL,
        *(pytest.param(s, marks=pytest.mark.slow) for s in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_no_run_outlives_its_sweep(tmp_path: Path, sent: signal.Signals) -> None:
    command = [
        *(sys.executable, "train.py", "-m", "seed=0,1", f"hydra.sweep.dir={tmp_path}"),
        *small("training.epochs=1000"),
    ]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        log = tmp_path / f"sequence/baseline/{HYPER}/seed=0/run.log"
        deadline = time.monotonic() + 120
        while not (log.exists() and "epoch 1" in log.read_text()):
            assert time.monotonic() < deadline, "the run never started"
            time.sleep(0.02)
        worker = writer_of(log)
        process.send_signal(sent)
        _, said = process.communicate(timeout=60)
        deadline = time.monotonic() + 10
        while Path(f"/proc/{worker}").exists():
            assert time.monotonic() < deadline, "the worker outlived its sweep"
            time.sleep(0.02)
    assert "Traceback" not in said
    assert not records(tmp_path)


def test_two_single_runs_of_one_directory(tmp_path: Path) -> None:
    command = [sys.executable, "train.py", *SMALL, f"hydra.run.dir={tmp_path}/one"]
    both = [
        subprocess.Popen(
            [*command, f"seed={seed}"],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in (0, 1)
    ]
    said = [each.communicate()[1] for each in both]
    [kept] = [seed for seed, each in enumerate(both) if each.returncode == 0]
    assert both[1 - kept].returncode == 2
    assert said[1 - kept].count("\n") == 1
    assert "choose another hydra.run.dir" in said[1 - kept]
    assert json.loads((tmp_path / "one" / "result.json").read_text())["seed"] == kept
