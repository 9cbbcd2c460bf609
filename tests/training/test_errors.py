"""A user's mistake is one line and exit status 2; other errors keep their traceback."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError

from training import errors
from training.errors import UserError, full_hydra_errors, one_line_errors, readable


@pytest.fixture(autouse=True)
def _composing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_started", False)
    monkeypatch.setattr(errors, "TRACEBACK", False)


def ended(error: BaseException) -> int | str | None:
    """The exit status that the error ends in."""
    with pytest.raises(SystemExit) as end, one_line_errors():
        raise error
    return end.value.code


FULL = "the disk is full: make room, and give the command again; what had finished is kept"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("seed is x"), "seed is x"),
        (UserError("two\n  lines"), "two lines"),
        (ValueError("of Hydra's own"), "of Hydra's own"),
        (OSError(errno.EACCES, "no entry"), "[Errno 13] no entry"),
        (OSError(errno.ENOSPC, "no space"), FULL),
        (OSError(errno.EDQUOT, "over quota"), FULL),
    ],
)
def test_a_mistake_is_one_line_on_stderr(
    capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    assert ended(error) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"error: {line}\n")


@pytest.mark.parametrize("error", [ValueError("a bug"), OSError(errno.EACCES, "a bug")])
def test_once_started_only_a_full_disk_is_told_so(error: Exception) -> None:
    errors.started()
    with pytest.raises(type(error)), one_line_errors():
        raise error
    assert ended(OSError(errno.ENOSPC, "no space")) == 2
    assert ended(UserError("still a mistake")) == 2


def test_whoever_debugs_sees_the_error_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "TRACEBACK", True)
    with pytest.raises(UserError), one_line_errors():
        raise UserError("seed is x")


def test_an_interrupt_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "interrupted; what had finished is kept\n"


def test_hydra_is_told_to_raise_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")  # and is put back, for what other tests start
    full_hydra_errors()
    assert errors.os.environ["HYDRA_FULL_ERROR"] == "1"


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("trainig=1", "trainig is no key of this configuration; did you mean training? known: "),
        (
            "trainig.epochs=3",
            "trainig.epochs is no key of this configuration (trainig is none); did you mean "
            "training? known: ",
        ),
        (
            "training.epoch=3",
            "training.epoch is no key of this configuration; did you mean epochs? known: "
            "batch_size, epochs",
        ),
        ("variant=ideal", "variant=ideal: no such variant; did you mean idea? known: "),
        ("lr=[", "lr=[ is no override: "),
        (
            "variant.mixer=[a,b]",
            "variant.mixer=[a,b]: variant.mixer is of another kind, into which this cannot be "
            "merged; to replace it say ~variant.mixer +variant.mixer=[a,b], or write a YAML",
        ),
    ],
)
def test_what_hydra_has_against_an_override_is_told_in_words(
    composed: Callable[..., DictConfig], override: str, line: str
) -> None:
    with pytest.raises(Exception) as found:  # noqa: PT011  # of several kinds, all Hydra's
        composed(override)
    said = readable(found.value)
    assert said.startswith(line)
    assert "\n" not in said


def test_a_missing_key_without_a_known_place() -> None:
    error = ConfigAttributeError("Could not override 'a.b'. Key 'a' is not in struct")
    assert readable(error) == (
        "a.b is no key of this configuration; `python train.py --cfg job` lists them"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"defaults: [mine, _self_]", "conf/variant/mine.yaml: its defaults lead back to itself"),
        (b"\xff\xfe", "conf/variant/mine.yaml must be text in UTF-8, and is not: 'utf-8' codec"),
    ],
)
def test_a_yaml_that_hydra_cannot_read_is_named(
    composed: Callable[..., DictConfig],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    text: bytes,
    line: str,
) -> None:
    (tmp_path / "variant").mkdir()
    (tmp_path / "variant" / "mine.yaml").write_bytes(text)
    with pytest.raises(SystemExit) as end, one_line_errors():
        composed(f"hydra.searchpath=[file://{tmp_path}]", "variant=mine")
    said = capsys.readouterr().err
    assert (end.value.code, said.count("\n")) == (2, 1)
    assert said.startswith(f"error: {line}")
