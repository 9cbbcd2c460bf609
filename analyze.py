"""From a sweep's run records to a verdict: `python analyze.py [SWEEP …]`.

gather → select on validation → compare → audit and judge → report.json, and a table.
With a report instead of a sweep: the verdict that its own numbers allow. With --plan: what a sweep
would have to be.
"""

from __future__ import annotations

import argparse
import gc
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.arguments import parse
from analysis.errors import AnalysisError
from analysis.gather import gather, newest_sweep
from analysis.select import group
from analysis.text import printable

SWEEPS = Path("multirun")  # where `train.py -m` leaves them


def analyze(arguments: Sequence[str]) -> int:
    """The whole analysis; the exit status. Raises `AnalysisError` for what the user can mend."""
    asked = parse(arguments)
    paths = asked.paths or [newest_sweep(SWEEPS)]
    if any(path.is_file() for path in paths):
        return rejudge(paths, asked)
    found = gather(paths)

    from analysis import planning, report, terminal  # these take a while to import
    from analysis.compare import compare, match
    from analysis.rules import agreed, judged_by
    from analysis.verdict import judge

    found.runs = judged_by(found.runs, asked.metric)
    rules = agreed(
        found.runs, asked.alpha, asked.margin_pct, asked.family, asked.partial, asked.tuning_seeds
    )
    arms = group(found.runs)
    if asked.plan:
        terminal.show_plan(
            planning.plan(arms, asked.baseline, rules, asked.effect_pct, asked.comparisons)
        )
        return 0
    try:
        pairs, absent = match(arms, found.planned, asked.baseline)
    except AnalysisError:
        terminal.show_arms(arms)
        raise
    judged = judge(compare(pairs, found, rules), rules)
    shown = terminal.only(judged, asked.only)

    named = [] if asked.paths else [str(path) for path in paths]
    command = shlex.join(["python", "analyze.py", *arguments, *named])
    path = report.write(
        report.build(judged, absent, command), asked.out or common(paths) / "report"
    )
    terminal.show(shown, absent, hidden=len(judged) - len(shown))
    print(printable(f"report: {path}"))
    return int(asked.strict and any(each.is_void for each in judged))


def rejudge(paths: Sequence[Path], asked: argparse.Namespace) -> int:
    """Judge an earlier report again, from the per-seed scores in it; the exit status."""
    if len(paths) > 1:
        raise AnalysisError("a report is judged by itself: name one report.json, or sweeps only")
    for option in ("only", "partial", "tuning_seeds", "baseline", "metric", "plan", "family"):
        if getattr(asked, option):
            name = option.replace("_", "-")
            raise AnalysisError(f"--{name} needs the runs themselves, not a report of them")

    from analysis import earlier, report, terminal
    from analysis.rules import Rules

    defaults = Rules()
    rules = Rules(asked.alpha or defaults.alpha, asked.margin_pct or defaults.margin_pct)
    rejudged = earlier.rejudge(earlier.read(paths[0]), rules)
    terminal.show_rejudged(rejudged)
    if asked.out:
        path = report.write(earlier.as_json(rejudged), asked.out, "rejudged.json")
        print(printable(f"report: {path}"))
    return int(asked.strict and any(each.is_void for each in rejudged))


def common(paths: Sequence[Path]) -> Path:
    """The one path, or the closest folder that holds all of them."""
    if len(paths) == 1:
        return paths[0]
    return Path(os.path.commonpath([path.resolve() for path in paths]))


def main(arguments: Sequence[str]) -> int:
    """Run the analysis; the exit status: 2 for what the user can put right."""
    try:
        status = analyze(arguments)
        sys.stdout.flush()
    except AnalysisError as error:
        print(printable(f"analyze.py: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as head, has gone: so is all of stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    gc.disable()  # what is read lives to the end: looking for garbage would take the longest
    sys.exit(main(sys.argv[1:]))
