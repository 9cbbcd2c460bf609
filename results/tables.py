"""Write the README's results table from the reports beside this file.

python results/tables.py          rewrite README.md between its two markers
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from analysis.text import interval, number

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- results: make results -->", "<!-- /results -->"
HEAD = (
    "| report | track | idea vs baseline | best lr | test score, mean ± std | difference [95 %] "
    "| p (Holm) | w/t/l | MDE | signature | verdict |\n" + "|---" * 11 + "|\n"
)


def row(name: str, comparison: dict[str, Any]) -> str:
    """One comparison of a report as a line of the table."""
    bench = comparison["bench_report"]
    said, baseline, idea = bench["comparison"], bench["baseline"], bench["idea"]
    signature = bench["mechanism_signature"]
    flags = {a["code"]: None for a in bench["audits"] if a["severity"] != "note"}
    full = baseline["full"]
    cells = [
        f"[{name}](results/{name}.json)",
        bench["track"],
        f"{said['idea']} vs {said['baseline']}",
        f"{idea['best_cfg']['lr']:g} vs {baseline['best_cfg']['lr']:g}",
        f"{number(idea['mean'])} ± {number(idea['std'], 2)} vs "
        f"{number(full['mean'])} ± {number(full['std'], 2)}",
        f"{number(said['delta_mean'], 3)} {interval(said['ci'])}",
        number(said["p_holm"]),
        f"{said['idea_wins']}/{said['ties']}/{said['idea_losses']}",
        f"{number(said['mde'], 3)} ({number(said['mde_rel_pct'], 3)} %)",
        f"{signature['n_confirmed']} of {signature['n_models']}"
        if signature["prediction"]
        else "none predicted",
        f"**{said['verdict']}**, confidence {comparison['confidence']}"
        + (f"; {', '.join(flags)}" if flags else ""),
    ]
    return f"| {' | '.join(cells)} |\n"


def table() -> str:
    """All comparisons of all reports, in the order of the files' names."""
    rows = [
        row(path.stem, comparison)
        for path in sorted(HERE.glob("*.json"))
        for comparison in json.loads(path.read_text())["comparisons"]
    ]
    return HEAD + "".join(rows)


def written(readme: str) -> str:
    """The README with today's table between its markers."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}{END}{after}"


if __name__ == "__main__":
    README.write_text(written(README.read_text()))
