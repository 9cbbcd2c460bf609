"""Was training over?"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.judge.audits.audit import Audit
from analysis.judge.compare import Comparison
from records.probes import Probe

GRADIENT_NORM = Probe[float | None]("gradient_norm", float | None)
LARGEST = 1e-9  # so small that any network raises it: this one shows that it is asked


def still_steep(comparison: Comparison) -> Iterator[Audit]:
    """The loss is still steep where an arm's training ended."""
    for side in comparison.sides:
        norms = [GRADIENT_NORM.get(run.record.probes) for run in side.selected.values()]
        if steep := [norm for norm in norms if norm is not None and norm > LARGEST]:
            yield Audit(
                "still_steep",
                "note",
                f"The loss of {side.name} is steep at its end: up to {max(steep):.3g}.",
                "Train for longer.",
            )


CHECKS = (still_steep,)
