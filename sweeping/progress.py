"""How far a sweep is: a bar on a terminal, else a line per tenth of the runs; a design's stages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from analysis.judge.design import Course, in_words
from analysis.text import how_many
from records.files import RECORD


class Ended(Protocol):
    """A run that ended: where, and with which error."""

    directory: Path
    error: str | None


@contextmanager
def told(console: Console, runs: Sequence[Ended]) -> Iterator[Callable[[Ended], None]]:
    """Tells of every run that it is called with: done, failed, time to go, best validation score.

    No test score is shown, for nobody is to choose by one.
    """
    began, ended = time.monotonic(), list[Ended]()
    best: dict[str, float] = {}  # arm and track → best validation score

    def note(run: Ended) -> str:
        """Take one more run in; what there is to say beside its count."""
        ended.append(run)
        if run.error is None:
            _improve(best, run.directory)
        failed = sum(each.error is not None for each in ended)
        said = [f"{failed} failed"] if failed else []
        scores = [f"{arm} {score:.4g}" for arm, score in sorted(best.items())]
        if scores:
            said.append(f"best validation so far: {', '.join(scores)}")
        return "; ".join(said)

    def line(run: Ended) -> None:
        said = note(run)
        if len(ended) * 10 // len(runs) > (len(ended) - 1) * 10 // len(runs):
            passed = time.monotonic() - began
            left = passed / len(ended) * (len(runs) - len(ended))
            text = f"{len(ended)} of {len(runs)} runs, {passed:.0f} s, {left:.0f} s to go"
            console.print(f"{text}; {said}" if said else text, soft_wrap=True, markup=False)

    if not console.is_terminal:
        yield line
        return

    with Progress(
        TextColumn("runs"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}", markup=False),
        console=console,
    ) as progress:
        bar = progress.add_task("", total=len(runs), said="")
        yield lambda run: progress.update(bar, advance=1, said=note(run))


def _improve(best: dict[str, float], directory: Path) -> None:
    """Take in the validation score of a finished run."""
    record = json.loads((directory / RECORD).read_text())
    score, better = record["scores"]["validation"], record["metric"]["direction"]
    if score is not None:
        arm = f"{record['variant']} on {record['track']}"
        best[arm] = (min if better == "min" else max)(score, best.get(arm, score))


def tell_stage(made: Course, new: int) -> None:
    """Say which stage a design is at, and how many runs may still come.

    Args:
        new: runs of the last batch that are to be trained now.
    """
    grow = "" if made.chosen else ", and more where a grid grows"
    left = f"{how_many(new, 'run')} now, then at most {made.most_left()} more{grow}"
    _say(f"{made.batches[-1].why}: {left}")


def tell_rule(made: Course) -> None:
    """Say which looks are left out, and why."""
    for track in made.rule.tracks:
        if out := [n for n in made.rule.looks if n not in made.looks(track)]:
            ideas = len(made.rule.family_of(track))
            _say(
                f"{track}: no look at {' or '.join(map(str, out))} pairs, of which so few could "
                f"decide nothing among {how_many(ideas, 'comparison')}"
            )


def tell_end(made: Course) -> None:
    """Say where each comparison ended."""
    for compared, stop in made.stops.items():
        _say(f"{in_words(compared, made.rule)} ended at {how_many(stop.pairs, 'pair')}: {stop.why}")


def _say(text: str) -> None:
    Console(stderr=True).print(Text(text, style="bold"), soft_wrap=True)
