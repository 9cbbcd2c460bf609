"""The verdict on the terminal. Names come from files, so they are shown as plain text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.errors import AnalysisError
from analysis.judge.audits.audit import Audit
from analysis.judge.compare import Comparison, Side
from analysis.judge.earlier import Rejudged
from analysis.judge.planning import Option, Plan
from analysis.judge.select import Arm, Selection, select
from analysis.judge.statistics import POWER, mean_std
from analysis.judge.verdict import Judged
from analysis.tell.prose import (
    by_budget,
    expected_phrase,
    further_interval,
    noise_phrase,
    shown_intervals,
    signature_phrase,
)
from analysis.tell.report import by_length, mean_of, secondary
from analysis.text import (
    NONE,
    duration,
    how_many,
    hyper_text,
    number,
    printable,
    seed_list,
    some,
    weakened_by,
)

MOST_PAIRS = 20  # of a comparison that are shown
PLOT = 7  # characters on either side of 0
MOST = 20  # comparisons that are shown in full: nobody reads more, and they take a while
SEVERITY_STYLE = {"void": "bold red", "warning": "yellow", "note": "cyan"}


def plain(text: object, style: str = "") -> Text:
    """Text that is shown as it stands, whatever a file put into it."""
    return Text(printable(str(text)), style=style)


def only(judged: Sequence[Judged], name: str | None) -> list[Judged]:
    """The comparisons of an idea or a track; all if `name` is None.

    Raises:
        AnalysisError: there is none.
    """
    shown = [j for j in judged if name in (None, j.comparison.idea.name, j.comparison.track)]
    if not shown:
        names = {n: None for j in judged for n in (j.comparison.track, j.comparison.idea.name)}
        raise AnalysisError(f"--only {name}: no such idea or track; there are {', '.join(names)}")
    return shown


def show(judged: Sequence[Judged], absent: Iterable[str], hidden: int) -> None:
    """Print every comparison, track by track: the arms, the numbers, the audits.

    Of more than `MOST`, one line each. `hidden`: how many more there are in the family.
    """
    console = Console(highlight=False)
    in_full = judged if len(judged) <= MOST else ()
    for _, found in groupby(in_full, key=lambda each: each.comparison.place):
        comparisons = list(found)
        _show_track(console, comparisons)
        for each in comparisons:
            _show_comparison(console, each, titled=len(comparisons) > 1)
    if len(judged) > 1:
        console.print(_summary(judged))
    if not in_full:
        console.print(plain("Arms, numbers and audits are in the report; --only NAME shows them."))
    if hidden:
        console.print(
            plain(f"The report and the families hold {how_many(hidden, 'more comparison')}.")
        )
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


def _show_track(console: Console, judged: Sequence[Judged]) -> None:
    """The arms of one track."""
    first = judged[0].comparison
    ideas = f"{first.idea.name} against " if len(judged) == 1 else f"{len(judged)} ideas against "
    against = ", ".join(dict.fromkeys(each.comparison.baseline.name for each in judged))
    table = _arms_table(
        f"{first.place}: {ideas}{against} ({first.metric.name}, {first.metric.better})",
        first.metric.name,
    )
    seen: set[object] = set()  # a baseline stands in several comparisons, mostly with the same runs
    sides = [side for each in judged for side in each.comparison.sides]
    for side in sides:
        key = (side.name, side.selection.best.key, side.selection.compared, side.scores.tobytes())
        if key not in seen:
            _add_arm(table, side.name, side.selection, side.scores)
        seen.add(key)
    console.print(table)
    if beside := _secondary_table(sides):
        console.print(beside)
    if first.length == 1 and (curves := _curves(first.metric.name, sides)):
        console.print(curves)


def _show_comparison(console: Console, judged: Judged, titled: bool) -> None:
    comparison, effect = judged.comparison, judged.comparison.effect
    count, level = effect.counts, f"{number(effect.mde_rel_pct, 3)} % of the baseline's mean"
    difference = number(effect.delta_mean)
    if effect.delta_mean is not None:
        difference += f", {shown_intervals(comparison)}"
    numbers = Table.grid(padding=(0, 2))
    rows: list[tuple[str, str | Table]] = [
        ("difference", difference),
        ("p", f"{number(judged.p_value)}; Holm over {comparison.family_size}: "
              f"{number(judged.p_holm)}; level {judged.alpha:g}; smallest "
              f"{number(effect.p_min)}"),
        *looks_rows(judged),
        ("pairs", f"{len(comparison.seeds)}, seeds {seed_list(comparison.seeds)}"),
        ("", _pairs(comparison)),
        ("wins/ties/losses", f"{count.wins}/{count.ties}/{count.losses}"),
        ("noise", noise_phrase(comparison)),
        ("MDE", NONE if effect.mde is None else f"{number(effect.mde)}, {level}"),
        *(
            (split, f"{number(each.delta_mean)}, {further_interval(comparison, each)}; p "
             f"{number(None if judged.is_void else each.p_value)}, not corrected; decides nothing")
            for split, each in comparison.further_splits.items()
        ),
        *([("by budget", by_budget(comparison.budgets))] if comparison.budgets else []),
        *([("expected", told)] if (told := expected_phrase(judged)) else []),
        ("signature", signature_phrase(judged)),
        ("weakened by", weakened_by((each.severity, each.code) for each in judged.audits)),
    ]  # fmt: skip
    if titled:
        rows.insert(0, ("comparison", f"{comparison.idea.name} against {comparison.baseline.name}"))
    for label, value in rows:
        cell = value if isinstance(value, Table) else plain(value)
        numbers.add_row(plain(f"  {label}"), cell)
    numbers.add_row(plain("  verdict"), plain(judged.verdict, "bold"))
    numbers.add_row()
    _add_audits(numbers, judged.audits)
    console.print(numbers)


def looks_rows(judged: Judged) -> list[tuple[str, str]]:
    """What a tuned design's looks showed; nothing of a design without looks."""
    design, effect = judged.comparison.design, judged.comparison.effect
    if design is None:
        return []
    # in a family a smaller one may, once others are decided
    alone = " alone" if judged.comparison.family_size > 1 else ""
    made = [
        f"{look.pairs} pairs: |difference| ≥ {number(look.boundary)} decides{alone}"
        + ("" if judged.is_void else f", p {number(look.p)}")
        for look in effect.looks
    ]
    stop = judged.comparison.stop
    ended = f"stopped at {stop.pairs} pairs: {stop.why}" if stop else "under way"
    return [
        ("looks", "; ".join([*made, ended])),
        (
            "without bias",
            f"{number(effect.median_unbiased)} (median-unbiased): the mean of a path that may stop "
            f"early is too far from 0 on average",
        ),
    ]


