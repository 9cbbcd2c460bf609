"""What a run leaves on disk, and a sweep's plan: read, validated, never executed."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from records import earlier
from records.design import Rule
from records.identity import FULL, Hyper, Identity, identity
from records.probes import Probe, T
from records.reading import Count, NotNegative, Part, Read, content, converted, decoded, parsed
from records.signature import Signature

SCHEMA = 3  # of result.json and plan.json

Alpha = Annotated[float, Meta(ge=1e-9, le=0.5)]
Positive = Annotated[float, Meta(gt=0)]
Bounds = tuple[float | None, float | None]  # the least and the greatest that a score can be
BETTER = {"min": "lower is better", "max": "higher is better"}  # by a metric's direction
Scores = dict[str, float | None]  # split → score; null where it is not finite


class Versioned(Part):
    """What every version has."""

    schema: Annotated[int, Meta(ge=earlier.SCHEMA, le=SCHEMA)]


class PlannedRun(Part, dict=True, kw_only=True):
    """One run that a sweep set out to make."""

    track: str
    variant: str
    seed: int
    hyper: Hyper
    budget_factor: Positive = FULL  # times the training budget that the configuration declares

    @cached_property
    def identity(self) -> Identity:
        """What makes two runs one: track, variant, seed, hyper and budget."""
        return identity(self.track, self.variant, self.seed, self.hyper, self.budget_factor)

    @property
    def is_full(self) -> bool:
        """Whether it trains for the declared budget: those runs alone are judged."""
        return self.budget_factor == FULL


class Batch(Part):
    """Runs that a tuned design decided on at once."""

    why: str
    runs: list[PlannedRun]


class Plan(Part):
    """What a sweep set out to run (`plan.json`)."""

    runs: list[PlannedRun]
    commands: list[str] = msgspec.field(default_factory=list)  # that the sweep was started with
    design: Rule | None = None  # null: every combination of what was swept
    batches: list[Batch] = msgspec.field(default_factory=list)  # of a design, as they were decided

    def __post_init__(self) -> None:
        if self.design:
            self.design.check()


class Metric(Part):
    """The primary metric: selects, compares, decides."""

    name: str
    direction: Literal["min", "max"]
    bounds: Bounds | None = None  # null: not recorded
    can_tie: bool | None = None  # takes few values, as accuracy does; null: not recorded
    mean_over: str | None = None  # what an example's score is a mean over, in words

    @property
    def is_smooth(self) -> bool:
        """Whether models that differ are known to have different scores."""
        return self.can_tie is False

    @property
    def better(self) -> str:
        """Which way is better, in words."""
        return BETTER[self.direction]


class Secondary(Part):
    """Scores by another metric, or of a reference: by the primary one, so without a direction."""

    scores: Scores
    is_fitted: bool = False  # a reference: fitted to the training split, and not trivial
    direction: Literal["min", "max"] | None = None
    bounds: Bounds | None = None
    can_tie: bool | None = None

    @property
    def is_trivial(self) -> bool:
        """Whether it is of a prediction that learns nothing."""
        return self.direction is None and not self.is_fitted

    @property
    def whole(self) -> bool:
        """Whether it has a score on validation and on test."""
        return None not in (self.scores.get("validation"), self.scores.get("test"))


class Expected(Part, kw_only=True):
    """What a comparison should find, by what was published; said before training."""

    idea: str
    baseline: str | None = None  # null: the sweep's
    length: Count = 1  # of the test contexts, times the trained one
    verdict: Literal["better", "worse", "equal"]
    source: str


class Declared(Part):
    """How the runs' comparison was to be judged, said before they were trained."""

    alpha: Alpha
    margin_pct: Positive
    family: Literal["all", "track"]
    tuning_seeds: list[int]
    report_tuning_seeds: bool = False
    contrasts: list[tuple[str, str]] = msgspec.field(default_factory=list)  # idea, baseline
    lengths: list[Count] = msgspec.field(default_factory=list)  # of test contexts, judged too
    expects: list[Expected] = msgspec.field(default_factory=list)


class Budget(Part):
    """How long the run trained."""

    epochs: NotNegative  # whole, but for a part of the declared budget
    steps: Count
    examples: Count


class Cost(Part):
    """What the run cost; null where it could not be measured."""

    parameters: Count
    mixer_parameters: Count
    flops_per_example: NotNegative | None  # of a prediction
    saved_bytes: NotNegative | None  # kept for the backward pass
    peak_bytes: NotNegative | None  # most that tensors hold at once in a training step
    train_seconds: NotNegative | None
    evaluate_seconds: NotNegative | None = None  # to score the test split once
    mlp_width: Count | None = None  # null: without MLPs, or not recorded


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


class Record(PlannedRun, kw_only=True):
    """What one finished run says of itself (`result.json`)."""

    status: Literal["finished", "diverged"]
    baseline: str | None  # the arm that the sweep names as baseline
    metric: Metric
    scores: Scores
    secondary: dict[str, Secondary]  # shown, never decides unless asked for
    budget: Budget
    cost: Cost
    probes: dict[str, Any]  # by name; what is not there was not measured (see `probe`)
    signature: Signature | None  # null: the variant predicts nothing
    hashes: Hashes
    environment: dict[str, str | int | float | bool | None]
    config: dict[str, Any] | None = None  # resolved; null: not recorded
    analysis: Declared | None = None  # null: nothing was declared
    acting: list[str] | None = None  # tunable keys that change anything; null: not recorded
    context: Count | None = None  # tokens of a training example; null: not recorded
    overlap: Count | None = None  # test examples after one that share values; null: not recorded

    def __post_init__(self) -> None:
        for split in ("validation", "test"):
            if split not in self.scores:
                raise ValueError(f"scores has no {split}")
            if self.status == "finished" and self.scores[split] is None:
                raise ValueError("status is finished but a score is null")

    def probe(self, probe: Probe[T]) -> T:
        """What a probe found.

        Raises:
            NotMeasured: the record lacks it, or what stands there is nothing that it could find.
        """
        return probe.read(self.probes)


def read_record(path: str) -> Record:
    """Read and validate a `result.json`.

    Raises:
        Unreadable: it is truncated, not JSON, of another schema, or a field is wrong.
    """
    return _read(Record, path)


def read_plan(path: str) -> Plan:
    """Read and validate a `plan.json`; raises `Unreadable` as `read_record` does."""
    return _read(Plan, path)


def _read(kind: type[Read], path: str) -> Read:
    text = content(path)
    if decoded(Versioned, text).schema == SCHEMA:
        return decoded(kind, text)
    return converted(kind, earlier.upgraded(parsed(text)))
