"""From a sweep's run records to a verdict: `python analyze.py [SWEEP …]`.

gather → select on validation → compare → audit and judge → report.json, and a table.
"""

from __future__ import annotations

import argparse
import gc
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from analysis.errors import AnalysisError
from analysis.gather import gather, newest_sweep
from analysis.select import group
from analysis.text import printable

SWEEPS = Path("multirun")  # where `train.py -m` leaves them


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, as everything else here is told."""

    def error(self, message: str) -> NoReturn:
        raise AnalysisError(f"{message}; --help lists the arguments")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; raises `AnalysisError` if it is wrong."""
    parser = Parser(
        prog="analyze.py", description="Compare the arms of one or more sweeps, and give a verdict."
    )
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="SWEEP",
        help="sweeps, or folders of sweeps, which are pooled; the newest in ./multirun if none",
    )
    parser.add_argument(
        "--baseline", metavar="NAME", help="the arm to compare with, whatever the records say"
    )
    parser.add_argument(
        "--alpha", type=_level, default=0.05, help="level of all comparisons together (0.05)"
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="judge what is there, though planned runs are missing",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where report.json goes (SWEEP/report)"
    )
    return parser.parse_args(arguments)


def analyze(arguments: Sequence[str]) -> None:
    """The whole analysis; raises `AnalysisError` for what the user can put right."""
    asked = parse(arguments)
    paths = asked.paths or [newest_sweep(SWEEPS)]
    found = gather(paths)
    arms = group(found.runs)

    from analysis import report, terminal  # these take a while to import
    from analysis.audits import Rules
    from analysis.compare import compare, match
    from analysis.verdict import judge

    try:
        pairs, absent = match(arms, found.planned, asked.baseline)
    except AnalysisError:
        terminal.show_arms(arms)
        raise
    comparisons = compare(pairs, found, asked.alpha)
    judged = judge(comparisons, Rules(asked.alpha, asked.partial))

    named = [] if asked.paths else [str(path) for path in paths]
    command = shlex.join(["python", "analyze.py", *arguments, *named])
    path = report.write(
        report.build(judged, absent, command), asked.out or common(paths) / "report"
    )
    terminal.show(judged, absent)
    print(printable(f"report: {path}"))


def common(paths: Sequence[Path]) -> Path:
    """The one path, or the closest folder that holds all of them."""
    if len(paths) == 1:
        return paths[0]
    return Path(os.path.commonpath([path.resolve() for path in paths]))


def main(arguments: Sequence[str]) -> int:
    """Run the analysis; the exit status: 2 for what the user can put right."""
    try:
        analyze(arguments)
        sys.stdout.flush()
    except AnalysisError as error:
        print(printable(f"analyze.py: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as head, has gone: so is all of stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _level(text: str) -> float:
    try:
        level = float(text)
    except ValueError:
        level = -1.0
    if not 0 < level <= 0.5:
        raise argparse.ArgumentTypeError(f"{text} is no level: a number above 0, at most 0.5")
    return level


if __name__ == "__main__":
    gc.disable()  # what is read lives to the end: looking for garbage would take the longest
    sys.exit(main(sys.argv[1:]))
