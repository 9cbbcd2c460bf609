"""Training compiled and in bfloat16: the same training but for rounding, and it says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from tests.conftest import ROOT, SMALL
from training import step
from training.build import build
from training.config import validated
from training.errors import UserError
from training.fit import batch_order, evaluate, fit

Compose = Callable[..., DictConfig]
# One block and one batch size: compiling is what takes long.
ONE_BLOCK = (*SMALL, "model.layers=1")

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of compiled code that is the tests' own."""
    directory = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "CACHE", str(directory))
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(directory))  # put back at the end, too
        yield directory


def shell(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in the repository's root, with these variables besides."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def trained(cfg: DictConfig) -> tuple[list[float], Tensor, Tensor]:
    """Training losses by epoch, test scores (n,), and what torch's global stream gives next."""
    config = validated(cfg)
    track, network, _, optimizers = build(config)
    history = fit(network, track, optimizers, batch_order(config, len(track.train)), config)
    assert all(p.dtype == torch.float32 for p in network.parameters())
    scores = evaluate(network, track, track.test)[track.metric]
    return [row["train_loss"] for row in history.rows], scores, torch.rand(3)


@needs_compiler
@pytest.mark.slow
def test_compiled_training_is_the_eager_one_but_for_rounding(
    composed: Compose, cache: Path, tmp_path: Path
) -> None:
    losses, scores, drawn = trained(composed(*ONE_BLOCK))
    compiled = trained(composed(*ONE_BLOCK, "compile=true"))
    assert compiled[0] == pytest.approx(losses, rel=1e-5)
    torch.testing.assert_close(compiled[1], scores, rtol=1e-3, atol=1e-5)
    assert not compiled[1].equal(scores)  # other kernels ran, so they round otherwise
    assert compiled[2].equal(drawn)

    # Again from the cache, in a process of its own and in a sweep's: the same bits, nothing new.
    code = sorted(cache.rglob("*.so"))
    assert code
    for mode, folder in (("", "alone"), ("-m", "sweep")):
        command = [sys.executable, "train.py", *filter(None, [mode]), *ONE_BLOCK, "compile=true"]
        key = "hydra.sweep.dir" if mode else "hydra.run.dir"
        done = shell([*command, f"{key}={tmp_path / folder}"], TORCHINDUCTOR_CACHE_DIR=str(cache))
        assert done.returncode == 0, done.stderr
        (record,) = map(json.loads, map(Path.read_text, (tmp_path / folder).rglob("result.json")))
        assert record["scores"]["test"] == compiled[1].double().mean().item()
        assert record["environment"]["compiled"] is True
        assert record["environment"]["precision"] == "float32"
    assert sorted(cache.rglob("*.so")) == code


def test_compiled_code_is_made_by_the_run_s_threads_and_kept_for_the_next(
    composed: Compose, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a torch that compiles nothing: the minute that it takes is another test's."""
    asked: dict[str, object] = {}

    def uncompiled(network: nn.Module, **settings: object) -> nn.Module:
        asked.update(settings)
        return network

    monkeypatch.setattr(torch, "compile", uncompiled)
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    track, network, _, _ = build(validated(composed(*SMALL)))
    config = validated(composed(*SMALL, "compile=true", "threads=3"))
    few = track.train.inputs[:8], track.train.targets[:8]
    loss = step.batch_loss(network, track, config)(*few)
    expected = track.loss(track.readout(network(few[0])), few[1]).mean()
    assert loss.item() == expected.item()
    assert asked["options"] == {"compile_threads": 3}
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(cache)


def test_bfloat16_is_for_the_products_of_training_alone(composed: Compose) -> None:
    config = validated(composed(*SMALL, "precision=bfloat16"))
    track, network, _, optimizers = build(config)
    seen: dict[bool, set[torch.dtype]] = {True: set(), False: set()}
    network.head.register_forward_hook(lambda m, _, y: seen[m.training].add(y.dtype))
    fit(network, track, optimizers, batch_order(config, len(track.train)), config)
    assert seen == {True: {torch.bfloat16}, False: {torch.float32}}  # False: validation
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in network.parameters())
    loss = step.batch_loss(network, track, config)(track.train.inputs[:8], track.train.targets[:8])
    assert loss.dtype == torch.float32


@pytest.mark.parametrize("variant", ["baseline", "idea", "tensor_mixer"])
def test_bfloat16_learns_what_float32_does(composed: Compose, variant: str) -> None:
    losses, _, drawn = trained(composed(*SMALL, f"variant={variant}"))
    lower = trained(composed(*SMALL, f"variant={variant}", "precision=bfloat16"))
    assert lower[0] == pytest.approx(losses, rel=2**-6)  # bfloat16 has 8 bits
    assert lower[0] != losses
    assert lower[2].equal(drawn)


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("variable", ["CXX", "PATH"])
def test_a_missing_compiler_is_one_line(tmp_path: Path, variable: str, sweep: bool) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "CXX"}
    where = f"hydra.{'sweep' if sweep else 'run'}.dir={tmp_path}"
    done = subprocess.run(
        [sys.executable, "train.py", *["-m"] * sweep, "compile=true", where],
        cwd=ROOT,
        env={**environment, variable: "/nowhere/g++"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: compile is true, but there is no C++ compiler here")
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.rglob("result.json"))


def test_a_gpu_without_bfloat16_is_refused(
    composed: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    config = validated(composed("precision=bfloat16"))
    step.check_machine(config, torch.device("cpu"))
    with pytest.raises(UserError, match="bfloat16, which Tesla T4 does not compute in"):
        step.check_machine(config, torch.device("cuda"))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("variant", ["idea", "exp_mixture_frozen", "tensor_mixer", "no_mixer"])
@pytest.mark.parametrize("track", ["sequence", "sunspots"])
def test_every_kind_of_arm_compiles(
    composed: Compose, cache: Path, variant: str, track: str
) -> None:
    small = ("model.dim=16", "model.heads=2", "model.layers=1", "training.epochs=1")
    arm = (*small, f"variant={variant}", f"track={track}", "training.batch_size=64")
    losses, _, _ = trained(composed(*arm))
    assert trained(composed(*arm, "compile=true"))[0] == pytest.approx(losses, rel=1e-4)


@needs_cuda
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_gpu_trains_and_is_named_in_the_record(
    tmp_path: Path, cache: Path, precision: str, compiled: bool
) -> None:
    asked = ("device=cuda", f"precision={precision}", f"compile={str(compiled).lower()}")
    command = [sys.executable, "train.py", *ONE_BLOCK, *asked, f"hydra.run.dir={tmp_path}"]
    done = shell(command, TORCHINDUCTOR_CACHE_DIR=str(cache))
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "result.json").read_text())
    assert record["status"] == "finished"
    assert record["environment"]["device"] == torch.cuda.get_device_name()
    assert record["environment"]["precision"] == precision
    assert record["environment"]["compiled"] is compiled
