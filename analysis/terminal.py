"""The verdict on the terminal. Names come from files, so they are shown as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numpy.typing import ArrayLike
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.compare import Side
from analysis.prose import signature_phrase
from analysis.report import mean_of, secondary
from analysis.select import Arm, Selection, select
from analysis.statistics import mean_std
from analysis.text import NONE, hyper_text, interval, number, printable, seed_list
from analysis.verdict import Judged

SEVERITY_STYLE = {"void": "bold red", "warning": "yellow", "note": "cyan"}


def plain(text: object, style: str = "") -> Text:
    """Text that is shown as it stands, whatever a file put into it."""
    return Text(printable(str(text)), style=style)


def show(judged: Sequence[Judged], absent: Iterable[str]) -> None:
    """Print every comparison: its arms, its numbers, its audits."""
    console = Console(highlight=False)
    for each in judged:
        _show_comparison(console, each)
    for sentence in absent:
        console.print(plain(sentence, "yellow"))


def show_arms(arms: Mapping[tuple[str, str], Arm]) -> None:
    """Print what was found when nothing can be compared; each arm is selected by itself."""
    console = Console(highlight=False)
    table = _arms_table("arms found", "score")
    for arm in arms.values():
        chosen = select(arm, arm.seeds, arm.runs[0].record.metric.direction)
        scores = [run.test for run in chosen.best.runs.values()]
        _add_arm(table, f"{arm.variant} on {arm.track}", chosen, scores)
    console.print(table)


def _show_comparison(console: Console, judged: Judged) -> None:
    comparison, effect = judged.comparison, judged.comparison.effect
    arms = _arms_table(
        f"{comparison.track}: {comparison.idea.name} against {comparison.baseline.name} "
        f"({comparison.metric.name}, {comparison.metric.better})",
        comparison.metric.name,
    )
    for side in comparison.sides:
        _add_arm(arms, side.name, side.selection, side.scores)
    console.print(arms)
    if beside := _secondary_table(comparison.sides):
        console.print(beside)

    count = effect.counts
    numbers = Table.grid(padding=(0, 2))
    for label, value in (
        ("difference", f"{number(effect.delta_mean)}, 95 % interval {interval(effect.ci)}"),
        ("p", f"{number(judged.p_value)}; Holm over {comparison.family_size}: "
              f"{number(judged.p_holm)}; smallest possible: {number(effect.p_min)}"),
        ("pairs", f"{len(comparison.seeds)}, seeds {seed_list(comparison.seeds)}"),
        ("wins/ties/losses", f"{count.wins}/{count.ties}/{count.losses}"),
        ("MDE", f"{number(effect.mde)}, {number(effect.mde_rel_pct, 3)} % of the baseline's mean"
                if effect.mde is not None else NONE),
        ("signature", signature_phrase(judged)),
        ("confidence", f"{judged.confidence} of 10"),
    ):  # fmt: skip
        numbers.add_row(plain(f"  {label}"), plain(value))
    numbers.add_row(plain("  verdict"), plain(judged.verdict, "bold"))
    numbers.add_row()
    for raised in judged.audits:
        severity = plain(f"  {raised.severity}", SEVERITY_STYLE[raised.severity])
        numbers.add_row(severity, plain(f"{raised.code}: {raised.message} {raised.advice}"))
    console.print(numbers)


def _arms_table(title: str, metric: str) -> Table:
    table = Table(
        title=plain(title, "bold"),
        title_justify="left",
        box=SIMPLE,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in ("arm", "best hyper"):
        table.add_column(heading, overflow="fold")  # a name is shown whole
    for heading in (f"test {metric} ± std", "validation", "tried", "params"):
        table.add_column(plain(heading), justify="right", no_wrap=True)
    return table


def _add_arm(table: Table, name: str, chosen: Selection, scores: ArrayLike) -> None:
    mean, std = mean_std(scores)
    best = chosen.best
    swept = [
        key for key in best.config if len({dict(c.hyper).get(key) for c in chosen.candidates}) > 1
    ]
    table.add_row(
        plain(name),
        Text("\n").join(plain(hyper_text({key: best.config[key]})) for key in swept or best.config),
        f"{number(mean)} ± {number(std, 2)}",
        number(mean_std(best.validation)[0]),
        str(len(chosen.candidates)),
        number(mean_of(run.record.cost.parameters for run in best.runs.values()), 7),
    )


def _secondary_table(sides: Iterable[Side]) -> Table | None:
    """Secondary scores on test, trivial references among them; they decide nothing."""
    baseline, idea = sides
    runs = (*baseline.paired, *idea.paired)
    names = sorted({name for run in runs for name in run.record.secondary})
    if not names:
        return None
    table = Table(box=SIMPLE)
    table.add_column("beside it, on test")
    for side in (baseline, idea):
        table.add_column(plain(side.name), justify="right")
    for name in names:
        means = (
            mean_of(secondary(run, name, "test") for run in side.paired)
            for side in (baseline, idea)
        )
        table.add_row(plain(name), *(number(mean) for mean in means))
    return table
