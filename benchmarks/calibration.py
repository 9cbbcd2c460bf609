"""How often the statistics of `analysis/` err: simulated rates beside what theory says.

    python benchmarks/calibration.py [--simulations 4000] [--seed 0]

Takes eight minutes on one idle core; writes the table that it prints to results/calibration.json.

null rejection      the sign-flip test where there is no effect
power               the sign-flip test at the effect that a report calls detectable
coverage            both intervals of the mean
family-wise error   several ideas against one baseline, with and without Holm
selection           learning rates chosen on the scores that are reported
peeking             a look after every seed, until one look is significant
looks               a tuned design: level, coverage, power and runs beside a fixed one's
budget alarm        how often a decided difference is called one of speed alone
false equivalence   TOST where the difference is as large as the margin

Every row has its own random stream; only rows that compare procedures on the same draws share one.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.box import SIMPLE
from rich.live import Live
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from analysis.judge import sequential, statistics
from analysis.judge.budgets import AtBudget, doublings
from analysis.judge.design import Why, look
from analysis.judge.statistics import Array, Interval, Tuned
from training.seeding import numpy_stream

ALPHA = 0.05
SEEDS, RATES = 8, 5  # of the rows on selection
LOOKS, TUNING, FUTILITY = [8, 12, 16], 3, 0.05  # as conf/design/tuned.yaml has them
RESULT = Path(__file__).resolve().parent.parent / "results" / "calibration.json"

# differences of mean zero, by shape: (generator, size) → array of that size
DIFFERENCES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "normal": lambda generator, size: generator.normal(size=size),
    "Student t, 3 df": lambda generator, size: generator.standard_t(3, size),
    "exponential": lambda generator, size: generator.exponential(size=size) - 1,
}


class Row(NamedTuple):
    """One measured rate; `n` is the number of pairs."""

    what: str
    n: int
    setting: str
    measured: float
    standard_error: float
    simulations: int
    expected: str


def row(what: str, n: int, setting: str, hits: Sequence[bool], expected: str) -> Row:
    """The share of simulations that hit, with its binomial standard error."""
    share = sum(hits) / len(hits)
    error = math.sqrt(share * (1 - share) / len(hits))
    return Row(what, n, setting, share, round(error, 5), len(hits), expected)


def level(n: int) -> float:
    """What the sign-flip test rejects under symmetry, in theory: the largest even k/2ⁿ ≤ ALPHA."""
    return 2 * math.floor(ALPHA * 2**n / 2) / 2**n


def rejected(d: Array) -> bool:
    """Whether the sign-flip test of `d` (n,) rejects at ALPHA."""
    return statistics.sign_flip_p(d) <= ALPHA


def covers(interval: Interval | None, value: float) -> bool:
    """Whether `value` lies inside; there has to be an interval."""
    assert interval is not None
    return interval[0] <= value <= interval[1]


def null_rejection(n: int, simulations: int, seed: int) -> Iterator[Row]:
    """The sign-flip test holds its level where differences are symmetric, and only there."""
    what = "null rejection"
    for shape, draw in DIFFERENCES.items():
        d = draw(numpy_stream(seed, what, str(n), shape), (simulations, n))
        hits = [rejected(each) for each in d]
        skewed = shape == "exponential"
        expected = f"> {ALPHA}: not symmetric" if skewed else f"{level(n):.4f} exactly"
        yield row(what, n, shape, hits, expected)


def power(n: int, simulations: int, seed: int) -> Iterator[Row]:
    """A report's MDE is that of a t-test; the sign-flip test of few pairs finds less."""
    what = "power at the MDE"
    dz = statistics.detectable_dz(n, ALPHA)
    assert dz is not None
    d = dz + numpy_stream(seed, what, str(n)).normal(size=(simulations, n))
    hits = [rejected(each) for each in d]
    yield row(what, n, f"normal, d_z {dz:.3f}", hits, f"{statistics.POWER} by a t-test")


def coverage(n: int, simulations: int, seed: int) -> Iterator[Row]:
    """How often the intervals of nominally 95 % hold the true mean, 0, on the same draws."""
    what = "coverage"
    for shape, draw in DIFFERENCES.items():
        d = draw(numpy_stream(seed, what, str(n), shape), (simulations, n))
        for name, interval, expected in (
            ("t", statistics.t_interval, "0.95 if normal"),
            ("sign-flip", statistics.sign_flip_interval, f"{1 - level(n):.4f} if symmetric"),
        ):
            hits = [covers(interval(each, ALPHA), 0.0) for each in d]
            yield row(what, n, f"{shape}, {name} interval", hits, expected)