def _pairs(comparison: Comparison) -> Table:
    """A row for each pair: seed, both scores, the difference, and a mark left or right of 0.

    Of more than `MOST_PAIRS`, those that differ most.
    """
    d = comparison.effect.d
    size = np.where(np.isfinite(d), np.abs(d), np.inf)
    shown = sorted(np.argsort(-size, kind="stable")[:MOST_PAIRS].tolist())
    largest = float(size[np.isfinite(size)].max(initial=0.0)) or 1.0
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("seed", justify="right", no_wrap=True)
    for heading in (comparison.baseline.name, comparison.idea.name, "difference"):
        table.add_column(plain(heading), justify="right", overflow="fold", width=10)
    table.add_column(plain(f"{'-':<{PLOT}} {'+':>{PLOT}}"), no_wrap=True)
    scores = [side.scores.tolist() for side in comparison.sides]
    for i in shown:
        line = [" "] * PLOT + ["|"] + [" "] * PLOT
        values = [each[i] for each in (*scores, d.tolist())]
        if math.isfinite(values[-1]):
            line[PLOT + round(PLOT * values[-1] / largest)] = "o"
        cells = [number(value) if math.isfinite(value) else NONE for value in values]
        table.add_row(str(comparison.seeds[i]), *cells, "".join(line))
    if rest := len(d) - len(shown):
        table.add_row("", "", "", plain(f"{rest} more, nearer 0"), "")
    return table


def _add_audits(numbers: Table, audits: Iterable[Audit]) -> None:
    for raised in audits:
        severity = plain(f"  {raised.severity}", SEVERITY_STYLE[raised.severity])
        numbers.add_row(severity, plain(f"{raised.code}: {raised.message} {raised.advice}"))


def _summary(judged: Sequence[Judged]) -> Table:
    """One line for every comparison."""
    table = Table(title=plain("all comparisons", "bold"), title_justify="left", box=SIMPLE)
    for heading in ("track", "idea", "baseline"):
        table.add_column(heading, overflow="fold")
    for heading in ("difference", "p (Holm)"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    is_expected = any(each.as_expected for each in judged)
    if is_expected:
        table.add_column("published", overflow="fold")
    for each in judged:
        comparison = each.comparison
        table.add_row(
            plain(comparison.place),
            plain(comparison.idea.name),
            plain(comparison.baseline.name),
            number(comparison.effect.delta_mean),
            number(each.p_holm),
            plain(each.verdict),
            *([_published(each)] if is_expected else []),
        )
    return table


def _published(judged: Judged) -> Text:
    """`worse: found`; empty where nothing was said."""
    expected = judged.comparison.expected
    return plain(f"{expected.verdict}: {judged.as_expected}" if expected else "")


def show_rejudged(rejudged: Sequence[Rejudged]) -> None:
    """Print what a report says beside what its scores say."""
    console = Console(highlight=False)
    for each in rejudged:
        table = Table(title=plain(each.title, "bold"), title_justify="left", box=SIMPLE)
        for heading in ("", "the report says", "its scores say"):
            table.add_column(heading, overflow="fold")
        for key, values in each.then_and_now.items():
            table.add_row(plain(key), *(plain(_cell(value)) for value in values))
        console.print(table)
        audits = Table.grid(padding=(0, 2))
        _add_audits(audits, each.audits)
        console.print(audits)


def _cell(value: object) -> str:
    if value is None:
        return NONE
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_cell, value))}]"
    return number(value, 8) if isinstance(value, float) else str(value)


