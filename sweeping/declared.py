"""A sweep that is resumed is judged as its finished runs declared before they were trained."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from training.config import Config
from training.errors import UserError

OPTIONS = {  # key → the option of analyze.py that judges by something else; None: it has none
    "baseline": "--baseline",
    "analysis.alpha": "--alpha",
    "analysis.margin_pct": "--margin-pct",
    "analysis.family": "--family",
    "analysis.tuning_seeds": "--tuning-seeds",
    "analysis.report_tuning_seeds": None,
    "analysis.contrasts": None,
    "analysis.lengths": None,
    "analysis.expects": None,
}


def refuse_other_rules(kept: Iterable[Mapping[str, Any]], config: Config, directory: Path) -> None:
    """Raise a UserError where a record that is kept declares other rules than are asked for now.

    A record that was taken from another sweep keeps what it declared there, and names this one's
    baseline. What a record does not hold, it does not declare.
    """
    asked = _asked(config)
    for record in kept:
        declared = _declared(record)
        looked_at = ["baseline"] if "taken_from" in record else list(OPTIONS)
        if other := [key for key in looked_at if key in declares_otherwise(record, config)]:
            changes = ", ".join(f"{key}={_text(declared[key])}" for key in other)
            now = ", ".join(_text(asked[key]) for key in other)
            # an arm must be named, and of no tuning seeds there is nothing to say
            options = [
                each
                for key in other
                if asked[key] and (option := OPTIONS[key])
                for each in (option, _bare(asked[key]))
            ]
            judge = shlex.join(["python", "analyze.py", str(directory), *options])
            otherwise = f", and judge by something else with `{judge}` (an audit will tell)"
            raise UserError(
                f"the finished runs in {directory} declared {changes}, and {now} is asked for: "
                f"resume with what was declared{otherwise if options else ''}, or choose another "
                f"hydra.sweep.dir"
            )


def declares_otherwise(record: Mapping[str, Any], config: Config) -> list[str]:
    """The rules that a record declares otherwise than they are asked for now."""
    declared, asked = _declared(record), _asked(config)
    return [key for key in OPTIONS if key in declared and declared[key] != asked[key]]


def predicts_otherwise(record: Mapping[str, Any], config: Config) -> bool:
    """Whether a variant's prediction is another today than when the run was trained."""
    then, today = record.get("signature"), config.variant.signature
    if then is None or today is None:
        return then is not today
    return any(then.get(key) != value for key, value in today.model_dump().items())


def _asked(config: Config) -> dict[str, Any]:
    return _declared({"baseline": config.baseline, "analysis": config.analysis.model_dump()})


def _declared(record: Mapping[str, Any]) -> dict[str, Any]:
    found = {f"analysis.{key}": value for key, value in (record.get("analysis") or {}).items()}
    if "baseline" in record:
        found["baseline"] = record["baseline"]
    if "analysis.tuning_seeds" in found:
        found["analysis.tuning_seeds"] = sorted(found["analysis.tuning_seeds"])
    return found


def _text(value: Any) -> str:
    """As it is typed: `null`, `true`, `[0,1]`, `0.05`."""
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value).replace(" ", "")


def _bare(value: Any) -> str:
    """As analyze.py takes it: `0,1`."""
    return _text(value).strip("[]")