def family_wise(ideas: int, simulations: int, seed: int) -> Iterator[Row]:
    """Some idea is called significant, of several that equal the one baseline that they share."""
    what = "family-wise error"
    n = max(8, statistics.fewest_pairs(ideas, ALPHA) or 0)
    simulations = 2 * simulations // ideas  # one test for each idea, up to 5 ms each
    # what a seed adds to all arms would cancel in the differences
    scores = numpy_stream(seed, what, str(ideas)).normal(size=(simulations, 1 + ideas, n))
    p_values = [[statistics.sign_flip_p(d) for d in each] for each in scores[:, 1:] - scores[:, :1]]

    adjusted = [statistics.holm(each) for each in p_values]
    found = [any(p is not None and p <= ALPHA for p in each) for each in adjusted]
    yield row(what, n, f"{ideas} ideas, Holm", found, f"≤ {ALPHA}")
    unadjusted = [min(each) <= ALPHA for each in p_values]
    yield row(what, n, f"{ideas} ideas, unadjusted", unadjusted, f"> {ALPHA}: why Holm")


def tuned_scores(name: str, grids: Sequence[int], simulations: int, seed: int) -> list[Array]:
    """Losses of arms between which, as between their learning rates, there is no difference.

    A seed's effect on all of its runs, and noise of each run, both of sd 1.

    Returns:
        For each arm, with a grid of so many rates: (simulations, SEEDS, rates).
    """
    generator = numpy_stream(seed, "selection", name)
    shared = generator.normal(size=(simulations, SEEDS, 1))
    return [shared + generator.normal(size=(simulations, SEEDS, rates)) for rates in grids]


def chosen(test: Array, validation: Array) -> Array:
    """Test scores (SEEDS,) of the rate of the best mean on validation; both (SEEDS, rates)."""
    return test[:, validation.mean(0).argmin()]


def equal_grids(simulations: int, seed: int) -> Iterator[Row]:
    """Both arms choose among equally many rates, on the scores that are then reported."""
    what, grid = "selection", f"{RATES} lrs each"
    arms = list(zip(*tuned_scores("equal", [RATES] * 2, simulations, seed), strict=True))
    plain = [rejected(chosen(idea, idea) - chosen(baseline, baseline)) for baseline, idea in arms]
    yield row(what, SEEDS, f"{grid}, plain p", plain, f"≤ {ALPHA}: both gain alike")
    aware = [
        statistics.selection_aware_p(Tuned(baseline, baseline), Tuned(idea, idea), "min") <= ALPHA
        for baseline, idea in arms
    ]
    yield row(what, SEEDS, f"{grid}, selection-aware p", aware, f"{level(SEEDS):.4f} exactly")


def independent_validation(simulations: int, seed: int) -> Iterator[Row]:
    """Both arms choose on scores that have nothing to do with those reported."""
    arms = tuned_scores("validation", [RATES] * 4, simulations, seed)
    hits = [
        rejected(chosen(idea, idea_validation) - chosen(baseline, baseline_validation))
        for baseline_validation, idea_validation, baseline, idea in zip(*arms, strict=True)
    ]
    setting = f"{RATES} lrs each, chosen on other scores, plain p"
    yield row("selection", SEEDS, setting, hits, f"{level(SEEDS):.4f} exactly")


def unequal_grids(simulations: int, seed: int, rates: int = 9) -> Iterator[Row]:
    """Only the idea is tuned."""
    arms = tuned_scores("unequal", [1, rates], simulations, seed)
    hits = [
        rejected(chosen(idea, idea) - baseline[:, 0]) for baseline, idea in zip(*arms, strict=True)
    ]
    expected = f"> {ALPHA}: why unequal_grid is void"
    yield row("selection", SEEDS, f"{rates} lrs against 1, plain p", hits, expected)


def best_on_every_seed(simulations: int, seed: int) -> Iterator[Row]:
    """Only the idea is tuned, and on every seed anew."""
    arms = tuned_scores("every seed", [1, RATES], simulations, seed)
    hits = [rejected(idea.min(1) - baseline[:, 0]) for baseline, idea in zip(*arms, strict=True)]
    setting = f"best of {RATES} lrs on every seed against 1, plain p"
    yield row("selection", SEEDS, setting, hits, f"> {ALPHA}: why one lr for all seeds")


def peeking(simulations: int, seed: int) -> Iterator[Row]:
    """No effect, but the sweep is stopped as soon as it is significant."""
    first, last = 6, 14
    d = numpy_stream(seed, "peeking").normal(size=(simulations, last))
    hits = [any(rejected(each[:n]) for n in range(first, last + 1)) for each in d]
    expected = f"> {ALPHA}: why an unfinished sweep has no p"
    yield row("peeking", last, f"normal, a look at every n from {first}", hits, expected)