def show_plan(plans: Sequence[Plan], unreadable: Sequence[str]) -> None:
    """Print what an effect would take, and what smaller sweeps could find.

    `unreadable`: files of the pilot that could not be used.
    """
    console = Console(highlight=False)
    if unreadable:
        console.print(plain(f"files that could not be used: {some(unreadable)}", "yellow"))
    for plan in plans:
        share = f"{100 * plan.effect / plan.level:.3g} % of the baseline's mean"
        facts = Table.grid(padding=(0, 2))
        for label, value in (
            ("effect", f"{number(plan.effect)}, {share}"),
            ("to be found", f"with power {POWER:g} at level {plan.alpha:g}/{plan.comparisons}"),
            ("pilot", f"standard deviation {number(plan.sd)}, from {plan.basis}"),
            ("needs", _option(plan.needed)),
            (
                "to be safe",
                f"{_option(plan.needed_upper)}, if the standard deviation is "
                f"{number(plan.sd_upper)}, the upper 80 % limit of so small a pilot",
            ),
        ):
            facts.add_row(plain(f"  {label}"), plain(value))
        table = Table(box=SIMPLE)
        for heading in ("seeds", "MDE", "% of the mean", "runs", "training time"):
            table.add_column(heading, justify="right")
        for option in plan.options:
            rel = None if option.mde is None else 100 * option.mde / plan.level
            table.add_row(
                str(option.seeds),
                "never" if option.mde is None else number(option.mde),
                number(rel, 3),
                str(option.runs),
                duration(option.seconds),
            )
        console.print(plain(plan.title, "bold"), facts, table, _purchases(plan))
        if plan.only_seeds:
            console.print(plain(f"  no test examples can be bought: {plan.only_seeds}"))
    console.print(
        plain(
            "MDE: the smallest effect found with that power; never: no outcome of that many seeds "
            "could be significant. Runs of both arms over the pilot's grid; training time one run "
            "after the other, to be divided by the runs side by side; scoring: of the test split, "
            "left out of the order where it is not recorded."
        )
    )


def _purchases(plan: Plan) -> Table:
    """The ways to find the effect, cheapest first."""
    table = Table(
        box=SIMPLE, title=plain("to find the effect, cheapest first"), title_justify="left"
    )
    for heading in ("budget", "test examples", "sd", "seeds", "runs", "training", "scoring"):
        table.add_column(heading, justify="right")
    for each in plan.purchases:
        table.add_row(
            f"× {each.budget:g}",
            "the pilot's" if each.examples is None else str(each.examples),
            number(each.sd, 2),
            str(each.option.seeds),
            str(each.option.runs),
            duration(each.option.seconds),
            duration(each.scoring),
        )
    return table


def _option(option: Option | str) -> str:
    if isinstance(option, str):
        return option
    counts = f"{how_many(option.seeds, 'seed')}, {how_many(option.runs, 'run')}"
    return f"{counts}, {duration(option.seconds)} of training"


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
    swept = [key for key in best.hyper if len({c.hyper.get(key) for c in chosen.candidates}) > 1]
    table.add_row(
        plain(name),
        Text("\n").join(plain(hyper_text({key: best.hyper[key]})) for key in swept or best.hyper),
        f"{number(mean)} ± {number(std, 2)}",
        number(mean_std(best.validation)[0]),
        str(len(chosen.candidates)),
        number(mean_of(run.record.cost.parameters for run in best.runs.values()), 7),
    )


def _curves(metric: str, sides: Sequence[Side]) -> Table | None:
    """Every arm's score on further test splits, such as longer contexts; None without any."""
    by_arm = {side.name: side.paired for side in sides}
    splits = {split for runs in by_arm.values() for run in runs for split in run.scores(metric)}
    further = sorted(splits - {"validation", "test"}, key=by_length)
    if not further:
        return None
    table = Table(box=SIMPLE)
    table.add_column(plain(f"{metric} by test split"))
    for split in ("test", *further):
        table.add_column(plain(split), justify="right", overflow="fold")
    for arm, runs in by_arm.items():
        means = (mean_of(run.scores(metric).get(split) for run in runs) for split in
                 ("test", *further))  # fmt: skip
        table.add_row(plain(arm), *(number(mean) for mean in means))
    return table


def _secondary_table(sides: Sequence[Side]) -> Table | None:
    """Secondary scores on the test split that is compared, and references; they decide nothing."""
    by_arm = {side.name: side.paired for side in sides}
    names = sorted({name for runs in by_arm.values() for r in runs for name in r.record.secondary})
    if not names:
        return None
    table = Table(box=SIMPLE)
    split = next((run.split for runs in by_arm.values() for run in runs), "test")
    table.add_column(plain(f"beside it, on {split}"))
    for name in names:
        table.add_column(plain(name), justify="right", overflow="fold")
    for arm, runs in by_arm.items():
        means = (mean_of(secondary(run, name, split) for run in runs) for name in names)
        table.add_row(plain(arm), *(number(mean) for mean in means))
    return table
