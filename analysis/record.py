"""What a run leaves on disk, and a sweep's plan: read, validated, never executed."""

from __future__ import annotations

import errno
import io
import math
import operator
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from tokenize import TokenError
from typing import Annotated, Literal, TypeVar
from zipfile import BadZipFile, ZipFile

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from analysis.text import number

Hyper = tuple[tuple[str, float], ...]  # (key, value) sorted by key: 1 and 1.0 are one hyper
Identity = tuple[str, str, int, Hyper]  # track, variant, seed, hyper

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

MALFORMED = (msgspec.DecodeError, RecursionError)  # how damaged or hostile JSON shows itself
# how a damaged or hostile archive shows itself
_DAMAGED = (
    OSError, EOFError, KeyError, TypeError, ValueError, MemoryError, OverflowError, RuntimeError,
    SyntaxError, BadZipFile, TokenError, zlib.error,
)  # fmt: skip


class Unreadable(Exception):
    """A file of a run that cannot be used; the text says why."""


NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Alpha = Annotated[float, Meta(ge=1e-9, le=0.5)]
Positive = Annotated[float, Meta(gt=0)]
SchemaVersion = Annotated[int, Meta(ge=2, le=2)]
Read = TypeVar("Read", bound="Part")


class Part(Struct):
    """Fields that a later version adds are ignored; a string or a NaN is never a number."""


class PlannedRun(Part, dict=True):
    """One run that a sweep set out to make."""

    track: str
    variant: str
    seed: int
    hyper: dict[str, float]

    @cached_property
    def identity(self) -> Identity:
        """What makes two runs one: track, variant, seed and hyper."""
        return self.track, self.variant, self.seed, tuple(sorted(self.hyper.items()))


class Plan(Part):
    """What a sweep set out to run (`plan.json`)."""

    schema_version: SchemaVersion = msgspec.field(name="schema")
    runs: list[PlannedRun]


class Metric(Part):
    """The primary metric: selects, compares, decides."""

    name: str
    direction: Literal["min", "max"]

    @property
    def better(self) -> str:
        """Which way is better, in words."""
        return {"min": "lower is better", "max": "higher is better"}[self.direction]


class Scores(Part):
    """A metric on two splits; null where it is not finite."""

    validation: float | None
    test: float | None


class Secondary(Scores):
    """Scores by another metric, or of a trivial reference, which has no direction."""

    direction: Literal["min", "max"] | None = None

    @property
    def whole(self) -> bool:
        """Whether neither score is null."""
        return None not in (self.validation, self.test)


class Declared(Part):
    """How the runs' comparison was to be judged, said before they were trained."""

    alpha: Alpha
    margin_pct: Positive
    family: Literal["all", "track"]
    tuning_seeds: list[int]


class Budget(Part):
    """How long the run trained."""

    epochs: Count
    steps: Count
    examples: Count


class Cost(Part):
    """What the run cost; null where it could not be measured."""

    parameters: Count
    mixer_parameters: Count
    flops_per_example: NotNegative | None  # forward
    saved_bytes: NotNegative | None  # kept for the backward pass
    peak_bytes: NotNegative | None
    train_seconds: NotNegative | None


class Probes(Part):
    """Measurements on the trained model."""

    reach: NotNegative | None  # share of the gradient norm in the mechanism's own parameters
    ablation: float | None  # test score without the mechanism, minus the test score
    causal: bool | None  # null: nobody claims it
    split_overlap: Count | None  # test examples that also stand in train or validation


class Criterion(Part):
    """One prediction that training could refute: `metric op value`."""

    metric: str
    op: Literal["<", "<=", ">", ">="]
    value: float

    def holds(self, observed: Mapping[str, float | None]) -> bool:
        """Whether it is what was observed; what was not observed does not hold."""
        seen = observed.get(self.metric)
        return seen is not None and OPERATORS[self.op](seen, self.value)


class Signature(Part):
    """The mechanism's predicted footprint, as said before training, and what was observed."""

    prediction: str
    criteria: list[Criterion]
    observed: dict[str, float | None]
    confirmed: bool
    by_construction: dict[str, str] = {}  # observed values that had to hold, and why: no evidence

    @property
    def holds(self) -> bool:
        """Whether every criterion does: judged here, from the record's own prediction."""
        return bool(self.criteria) and all(map(self._stands, self.criteria))

    @property
    def refuted(self) -> list[str]:
        """The criteria that do not hold, in words; one that had to hold is no evidence."""
        return [
            f"{each.metric} holds by construction"
            if each.metric in self.by_construction
            else f"{each.metric} = {number(self.observed.get(each.metric))}, "
            f"not {each.op} {each.value:g}"
            for each in self.criteria
            if not self._stands(each)
        ]

    def _stands(self, criterion: Criterion) -> bool:
        return criterion.metric not in self.by_construction and criterion.holds(self.observed)


