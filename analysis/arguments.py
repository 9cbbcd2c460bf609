"""The command line of analyze.py."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from analysis.errors import AnalysisError

MOST_SEEDS = 10_000  # that a range may span


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, as everything else here is told."""

    def error(self, message: str) -> NoReturn:
        raise AnalysisError(f"{message}; --help lists the arguments")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; raises `AnalysisError` if it is wrong."""
    parser = Parser(
        prog="analyze.py",
        allow_abbrev=False,
        description="Compare the arms of one or more sweeps, and give a verdict. "
        "Or judge an earlier report again (REPORT.json), or plan a sweep (--plan).",
    )
    add = parser.add_argument
    add("paths", nargs="*", type=_path, metavar="SWEEP",
        help="sweeps, or folders of sweeps, which are pooled; the newest in ./multirun if none; "
        "or one report.json, to judge it again")  # fmt: skip
    add("--out", type=_path, metavar="DIR", help="where report.json goes (SWEEP/report)")
    add("--only", metavar="NAME", help="show only this idea or track; all stay in the family")
    add("--strict", action="store_true", help="exit status 1 where a verdict is invalid")
    add("--partial", action="store_true",
        help="judge what is there, though planned runs are missing")  # fmt: skip
    declared = parser.add_argument_group("instead of what the runs declared (an audit will tell)")
    add = declared.add_argument
    add("--baseline", metavar="NAME", help="the arm to compare with")
    add(
        "--alpha",
        type=_level,
        metavar="LEVEL",
        help="level of the comparisons of a family together",
    )
    add("--margin-pct", type=_positive, metavar="PCT",
        help="differences within this share of the baseline's mean are negligible")  # fmt: skip
    add("--metric", metavar="NAME", help="a secondary metric that decides")
    add("--tuning-seeds", type=_seeds, metavar="0-3",
        help="choose hyper on these seeds and report on the others")  # fmt: skip
    add("--family", choices=("all", "track"), help="comparisons that are corrected together")
    planning = parser.add_argument_group("planning a sweep from a pilot, or the baseline alone")
    add = planning.add_argument
    add("--plan", action="store_true", help="how many seeds, runs and hours an effect needs")
    add("--effect-pct", type=_positive, metavar="PCT",
        help="the effect to find, in per cent of the baseline's mean")  # fmt: skip
    add("--comparisons", type=_count, metavar="M",
        help="comparisons in the family (as many as the pilot has)")  # fmt: skip
    asked = parser.parse_args(arguments)
    asked.report = any(os.path.isfile(path) for path in asked.paths)
    if asked.report:
        if len(asked.paths) > 1:
            raise AnalysisError("a report is judged by itself: name one report.json, or sweeps")
        takes = {"paths", "alpha", "margin_pct", "strict"}
        _refuse(asked, takes, "needs the runs themselves, not a report of them")
    elif asked.plan:
        if asked.effect_pct is None:
            raise AnalysisError("--plan needs --effect-pct PCT, the smallest effect worth finding")
        takes = {"paths", "plan", "effect_pct", "comparisons", "alpha", "baseline", "metric"}
        _refuse(asked, takes | {"family", "tuning_seeds"}, "says nothing with --plan")
    else:
        _refuse(asked, set(vars(asked)) - {"effect_pct", "comparisons"}, "belongs to --plan")
    return asked


def _refuse(asked: argparse.Namespace, takes: set[str], why: str) -> None:
    """Raise an `AnalysisError` where an option was given that is not among `takes`."""
    for name, value in vars(asked).items():
        if value and name not in takes | {"report"}:
            raise AnalysisError(f"--{name.replace('_', '-')} {why}")


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def _level(text: str) -> float:
    level = _number(text)
    if not 1e-9 <= level <= 0.5:
        raise argparse.ArgumentTypeError(f"{text} is no level: a number above 0, at most 0.5")
    return level


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} must be a number above 0")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text[:9]) >= 1 or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text[:20]} must be a whole number from 1 to 999999")
    return int(text)


def _seeds(text: str) -> frozenset[int]:
    """`0-3,7` → {0, 1, 2, 3, 7}."""
    seeds: set[int] = set()
    for part in text.split(","):
        ends = part.split("-")
        if not (len(ends) <= 2 and all(end.isdecimal() and len(end) < 20 for end in ends)):
            raise argparse.ArgumentTypeError(f"{text[:40]} are no seeds: expected such as 0-3,7")
        first, last = int(ends[0]), int(ends[-1])
        if not first <= last < first + MOST_SEEDS:
            raise argparse.ArgumentTypeError(
                f"{text[:40]}: a range must rise, over at most {MOST_SEEDS} seeds"
            )
        seeds |= set(range(first, last + 1))
    return frozenset(seeds)
