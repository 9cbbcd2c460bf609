"""What a single run says of itself when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from records.files import RECORD
from records.probes import LEAST_REACH
from records.record import BETTER


def summary(found: Mapping[str, Any], directory: Path) -> list[str]:
    """A run's last lines: its scores, what the probes found, where its record is."""
    metric = found["metric"]
    scores = ", ".join(f"{split} {score:.4g}" for split, score in found["scores"].items())
    references = {
        name: each["scores"].get("test")
        for name, each in found["secondary"].items()
        if each.get("direction") is None
    }
    beside = ", ".join(f"{name} {score:.4g}" for name, score in references.items() if score)
    return [
        f"{found['status']}: {metric['name']} {scores} ({BETTER[metric['direction']]})",
        *([f"beside it, on test: {beside}"] if beside else []),
        f"probes: {'; '.join(amiss(found)) or 'nothing amiss'}",
        f"record: {directory / RECORD}",
    ]


def amiss(found: Mapping[str, Any]) -> list[str]:
    """What the probes found wrong, in words."""
    probes, said = found["probes"], []
    if probes["causal"] is False:
        said.append("LEAK, outputs depend on later time steps")
    by_parameter = (probes["reach"] or {}).get("by_parameter", {})
    if dead := [name for name, reach in by_parameter.items() if reach < LEAST_REACH]:
        said.append(f"DEAD, the loss hardly depends on {', '.join(dead)}")
    if probes["split_overlap"]:
        said.append(
            f"OVERLAP, test examples that also stand in train or validation: "
            f"{probes['split_overlap']}"
        )
    if probes["loss_ablation" if found["metric"]["can_tie"] else "ablation"] == 0:
        said.append("IDLE, the test score is the same without the mechanism")
    return said