class ConfigHashes(Part):
    """Over what each configuration group resolves to."""

    track: str
    variant: str
    model: str
    optimizer: str
    training: str


class Hashes(Part):
    """What the run was made of."""

    config: ConfigHashes
    code: dict[str, str]  # per project file that the run imported
    data: str
    order: str
    init: dict[str, str]  # per parameter outside the mechanism


class Record(PlannedRun):
    """What one finished run says of itself (`result.json`)."""

    schema_version: SchemaVersion = msgspec.field(name="schema")
    status: Literal["finished", "diverged"]
    baseline: str | None  # the arm that the sweep names as baseline
    metric: Metric
    scores: Scores
    secondary: dict[str, Secondary]  # shown, never decides unless asked for
    budget: Budget
    cost: Cost
    probes: Probes
    signature: Signature | None  # null: the variant predicts nothing
    hashes: Hashes
    environment: dict[str, str | int | float | bool | None]
    overrides: list[str]
    analysis: Declared | None = None  # null: nothing was declared

    def __post_init__(self) -> None:
        if self.status == "finished" and None in (self.scores.validation, self.scores.test):
            raise ValueError("status is finished but a score is null")


@dataclass(frozen=True)
class Run:
    """A record and the folder that it was found in."""

    record: Record
    folder: str
    judged_by: Metric | None = None  # a secondary metric that is to decide, not the primary one

    @cached_property
    def diverged(self) -> bool:
        """Whether training ended in a non-finite loss: then no score counts."""
        return self.record.status == "diverged"

    @property
    def metric(self) -> Metric:
        """The metric that decides."""
        return self.judged_by or self.record.metric

    @cached_property
    def validation(self) -> float:
        """The deciding score on validation; NaN if the run diverged."""
        return self._score("validation")

    @cached_property
    def test(self) -> float:
        """The deciding score on test; NaN if the run diverged."""
        return self._score("test")

    def _score(self, split: Literal["validation", "test"]) -> float:
        record, by = self.record, self.judged_by
        scores = record.secondary.get(by.name) if by else record.scores
        score: float | None = getattr(scores, split, None)
        return float("nan") if self.diverged or score is None else score


def read_record(path: str) -> Record:
    """Read and validate a `result.json`.

    Raises:
        Unreadable: it is truncated, not JSON, of another schema, or a field is wrong.
    """
    return _read(Record, path)


def read_plan(path: str) -> Plan:
    """Read and validate a `plan.json`; raises `Unreadable` as `read_record` does."""
    return _read(Plan, path)


def read_examples(run: Run) -> NDArray[np.float32] | None:
    """Per-example test losses of a run, (examples,) float32; None if it kept none.

    Raises:
        Unreadable: the file is damaged, holds objects (which would need unpickling), or its losses
            are not finite numbers whose mean is the run's test score.
    """
    path = os.path.join(run.folder, "examples.npz")
    if not os.path.exists(path):
        return None
    try:
        with ZipFile(_regular(path)) as archive:
            array = io.BytesIO(archive.read("test.npy"))
        losses = np.lib.format.read_array(array, allow_pickle=False)
    except _DAMAGED as error:
        raise Unreadable(f"no array `test` can be read from it: {error}") from error
    if losses.dtype != np.float32 or losses.size == 0 or not np.isfinite(losses).all():
        raise Unreadable("its array `test` does not hold finite float32 numbers")
    mean, score = float(losses.mean(dtype=np.float64)), run.record.scores.test
    if score is not None and not math.isclose(mean, score, rel_tol=1e-6):
        raise Unreadable(f"its losses have the mean {mean:g}, the run's test score is {score:g}")
    return losses


def _read(kind: type[Read], path: str) -> Read:
    try:
        with open(_regular(path), "rb", buffering=0) as file:
            return msgspec.json.decode(file.read(), type=kind)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    except MALFORMED as error:
        raise Unreadable(what_is_wrong(error)) from error


def _regular(path: str) -> str:
    """The path, if a regular file is there: a pipe or a device would be read for ever."""
    if not os.path.isfile(path):
        raise OSError(errno.EINVAL, "not a regular file")
    return path


def what_is_wrong(error: Exception) -> str:
    """What is wrong with a file, in one line: the field and why."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if not isinstance(error, msgspec.ValidationError):
        return f"no valid JSON: {str(error).removeprefix('JSON is malformed: ')}"
    found = re.fullmatch(r"(.*) - at `\$\.?(.*)`", str(error), re.DOTALL)
    text, field = found.groups() if found else (str(error), "")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", text):
        field, text = f"{field}.{missing[1]}".strip("."), "required, and not there"
    return f"{field.replace('[...]', '')}: {text}" if field else text
