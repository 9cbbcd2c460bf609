"""Write the tables of README.md and docs/protocol.md from the files beside this one.

python results/tables.py          rewrite both between their markers
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
ROOT = HERE.parent


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
        if name != "aa" and not name.startswith("known_")
    )  # fmt: skip


def known() -> str:
    """The published orderings, and what was found of each."""
    rows = [
        (name, bench["comparison"], bench)
        for name, comparisons in reports().items()
        for bench in (each["bench_report"] for each in comparisons)
        if bench["comparison"].get("expected")
    ]
    return head(
        "experiment", "times the context", "idea vs baseline", "published", "scores", "exact match",
        "p (Holm)", "w/t/l", "found?", "source",
    ) + "".join(
        line(
            f"[{name}](results/{name}.json)",
            str(said["length"]),
            f"{said['idea']} vs {said['baseline']}",
            said["expected"]["verdict"],
            f"{number(bench['idea']['mean'], 3)} vs {number(bench['baseline']['full']['mean'], 3)}",
            exact_match(bench),
            number(said["p_holm"]),
            f"{said['idea_wins']}/{said['ties']}/{said['idea_losses']}",
            f"**{said['expected']['outcome']}**",
            said["expected"]["source"],
        )
        for name, said, bench in rows
    )  # fmt: skip


def exact_match(bench: dict[str, Any]) -> str:
    """Of both arms on the examples that they are compared by, where the track has it."""
    length, arms = bench["comparison"]["length"], (bench["idea"], bench["baseline"])
    if any("exact_match" not in arm["secondary"] for arm in arms):
        return "–"
    splits = [each for each in bench["idea"]["by_split"] if each.startswith("test@")]
    [split] = ["test"] if length == 1 else splits  # of one length each
    return " vs ".join(number(arm["secondary"]["exact_match"][split], 3) for arm in arms)


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
    rows = [
        row
        for row in rows
        if (row["n"] in (8, 9, 14) or row["what"].startswith("power")) and row["what"] != "looks"
    ]
    return _rates(rows)


def looks() -> str:
    """What a tuned design's looks cost and keep."""
    rows = json.loads((HERE / "calibration.json").read_text())["rows"]
    return _rates([row for row in rows if row["what"] == "looks"])


def _rates(rows: list[dict[str, Any]]) -> str:
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


EARLIER = {  # what the earlier one-file bench reported, relative to its baseline
    "lag_bias": "-0.0 %, no measurable effect",
    "tensor_mixer": "-31 %, significant",
}


def protocols() -> str:
    """The earlier report, its protocol here, and the tuned design."""
    found = reports()

    def told(name: str) -> str:
        bench = found[name][0]["bench_report"]
        said, mean = bench["comparison"], bench["baseline"]["full"]["mean"]
        relative = 100 * said["delta_mean"] / mean
        low, high = (100 * end / mean for end in said["ci_signflip"])
        return (
            f"{relative:+.1f} % [{low:.1f}, {high:.1f}], {said['n_pairs']} pairs, MDE "
            f"{said['mde_rel_pct']:.1f} %: {said['verdict']}"
        )

    return head("", "earlier report", "its protocol here", "tuned design") + "".join(
        line(f"`{name}`", then, told(f"earlier_{name}"), told(name))
        for name, then in EARLIER.items()
    )


def noise() -> str:
    """The spread of paired differences, and what lowers it for the same compute."""
    rows = json.loads((HERE / "noise.json").read_text())["rows"]
    return head(
        "setting", "weights", "test mse", "sd of d", "of its variance the test sample's",
        "MDE of 16 pairs", "compute", "MDE at equal compute",
    ) + "".join(
        line(
            row["setting"],
            row["kind"],
            number(row["mse"], 3),
            number(row["sd"], 2),
            f"{100 * row['share_of_examples']:.0f} %",
            f"{row['mde_pct_16']:.1f} %",
            f"{row['compute']:.2f}",
            f"{row['mde_pct_at_equal_compute']:.1f} %",
        )
        for row in rows
    )  # fmt: skip


def chaos() -> str:
    """How far start values that are moved by 1e-7 move the test score of the same seed."""
    rows = json.loads((HERE / "noise.json").read_text())["chaos"]
    return head("setting", "arm", "test mse", "moved by (rms)", "") + "".join(
        line(
            row["setting"],
            row["arm"],
            number(row["mse"], 3),
            number(row["sd"], 2),
            f"{row['sd_pct']:.1f} %",
        )
        for row in rows
    )


def lag_bias_cost() -> str:
    """What a bias costs attention: time over no bias, a constant mask, a mask that is learned."""
    rows = json.loads((HERE / "lag_bias_cost.json").read_text())["rows"]
    by_variant: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        by_variant.setdefault(row["variant"], {})[row["tokens"]] = row
    lengths = sorted({row["tokens"] for row in rows})
    longest = {variant: each[lengths[-1]]["saved_bytes"] for variant, each in by_variant.items()}
    return head("", *(f"{n} tokens" for n in lengths), f"saved, {lengths[-1]}") + "".join(
        line(
            variant if variant in ("no bias", "constant", "parameter") else f"`{variant}`",
            *(
                " / ".join(
                    f"{at[n][f'to {of}']:.2f}" for of in ("no bias", "constant", "parameter")
                )
                for n in lengths
            ),
            f"{longest[variant] / longest['no bias']:.1f}",
        )
        for variant, at in sorted(
            by_variant.items(), key=lambda each: each[1][lengths[-1]]["seconds"]
        )
    )


SECTIONS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "results": results,
        "known": known,
        "aa": same_against_itself,
        "calibration": calibration,
        "protocols": protocols,
        "noise": noise,
        "chaos": chaos,
        "lag_bias_cost": lag_bias_cost,
    },
    "docs/protocol.md": {"looks": looks},
}


def written(file: str, text: str) -> str:
    """The file's text with today's tables between their markers."""
    for name, table in SECTIONS[file].items():
        begin, end = f"<!-- {name}: make results -->\n", f"<!-- /{name} -->"
        before, begun, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not (begun and ended):
            raise SystemExit(f"{file} has no place for a table: {begin.strip()} … {end}")
        text = f"{before}{begin}{table()}{end}{after}"
    return text


if __name__ == "__main__":
    for file in SECTIONS:
        path = ROOT / file
        path.write_text(written(file, path.read_text()))
