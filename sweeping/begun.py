"""The plan that a sweep's directory holds already, and the one that is to lie there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from analysis.judge.design import Course
from records.files import PLAN
from records.reading import Unreadable
from records.record import SCHEMA, Plan, read_plan
from sweeping import resume
from training.errors import UserError

Json = dict[str, Any]  # a run of the plan


def begun(directory: Path, runs: Sequence[Json], design: Course | None) -> Plan | None:
    """The plan that is there, of this same sweep; None in a new directory.

    Args:
        runs: of the sweep, or of a design's last batch.
    Raises:
        UserError: it cannot be read, or is another sweep's, or this one's with its tunable keys in
            another order.
    """
    path = directory / PLAN
    if not path.exists():
        return None
    try:
        plan = read_plan(str(path))
    except Unreadable as error:
        raise UserError(
            f"{path} cannot be read ({error}): choose another hydra.sweep.dir"
        ) from None
    asked = {resume.who(run): list(run["hyper"]) for run in runs}
    there = {run.identity: list(run.hyper) for run in plan.runs}
    if other := _another(plan, design, there.keys() == asked.keys()):
        raise UserError(
            f"{directory} already holds {other}: choose another hydra.sweep.dir (analyze.py takes "
            f"several), or give the command it was begun with"
        )
    for run, keys in asked.items():
        if there.get(run, keys) != keys:  # its folder would be another
            raise UserError(
                f"tunable names the keys of {directory} in another order than it was begun with, "
                f"which names its folders: say tunable=[{','.join(there[run])}]"
            )
    return plan


def _another(plan: Plan, design: Course | None, same_runs: bool) -> str | None:
    """What else a plan is of, in words; None where it is of the sweep that is asked for."""
    if plan.design is None and design is None:
        return None if same_runs else f"another sweep, of {len(plan.runs)} runs"
    if plan.design is None or design is None:
        return "a sweep of another design"
    then, now = to_builtins(plan.design), to_builtins(design.rule)
    # the grid first: arms hold its first value
    other = [key for key in sorted(now, key="arms".__eq__) if then[key] != now[key]]
    return f"a design with {other[0]} {then[other[0]]}, now {now[other[0]]}" if other else None


def written(
    before: Plan | None, runs: Sequence[Json], design: Course | None, command: str
) -> Mapping[str, Any]:
    """The plan as it is to be: each command that began or resumed the sweep, and its runs.

    Of a design also the rule, and every batch with why it was decided: batches that were decided
    before, and follow on these, stay until they are decided again.
    """
    commands = list(before.commands) if before else []
    if commands[-1:] != [command]:
        commands.append(command)
    plan: Json = {"schema": SCHEMA, "commands": commands}
    if design is None:
        return plan | {"runs": runs}
    batches = design.batches
    if before and before.batches[: len(batches)] == batches:
        batches = before.batches
    all_runs = [run for batch in batches for run in batch.runs]
    return plan | to_builtins({"design": design.rule, "batches": batches, "runs": all_runs})
