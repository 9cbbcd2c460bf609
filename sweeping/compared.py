"""What a sweep says of its comparisons: of arms that it has, at lengths that are judged."""

from __future__ import annotations

from collections.abc import Collection

from training.config import Config
from training.errors import UserError, no_such
from training.paths import CONF


def check_compared(config: Config, variants: Collection[str]) -> None:
    """Raise a UserError for further comparisons, or expectations, of what is not compared.

    Args:
        variants: that are swept.
    """
    said, baseline = config.analysis, config.baseline
    for idea, other in said.contrasts:
        for name in (idea, other):
            if name not in variants:
                raise UserError(
                    f"analysis.contrasts names {name}, which is not swept: "
                    f"{no_such(name, sorted(variants))}"
                )
        if baseline in (idea, other):
            raise UserError(
                f"analysis.contrasts compares {idea} with {other}; what is compared with the "
                f"baseline is compared anyway: leave that pair out"
            )
        if idea == other or sum({idea, other} == {*pair} for pair in said.contrasts) > 1:
            raise UserError(
                f"analysis.contrasts compares {idea} with {other}, one arm, or a pair named twice: "
                f"name each pair of two arms once"
            )
    known = sorted({*variants, *(path.stem for path in (CONF / "variant").glob("*.yaml"))})
    for each in said.expects:
        for name in (each.idea, each.baseline or each.idea):
            if name not in known:  # one that is not swept today may be so tomorrow
                raise UserError(f"analysis.expects names {name}: {no_such(name, known)}")
        if each.length not in (1, *said.lengths):
            raise UserError(
                f"analysis.expects says what {each.idea} does at {each.length} times the context, "
                f"which is not judged: add {each.length} to analysis.lengths"
            )
