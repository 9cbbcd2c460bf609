"""How numbers, seeds and runs are written wherever a person reads them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Context, Decimal

from records.identity import Value
from records.record import PlannedRun

NAMED = 5  # things that one sentence names before it counts the rest
NONE = "–"


def number(value: float | None, digits: int = 4) -> str:
    """`value` to so many significant digits; a dash where there is none."""
    return NONE if value is None else f"{value:.{digits}g}"


def rounded_up(value: float, digits: int = 3) -> str:
    """`value` to so many significant digits, never below what it is."""
    up = Context(digits, ROUND_CEILING).create_decimal(Decimal(repr(value)))
    return f"{float(up):.{digits}g}"


def how_many(count: int, thing: str) -> str:
    """`1 seed`, `8 seeds`, `2 losses`."""
    if count == 1:
        return f"1 {thing}"
    return f"{count} {thing}{'es' if thing.endswith('s') else 's'}"


def duration(seconds: float) -> str:
    """`3 h 20 min`, `12 min`, `40 s`; a dash where it is no number."""
    if not math.isfinite(seconds):
        return NONE
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def interval(ci: tuple[float, float] | None) -> str:
    """`[low, high]`; a dash where there is none."""
    return NONE if ci is None else f"[{number(ci[0])}, {number(ci[1])}]"


def level(alpha: float) -> str:
    """The confidence 1 − alpha: `95 %`, `98.33 %`, to three digits of alpha."""
    digits = 2 - math.floor(math.log10(100 * alpha))
    return f"{round(100 * (1 - alpha), digits):.15g} %"


def intervals(
    *,
    signflip: tuple[float, float] | None,
    family: tuple[float, float] | None,
    t: tuple[float, float] | None,
    alpha: float,
    comparisons: int,
    pairs: int,
) -> str:
    """The interval that belongs to the deciding test, and the family's; else Student's, so named.

    Args:
        signflip: the sign-flip interval at 1 − alpha.
        family: that at 1 − alpha/comparisons, where there are several.
        t: Student's t interval at 1 − alpha.
    """
    if signflip is None:
        none = f"no sign-flip interval from {how_many(pairs, 'pair')}"
        return none if t is None else f"{level(alpha)} t interval {interval(t)} ({none})"
    told = f"{level(alpha)} sign-flip interval {interval(signflip)}"
    if comparisons == 1:
        return told
    return (
        f"{told}; {level(alpha / comparisons)}, for a family of {comparisons}: {interval(family)}"
    )


def counted(codes: Iterable[str]) -> str:
    """`grid_edge × 2, few_seeds`."""
    return ", ".join(code if n == 1 else f"{code} × {n}" for code, n in Counter(codes).items())


def weakened_by(raised: Iterable[tuple[str, str]]) -> str:
    """What takes from a verdict, by name: `2 warnings: grid_edge × 2; 1 note: fixed_data`.

    Args:
        raised: severity and code of every audit.
    """
    by_severity = {"void": list[str](), "warning": list[str](), "note": list[str]()}
    for severity, code in raised:
        by_severity[severity].append(code)
    told = [
        f"{how_many(len(codes), severity)}: {counted(codes)}"
        for severity, codes in by_severity.items()
        if codes
    ]
    return "; ".join(told) or "nothing: no warning, no note"


def seed_list(seeds: Iterable[int]) -> str:
    """`0–3, 7`; a dash where there is none."""
    spans: list[list[int]] = []
    for seed in sorted(seeds):
        if spans and seed == spans[-1][1] + 1:
            spans[-1][1] = seed
        else:
            spans.append([seed, seed])
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in spans) or NONE


def setting(value: Value) -> str:
    """A value of a tunable key: `0.003`, `muon`."""
    return value if isinstance(value, str) else f"{value:.12g}"


def hyper_text(hyper: Mapping[str, Value]) -> str:
    """`lr=0.003 gamma=1`."""
    return " ".join(f"{key}={setting(value)}" for key, value in hyper.items())


def run_text(run: PlannedRun) -> str:
    """`idea seed=3 lr=0.003 gamma=1`."""
    return f"{run.variant} seed={run.seed} {hyper_text(run.hyper)}"


def some(things: Iterable[str]) -> str:
    """The first few, and how many more there are."""
    names = list(things)
    rest = len(names) - NAMED
    return "; ".join(names[:NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def printable(text: str) -> str:
    """`text` on one line, without characters that could steer a terminal: files can hold any."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