def looked_at(ideas: Array, margin: float = 0.0) -> list[tuple[Why, int]]:
    """A family's paths (ideas, pairs) by the rule of a tuned design: why and when each ended."""
    ended: dict[int, tuple[Why, int]] = {}
    looks = sequential.usable(LOOKS, ALPHA / len(ideas))
    for pairs in looks:
        so_far = [d[: ended[i][1]] if i in ended else d[:pairs] for i, d in enumerate(ideas)]
        for i, why in enumerate(look(so_far, [margin] * len(ideas), looks, ALPHA, FUTILITY)):
            if why and i not in ended:
                ended[i] = why, pairs
    return [ended[i] for i in range(len(ideas))]


def looks_level(ideas: int, better: int, simulations: int, seed: int) -> Iterator[Row]:
    """Ideas that equal the baseline that all share, beside `better` ones of a large effect."""
    generator = numpy_stream(seed, "looks", str(ideas), str(better))
    scores = generator.normal(size=(simulations, 1 + ideas, LOOKS[-1]))
    scores[:, 1 : 1 + better] -= 3.0
    hits = []
    for each in scores:
        ended = looked_at(each[1:] - each[0])
        hits.append(any(why is Why.DECIDED for why, _ in ended[better:]))
    beside = f", {better} of them better" if better else ""
    yield row("looks", LOOKS[-1], f"{ideas} ideas{beside}: false decisions", hits, f"≤ {ALPHA}")


