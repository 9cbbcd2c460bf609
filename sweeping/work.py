"""One run, in a process of its own, wherever that is."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from hydra._internal.callbacks import Callbacks
from hydra.core.utils import JobRuntime, run_job, setup_globals
from hydra.types import HydraContext
from omegaconf import DictConfig

from records.files import file_hash, located
from training.paths import ROOT

LOG = "run.log"  # all that a run says, in its own folder
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@dataclass(frozen=True)
class Task:
    """What a run's process is sent: its configuration, and where the function is that runs it."""

    config: DictConfig
    module: str
    function: str
    code: Mapping[str, str]  # the files that the sweep imports, with their hashes


def edited(code: Mapping[str, str]) -> list[str]:
    """The files that are not what they were when the sweep was planned."""
    return [n for n, was in code.items() if file_hash(located(ROOT, n) or ROOT / n) != was]


def environment() -> dict[str, str]:
    """What a process needs in its environment to import the project, and to keep to one thread.

    `threads` sets torch's own number later.
    """
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(ROOT), *(path for path in given if path and path != str(ROOT))]
    return {"PYTHONPATH": os.pathsep.join(paths), **ONE_THREAD}


def work(task: Task) -> None:
    """Run it, with all that it says in its log; raises what the run raised."""
    config = task.config
    path = Path(config.hydra.sweep.dir) / config.hydra.sweep.subdir / LOG
    try:
        os.chdir(config.hydra.runtime.cwd)  # where the sweep was started, on whatever machine
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        raise SystemExit(str(error)) from None
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    if changed := edited(task.code):
        raise SystemExit(f"{', '.join(changed)} changed after the sweep was planned")

    setup_globals()
    JobRuntime.instance().set("name", config.hydra.job.name)
    returned = run_job(
        task_function=getattr(import_module(task.module), task.function),
        config=config,
        job_dir_key="hydra.sweep.dir",
        job_subdir_key="hydra.sweep.subdir",
        hydra_context=HydraContext(
            config_loader=None,  # type: ignore[arg-type]  # a job composes nothing
            callbacks=Callbacks(config),
        ),
    )
    _ = returned.return_value  # raises what the run raised


def work_elsewhere(task: Task) -> int | str:
    """The same in a cluster's process, which lives on: the run's exit status, or what it says."""
    streams = (sys.stdout, sys.stderr)
    before = [os.dup(stream.fileno()) for stream in streams]
    try:
        work(task)
    except SystemExit as end:
        return end.code or 0
    except BaseException:  # as the interpreter does at the end of a process
        traceback.print_exc()
        return 1
    finally:  # what follows is the cluster's to say
        for stream, descriptor in zip(streams, before, strict=True):
            stream.flush()
            os.dup2(descriptor, stream.fileno())
            os.close(descriptor)
    return 0
