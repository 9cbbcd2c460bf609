"""The whole way from sweeps to judged comparisons, for whoever wants no command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import AnalysisError
from analysis.judge.compare import Matched, compare, match
from analysis.judge.design import Course, course
from analysis.judge.select import Arm, group
from analysis.judge.verdict import Judged, judge
from analysis.read.gather import Gathered, gather
from analysis.read.rules import Rules, agreed, judged_by
from records.design import SPENDING, Compared, Rule

PathLike = str | Path


@dataclass(frozen=True)
class Sweeps:
    """Sweeps as they were read, pooled."""

    found: Gathered
    arms: dict[tuple[str, str], Arm]  # by track and variant
    rules: Rules
    courses: list[Course]  # of the sweeps that have a tuned design


def read_sweeps(
    paths: PathLike | Sequence[PathLike],
    *,
    metric: str | None = None,
    partial: bool = False,
    **asked: Any,
) -> Sweeps:
    """Read everything at or below `paths`; arguments as of `judge_sweep`."""
    found = gather([Path(each) for each in ([paths] if isinstance(paths, PathLike) else paths)])
    recorded = {run.record.identity: run for run in reversed(found.runs)}  # of two the first
    _check(found.designs)
    courses = [course(rule, recorded) for rule in found.designs]  # by the metric that was declared
    found.runs = judged_by(found.runs, metric)
    found.planned += [run for made in courses for run in made.runs]
    arms = group(found.runs)
    judged = [run for run in found.runs if run.record.is_full]
    return Sweeps(found, arms, agreed(judged, partial, **asked), courses)


def _check(designs: Sequence[Rule]) -> None:
    """Raise an AnalysisError for designs that cannot be followed, or not together."""
    seen = set[Compared]()
    for rule in designs:
        if rule.spending != SPENDING:
            raise AnalysisError(
                f"a tuned design spends its level by t^{rule.spending:g}, and this version by "
                f"t^{SPENDING:g}: judge it by the version that began it"
            )
        for compared in rule.comparisons():
            if compared in seen:
                raise AnalysisError(
                    f"two tuned designs compare {compared.idea} with {compared.baseline} on "
                    f"{compared.track}: looks of one know nothing of the other's; judge each by "
                    "itself"
                )
            seen.add(compared)


def judge_arms(sweeps: Sweeps, matched: Matched) -> list[Judged]:
    """Compare, audit and judge what was matched."""
    return judge(compare(matched, sweeps.found, sweeps.rules, sweeps.courses))


def judge_sweep(
    paths: PathLike | Sequence[PathLike], *, baseline: str | None = None, **rules: Any
) -> list[Judged]:
    """All comparisons of one or more sweeps, audited and judged.

    Args:
        paths: a directory, or several that are pooled.
        baseline: the arm to compare with; None for those that the runs declare.
        rules: metric, partial, alpha, margin_pct, family, tuning_seeds, as of analyze.py; what is
            None is as the runs declared.
    Raises:
        AnalysisError: nothing can be read, or nothing compared.
    """
    sweeps = read_sweeps(paths, **rules)
    return judge_arms(sweeps, match(sweeps.arms, sweeps.found.planned, sweeps.rules, baseline))