def looks_power(dz: float, simulations: int, seed: int) -> Iterator[Row]:
    """One idea: decided, covered, overshot, and the runs that it took; all on the same draws."""
    what, n = "looks", LOOKS[-1]
    d = dz + numpy_stream(seed, what, str(dz)).normal(size=(simulations, n))
    ended = [looked_at(each[None])[0] for each in d]
    used = [each[:pairs] for each, (_, pairs) in zip(d, ended, strict=True)]
    if dz:
        fixed = [rejected(each) for each in d]
        hits = [why is Why.DECIDED for why, _ in ended]
        expected = f"fixed {n} pairs: {sum(fixed) / len(fixed):.3f}"
        yield row(what, n, f"d_z {dz:g}: power", hits, expected)
    inside = [sequential.sequential_p(each - dz, LOOKS) > ALPHA for each in used]
    yield row(what, n, f"d_z {dz:g}: the repeated interval's coverage", inside, "≥ 0.95")
    means = [float(each.mean()) > dz for each in used]
    expected = "> 0.5: why not it alone" if dz else "0.5"
    yield row(what, n, f"d_z {dz:g}: the plain mean overshoots", means, expected)
    few = used[: max(1, simulations // 4)]
    estimates = [sequential.median_unbiased(each, LOOKS, ALPHA) for each in few]
    over = [estimate is not None and estimate > dz for estimate in estimates]
    yield row(what, n, f"d_z {dz:g}: the median-unbiased estimate overshoots", over, "0.5")
    pairs = np.array([pairs for _, pairs in ended])
    for rates in (3, 5):
        runs = (2 * rates * TUNING + 2 * pairs) / (2 * rates * n)
        yield Row(
            what, n, f"d_z {dz:g}, {rates} lrs: runs, as a share of a fixed design's",
            float(runs.mean()), round(float(runs.std() / math.sqrt(len(runs))), 5), simulations,
            {3: "≤ 0.45", 5: "≤ 0.35"}[rates],
        )  # fmt: skip


def looks_equivalence(simulations: int, seed: int) -> Iterator[Row]:
    """The true difference is the margin; a look may call it equivalent no oftener than α in all."""
    margin = 1.0
    d = margin + numpy_stream(seed, "looks", "margin").normal(size=(simulations, LOOKS[-1]))
    found = [sequential.equivalence(each, LOOKS, margin) for each in d]
    hits = [p is not None and p <= ALPHA for p in found]
    yield row("looks", LOOKS[-1], "at the margin: called equivalent", hits, f"≤ {ALPHA}")


def false_equivalence(margin: float, simulations: int, seed: int) -> Iterator[Row]:
    """The true difference is the margin, in units of the sd: just not equivalent."""
    what, n, setting = "false equivalence", 8, f"normal, margin {margin:g} sd"
    d = margin + numpy_stream(seed, what, setting).normal(size=(simulations, n))
    p_values = [statistics.equivalence_p(each, margin) for each in d]
    yield row(what, n, setting, [p is not None and p <= ALPHA for p in p_values], f"≤ {ALPHA}")


def budget_alarm(
    reported: int,
    tuning: int,
    factors: Sequence[float],
    dz: float,
    effect: str,
    simulations: int,
    seed: int,
    by_looks: bool = False,
) -> Row:
    """How often a decided difference is called budget_sensitive, of those that are decided.

    Differences of sd 1 at every budget, those of one seed at two budgets independent, which is the
    worst case.

    Args:
        reported, tuning: seeds of each kind. The other budgets have the tuning seeds alone, or
            the reported ones where there are none.
        factors: of the other budgets.
        dz: the effect at budgets up to 1, in sd.
        effect: `same` at every budget, or `vanishes` at twice the budget.
        by_looks: whether a tuned design decides, on as many of the reported seeds as it needs.
    """
    n = reported + tuning
    at = np.arange(reported, n) if tuning else np.arange(reported)
    setting = f"effect {effect}, d_z {dz:g}, budgets {factors}, {tuning} tuning seeds"
    setting += ", by looks" if by_looks else ""
    generator = numpy_stream(seed, "budget alarm", setting)
    hits = []
    for draws in generator.normal(size=(simulations, 1 + len(factors), n)):
        whole = draws[0] + dz
        decided = whole[:reported]
        if by_looks:
            [(why, pairs)] = looked_at(decided[None])
            decided = decided[:pairs]
        if why is not Why.DECIDED if by_looks else not rejected(decided):
            continue
        seeds = [*range(decided.size), *range(reported, n)]
        budgets = [AtBudget(1.0, {seed: float(whole[seed]) for seed in seeds})]
        for factor, noise in zip(factors, draws[1:], strict=True):
            level = 0.0 if effect == "vanishes" and factor > 1 else dz
            budgets.append(AtBudget(factor, {int(s): float(noise[s] + level) for s in at}))
        delta, interval = float(decided.mean()), statistics.sign_flip_interval(decided, ALPHA)
        assert interval is not None
        least = delta - interval[0] if delta > 0 else interval[1] - delta
        hits.append(
            any(
                each.is_sensitive(delta, least if each.start == 1 and not tuning else None)
                for each in doublings(budgets)
            )
        )
    expected = f"≤ {ALPHA}" if effect == "same" else "the more, the better"
    return row("budget alarm", reported, setting, hits, expected)


def every_row(simulations: int, seed: int) -> Iterator[Row]:
    """All rows, in the order of the table."""
    for n in (6, 8, 12):
        yield from null_rejection(n, simulations, seed)
    for n in (6, 7, 8, 12, 16):
        yield from power(n, simulations, seed)
    for n in (8, 12):
        yield from coverage(n, simulations, seed)
    for ideas in (2, 5, 10):
        yield from family_wise(ideas, simulations, seed)
    yield from equal_grids(simulations, seed)
    yield from independent_validation(simulations, seed)
    yield from unequal_grids(simulations, seed)
    yield from best_on_every_seed(simulations, seed)
    yield from peeking(simulations, seed)
    for margin in (0.5, 2.0):
        yield from false_equivalence(margin, simulations, seed)
    few = simulations // 5
    for ideas, better in ((1, 0), (2, 0), (2, 1), (5, 0), (5, 3)):
        yield from looks_level(ideas, better, max(1, 2 * few // ideas), seed)
    for dz in (0.0, 0.75, 1.0, 1.5):
        yield from looks_power(dz, few, seed)
    yield from looks_equivalence(few, seed)
    for dz, effect in ((0.5, "same"), (1.0, "same"), (2.0, "vanishes")):
        yield budget_alarm(8, TUNING, (0.5, 2.0), dz, effect, max(simulations // 2, 40), seed)
    yield budget_alarm(LOOKS[-1], TUNING, (0.5,), 0.75, "same", max(few, 8), seed, by_looks=True)


def shown(rows: Iterable[Row]) -> list[Row]:
    """The rows, each put on the terminal as soon as it is there."""
    table = Table("what", "n", "setting", "measured", "expected", box=SIMPLE)
    kept = []
    with Live(table):
        for each in rows:
            kept.append(each)
            measured = f"{each.measured:.4f} ± {each.standard_error:.4f}"
            table.add_row(each.what, str(each.n), each.setting, measured, each.expected)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=4000, help="of most rows")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rows = shown(every_row(asked.simulations, asked.seed))
    result = {
        "command": "python benchmarks/calibration.py"
        f" --simulations {asked.simulations} --seed {asked.seed}",
        "simulations": asked.simulations,
        "seed": asked.seed,
        "alpha": ALPHA,
        "rows": [each._asdict() for each in rows],
    }
    RESULT.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
