"""A report that was written earlier: read, validated, never executed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from analysis.errors import AnalysisError
from records.identity import Hyper
from records.reading import MALFORMED, Part, what_is_wrong
from records.record import Alpha, Positive

PerSeed = list[float | None]  # scores, or differences; null where a run diverged


class Entry(Part):
    """One configuration of a grid."""

    cfg: Hyper
    mean: float | None
    validation_mean: float | None = None  # earlier reports chose on the test scores


class Full(Part):
    """An arm's scores with its best configuration."""

    mean: float | None
    per_seed: Annotated[PerSeed, Meta(min_length=1)]

    @property
    def scores(self) -> NDArray[np.float64]:
        """(seeds,); NaN where a run diverged."""
        return np.array(self.per_seed, dtype=np.float64)


class Baseline(Part):
    best_cfg: Hyper
    sweep: list[Entry]
    full: Full
    name: str = "baseline"
    cost: dict[str, float | None] | None = None


class Idea(Full):
    name: str = "idea"
    best_cfg: Hyper | None = None  # here or as bench_report.idea_config
    sweep: list[Entry] | None = None  # here or as bench_report.idea_sweep
    cost: dict[str, float | None] | None = None


class Looks(Part):
    """Of a tuned design, the numbers of pairs at which it looks."""

    planned: Annotated[list[Annotated[int, Meta(ge=1)]], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.planned != sorted(set(self.planned)):
            raise ValueError("looks.planned must rise")


class Said(Part):
    """What the report says of the comparison, with the rules that earlier ones are silent about."""

    alpha: Alpha | None = None
    margin_pct: Positive | None = None
    family: Literal["all", "track"] = "all"
    family_size: Annotated[int, Meta(ge=1, le=10**6)] | None = None
    delta_mean: float | None = None
    p_value: float | None = None
    mde: float | None = None
    inert_ulps: float | None = None
    idea_wins: int | None = None
    per_seed_diffs: PerSeed | None = None
    looks: Looks | None = None

    @property
    def planned_looks(self) -> list[int] | None:
        """Of a tuned design; None of a fixed one."""
        return self.looks.planned if self.looks else None


class Raised(Part):
    """An audit of it."""

    code: str
    severity: Literal["void", "warning", "note"]
    message: str
    advice: str


class Bench(Part):
    """`bench_report`, as far as it is judged."""

    track: str
    metric_direction: Literal["lower is better", "higher is better"]
    baseline: Baseline
    idea: Idea
    comparison: dict[str, Any]
    idea_config: Hyper | None = None
    idea_sweep: list[Entry] | None = None
    mechanism_signature: dict[str, Any] | None = None
    audits: list[Raised] | None = None

    def __post_init__(self) -> None:
        seeds = len(self.baseline.full.per_seed), len(self.idea.per_seed)
        if seeds[0] != seeds[1]:
            raise ValueError(
                f"{seeds[0]} scores of {self.baseline.name} and {seeds[1]} of {self.idea.name} "
                "cannot be paired"
            )

    @property
    def said(self) -> Said:
        """What `comparison` says of its rules."""
        return msgspec.convert(self.comparison, Said)

    @property
    def direction(self) -> Literal["min", "max"]:
        """Which way the metric is better."""
        return "min" if self.metric_direction == "lower is better" else "max"

    @property
    def models(self) -> int:
        """Models that the signature was read off: one where the report does not say."""
        found = (self.mechanism_signature or {}).get("n_models", 1)
        return found if isinstance(found, int) else 1

    @property
    def mechanism_ok(self) -> bool:
        """Whether the signature was confirmed, in as many models as there are seeds."""
        signature = self.mechanism_signature or {}
        refuted = "n_confirmed" in signature and signature["n_confirmed"] != self.models
        enough = self.models >= len(self.idea.per_seed)
        return signature.get("confirmed") is True and enough and not refuted


class Report(Part):
    """A whole report, or one of its comparisons."""

    bench_report: Bench
    system_verdict: str | None = None
    practical_verdict: str | None = None
    confidence: float | None = None
    comparisons: list[Report] = msgspec.field(default_factory=list)


def read(path: Path) -> list[Report]:
    """The comparisons of a report, or of a bare `bench_report`.

    Raises:
        AnalysisError: the file is neither.
    """
    expected = "expected a report (report.json), or its bench_report"
    try:
        found = msgspec.json.decode(path.read_bytes())
        bare = isinstance(found, dict) and "bench_report" not in found
        whole = msgspec.convert({"bench_report": found} if bare else found, Report)
        reports = whole.comparisons or [whole]
        for report in reports:
            _ = report.bench_report.said
    except OSError as error:
        raise AnalysisError(f"{path}: {error.strerror}; {expected}") from error
    except MALFORMED as error:
        raise AnalysisError(f"{path}: {what_is_wrong(error)}; {expected}") from error
    return reports
