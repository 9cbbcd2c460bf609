"""Write the README's tables from the files beside this one.

python results/tables.py          rewrite README.md between its markers
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from analysis.text import intervals, number, weakened_by

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"


def line(*cells: str) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |\n"


def head(*headings: str) -> str:
    """The first two rows."""
    return line(*headings) + "|---" * len(headings) + "|\n"


def reports() -> dict[str, list[dict[str, Any]]]:
    """Report → its comparisons, in the order of the files' names."""
    whole = {path.stem: json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))}
    return {name: each["comparisons"] for name, each in whole.items() if "comparisons" in each}


def numbers(said: dict[str, Any]) -> list[str]:
    """Difference with its interval, p, wins and MDE of a comparison."""
    interval = intervals(
        signflip=said["ci_signflip"],
        family=said["ci_signflip_family"],
        t=said["ci"],
        alpha=said["alpha"],
        comparisons=said["family_size"],
        pairs=said["n_pairs"],
    )
    return [
        f"{number(said['delta_mean'], 3)}, {interval}",
        number(said["p_holm"]),
        f"{said['idea_wins']}/{said['ties']}/{said['idea_losses']}",
        f"{number(said['mde'], 3)} ({number(said['mde_rel_pct'], 3)} %)",
    ]


def verdict(comparison: dict[str, Any]) -> str:
    """The verdict, and what weakens it."""
    bench = comparison["bench_report"]
    raised = weakened_by((audit["severity"], audit["code"]) for audit in bench["audits"])
    return f"**{bench['comparison']['verdict']}**; weakened by {raised}"


def result(name: str, comparison: dict[str, Any]) -> str:
    """One comparison of a report."""
    bench = comparison["bench_report"]
    said, baseline, idea = bench["comparison"], bench["baseline"], bench["idea"]
    signature, full = bench["mechanism_signature"], baseline["full"]
    return line(
        f"[{name}](results/{name}.json)",
        bench["track"],
        f"{said['idea']} vs {said['baseline']}",
        f"{idea['best_cfg']['lr']:g} vs {baseline['best_cfg']['lr']:g}",
        f"{number(idea['mean'])} ± {number(idea['std'], 2)} vs "
        f"{number(full['mean'])} ± {number(full['std'], 2)}",
        *numbers(said),
        f"{signature['n_confirmed']} of {signature['n_models']}"
        if signature["prediction"]
        else "none predicted",
        verdict(comparison),
    )


def results() -> str:
    """All comparisons but those of the bench with itself."""
    return head(
        "report", "track", "idea vs baseline", "best lr", "test score, mean ± std",
        "difference", "p (Holm)", "w/t/l", "MDE", "signature", "verdict",
    ) + "".join(
        result(name, comparison)
        for name, comparisons in reports().items()
        for comparison in comparisons
        if name != "aa"
    )  # fmt: skip


def same_against_itself() -> str:
    """The baseline against its own copy, track by track."""
    return head("track", "difference", "p (Holm)", "w/t/l", "MDE", "verdict") + "".join(
        line(
            comparison["bench_report"]["track"],
            *numbers(comparison["bench_report"]["comparison"]),
            verdict(comparison),
        )
        for comparison in reports()["aa"]
    )


def calibration() -> str:
    """How often the statistics err, at about 8 seeds; the file has more."""
    rows = json.loads((HERE / "calibration.json").read_text())["rows"]
    rows = [row for row in rows if row["n"] in (8, 9, 14) or row["what"].startswith("power")]
    return head("what", "seeds", "setting", "measured", "expected") + "".join(
        line(
            row["what"],
            str(row["n"]),
            row["setting"],
            f"{row['measured']:.3f} ± {row['standard_error']:.3f}",
            row["expected"],
        )
        for row in rows
    )


SECTIONS: dict[str, Callable[[], str]] = {
    "results": results,
    "aa": same_against_itself,
    "calibration": calibration,
}


def written(readme: str) -> str:
    """The README with today's tables between their markers."""
    for name, table in SECTIONS.items():
        begin, end = f"<!-- {name}: make results -->\n", f"<!-- /{name} -->"
        before, begun, rest = readme.partition(begin)
        _, ended, after = rest.partition(end)
        if not (begun and ended):
            raise SystemExit(f"README.md has no place for a table: {begin.strip()} … {end}")
        readme = f"{before}{begin}{table()}{end}{after}"
    return readme


if __name__ == "__main__":
    README.write_text(written(README.read_text()))
