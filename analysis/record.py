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
from typing import Annotated, Any, Literal, TypeVar
from zipfile import BadZipFile, ZipFile

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from analysis.text import number

Hyper = tuple[tuple[str, float], ...]  # (key, value) sorted by key: 1 and 1.0 are one hyper
Identity = tuple[str, str, int, Hyper]  # track, variant, seed, hyper

LOSS = "loss"  # the secondary score that a track has beside a primary metric that can tie
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
Bounds = tuple[float | None, float | None]  # the least and the greatest that a score can be
Observed = dict[str, float | None]  # metric → value
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
    bounds: Bounds | None = None  # null: not recorded
    can_tie: bool | None = None  # takes few values, as accuracy does; null: not recorded

    @property
    def is_smooth(self) -> bool:
        """Whether models that differ have different scores.

        A record that does not say so is from before the other kind could be declared: known are
        the two metrics that all tracks had then, of any other nothing.
        """
        return self.name in ("mse", "mae") if self.can_tie is None else not self.can_tie

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
    bounds: Bounds | None = None
    can_tie: bool | None = None

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
    reach_by_parameter: dict[str, NotNegative] | None = None  # as reach, of each alone
    loss_ablation: float | None = None  # as ablation, of the loss, where the metric can tie


class Criterion(Part):
    """One prediction that training could refute: `metric op value`."""

    metric: str
    op: Literal["<", "<=", ">", ">="]
    value: float

    def __str__(self) -> str:
        return f"{self.metric} {self.op} {self.value:g}"

    def holds(self, observed: Mapping[str, float | None]) -> bool:
        """Whether it is what was observed; what was not observed does not hold."""
        seen = observed.get(self.metric)
        return seen is not None and OPERATORS[self.op](seen, self.value)


class Signature(Part):
    """The mechanism's predicted footprint, as said before training, and what was observed."""

    prediction: str
    criteria: list[Criterion]
    observed: Observed
    by_construction: dict[str, str] = {}  # observed values that had to hold, and why: no evidence
    observed_at_start: Observed | None = None  # before training
    blocks: list[Observed] | None = None  # each block's, `observed` is over all of them

    @property
    def holds(self) -> bool:
        """Whether every criterion does: judged here, from the record's own prediction."""
        return bool(self.criteria) and not self.refuted

    @property
    def refuted(self) -> list[str]:
        """Why each criterion that does not stand does not, in words."""
        return [why for each in self.criteria if (why := self._against(each))]

    def _against(self, criterion: Criterion) -> str | None:
        """Why a criterion is not confirmed: also if it had to hold, or held before training."""
        metric, start = criterion.metric, self.observed_at_start or {}
        if metric in self.by_construction:
            return f"{metric} holds by construction"
        if not criterion.holds(self.observed):
            seen = number(self.observed.get(metric))
            return f"{metric} = {seen}, not {criterion.op} {criterion.value:g}"
        if criterion.holds(start):
            return f"{criterion} held before training ({number(start.get(metric))})"
        return None


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
    init: dict[str, str]  # per parameter and shape; older records leave out the mechanism's


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
    starts: dict[str, Any] | None = None  # what the variant's YAML says of start values, by key

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
        return self.score(self.metric.name, "validation")

    @cached_property
    def test(self) -> float:
        """The deciding score on test; NaN if the run diverged."""
        return self.score(self.metric.name, "test")

    @property
    def smooth(self) -> str | None:
        """The metric by which runs can be told to be one: the deciding one, or the loss if it ties.

        None where neither is known not to tie.
        """
        if self.metric.is_smooth:
            return self.metric.name
        loss = self.record.secondary.get(LOSS)
        return LOSS if loss and loss.can_tie is False and loss.whole else None

    def score(self, metric: str, split: Literal["validation", "test"]) -> float:
        """A score by the primary or a secondary metric; NaN if the run diverged or has none."""
        record = self.record
        scores = record.scores if metric == record.metric.name else record.secondary.get(metric)
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


def read_examples(run: Run, metric: str) -> NDArray[np.float32] | None:
    """Per-example test scores of a run by `metric`, (examples,) float32; None if it kept none.

    They are the array `test/METRIC`; an older file's one array, `test`, is by the primary metric.

    Raises:
        Unreadable: the file is damaged, lacks the primary metric's, holds objects (which would
            need unpickling), or scores that are not finite numbers whose mean is the run's score.
    """
    path = os.path.join(run.folder, "examples.npz")
    if not os.path.exists(path):
        return None
    name, is_primary = f"test/{metric}", metric == run.record.metric.name
    try:
        with ZipFile(_regular(path)) as archive:
            if f"{name}.npy" not in archive.NameToInfo:
                if not is_primary:
                    return None
                name = "test"
            array = io.BytesIO(archive.read(f"{name}.npy"))
        scores = np.lib.format.read_array(array, allow_pickle=False)
    except _DAMAGED as error:
        raise Unreadable(f"no array `{name}` can be read from it: {error}") from error
    if scores.dtype != np.float32 or scores.size == 0 or not np.isfinite(scores).all():
        raise Unreadable(f"its array `{name}` does not hold finite float32 numbers")
    mean, score = float(scores.mean(dtype=np.float64)), run.score(metric, "test")
    if not math.isclose(mean, score, rel_tol=1e-6):
        raise Unreadable(
            f"its array `{name}` has the mean {mean:g}, the run's test score is {score:g}"
        )
    return scores


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
