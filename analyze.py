"""From a sweep's run records to a verdict: `python analyze.py [SWEEP …]`.

gather → select on validation → compare → audit and judge → report.json, and a table.
With a report instead of a sweep: the verdict that its own numbers allow. With --plan: what a sweep
would have to be.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.arguments import parse
from analysis.errors import AnalysisError
from analysis.read.gather import newest_sweep
from analysis.text import printable

SWEEPS = Path("multirun")  # where `train.py -m` leaves them


def analyze(arguments: Sequence[str]) -> int:
    """The whole analysis; the exit status. Raises `AnalysisError` for what the user can mend."""
    asked = parse(arguments)
    if asked.report:
        return rejudge(asked)
    paths = asked.paths
    if not paths:
        paths = [newest_sweep(SWEEPS)]
        print(printable(f"the newest sweep: {paths[0]}"))

    from analysis.judge import planning  # these take a while to import
    from analysis.judge.compare import match
    from analysis.judge.sweep import judge_arms, read_sweeps
    from analysis.tell import report, terminal

    sweeps = read_sweeps(
        paths,
        metric=asked.metric,
        partial=asked.partial,
        alpha=asked.alpha,
        margin_pct=asked.margin_pct,
        family=asked.family,
        tuning_seeds=asked.tuning_seeds,
    )
    found, arms = sweeps.found, sweeps.arms
    if asked.plan:
        terminal.show_plan(
            planning.plan(arms, asked.baseline, sweeps.rules, asked.effect_pct, asked.comparisons),
            found.unreadable,
        )
        return 0
    try:
        matched = match(arms, found.planned, sweeps.rules, asked.baseline)
    except AnalysisError:
        terminal.show_arms(arms)
        raise
    judged = judge_arms(sweeps, matched)
    shown = terminal.only(judged, asked.only)

    named = [] if asked.paths else [str(path) for path in paths]
    command = printable(shlex.join(["python", "analyze.py", *arguments, *named]))
    path = report.write(
        report.build(judged, matched.absent, "\n".join([*found.commands, command])),
        asked.out or common(paths) / "report",
    )
    terminal.show(shown, matched.absent, hidden=len(judged) - len(shown))
    print(printable(f"report: {path}"))
    incomplete = bool(matched.absent_ideas) and not asked.partial
    return int(asked.strict and (incomplete or any(each.is_void for each in judged)))


def rejudge(asked: argparse.Namespace) -> int:
    """Judge a report again, from the per-seed scores in it; the exit status."""
    from analysis.judge import earlier
    from analysis.read.earlier import read
    from analysis.tell import terminal

    rejudged = earlier.rejudge(read(asked.paths[0]), asked.alpha, asked.margin_pct)
    try:
        terminal.show_rejudged(rejudged)
    except RecursionError:
        raise AnalysisError(f"{asked.paths[0]}: nested too deeply to be shown") from None
    return int(asked.strict and any(each.is_void for each in rejudged))


def common(paths: Sequence[Path]) -> Path:
    """The one path, or the closest folder that holds all of them."""
    if len(paths) == 1:
        return paths[0]
    return Path(os.path.commonpath([path.resolve() for path in paths]))


def main(arguments: Sequence[str]) -> int:
    """Run the analysis; the exit status: 2 for what the user can put right."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no ± or –
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
