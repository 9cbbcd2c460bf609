"""Write the README's results table from the reports beside this file.

python results/tables.py          rewrite README.md between its two markers
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    low, high = said["ci"]
    flags = [a["code"] for a in bench["audits"] if a["severity"] != "note"]
    cells = [
        f"[{name}](results/{name}.json)",
        bench["track"],
        f"{said['idea']} vs {said['baseline']}",
        f"{idea['best_cfg']['lr']:g} vs {baseline['best_cfg']['lr']:g}",
        f"{idea['mean']:.4f} ± {idea['std']:.4f} vs "
        f"{baseline['full']['mean']:.4f} ± {baseline['full']['std']:.4f}",
        f"{said['delta_mean']:+.4f} [{low:+.4f}, {high:+.4f}]",
        f"{said['p_holm']:.4g}",
        f"{said['idea_wins']}/{said['ties']}/{said['idea_losses']}",
        "–" if said["mde"] is None else f"{said['mde']:.4f} ({said['mde_rel_pct']:.1f} %)",
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
