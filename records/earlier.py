"""Records and plans of the earlier schema, made into today's."""

from __future__ import annotations

from typing import Any

SCHEMA = 2
SPLITS = ("validation", "test")
SMOOTH = ("mse", "mae")  # the metrics of all tracks before a record said which can tie


def upgraded(found: Any) -> Any:
    """A record or plan of schema 2 as schema 3 has it; what is of no such shape stays as it is.

    The values are plain, and validated by whoever reads on. The configuration was not recorded.
    """
    if not isinstance(found, dict):
        return found
    new = {key: value for key, value in found.items() if key not in ("overrides", "config")}
    new["schema"] = 3
    if isinstance(metric := found.get("metric"), dict):
        new["metric"] = _smooth(metric.get("name"), metric)
    if isinstance(secondary := found.get("secondary"), dict):
        new["secondary"] = {name: _smooth(name, _nested(each)) for name, each in secondary.items()}
    if isinstance(probes := found.get("probes"), dict):
        new["probes"] = _probes(probes)
    return new


def _smooth(name: Any, metric: Any) -> Any:
    """A metric, primary or secondary, that is said not to tie where that is known."""
    if not isinstance(metric, dict) or name not in SMOOTH or metric.get("can_tie") is not None:
        return metric
    return metric | {"can_tie": False}


def _nested(scores: Any) -> Any:
    """A secondary metric, its splits beside its direction, as one with the splits below it."""
    if not isinstance(scores, dict):
        return scores
    about = {key: value for key, value in scores.items() if key not in SPLITS}
    return about | {"scores": {split: scores[split] for split in SPLITS if split in scores}}


def _probes(probes: dict[str, Any]) -> dict[str, Any]:
    """The reach of each parameter stood beside that of all."""
    new = {key: value for key, value in probes.items() if key != "reach_by_parameter"}
    if new.get("reach") is not None:
        new["reach"] = {
            "all": new["reach"],
            "by_parameter": probes.get("reach_by_parameter") or {},
        }
    return new
