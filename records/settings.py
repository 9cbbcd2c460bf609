"""A resolved configuration as keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ABSENT = "not there"


def flat(node: Any, above: str = "") -> dict[str, Any]:
    """`{"model": {"dim": 64}}` → `{"model.dim": 64}`; lists and empty nodes are values."""
    if not isinstance(node, Mapping) or not node:
        return {above: node} if above else {}
    found: dict[str, Any] = {}
    for key, value in node.items():
        found |= flat(value, f"{above}.{key}" if above else str(key))
    return found


def differing(one: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """The keys in which two configurations differ, with both values (`ABSENT`: it has none)."""
    first, second = flat(one), flat(other)
    return {
        key: (first.get(key, ABSENT), second.get(key, ABSENT))
        for key in sorted(first | second)
        if first.get(key, ABSENT) != second.get(key, ABSENT)
    }


def is_below(key: str, above: str) -> bool:
    """Whether a key is `above`, or part of it: `model.dim` is below `model`."""
    return key == above or key.startswith(f"{above}.")
