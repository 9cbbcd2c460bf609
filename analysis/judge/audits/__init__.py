"""What makes a comparison's verdict weaker or void.

An audit is one function from a comparison to the `Audit`s that it raises. A module of this folder
lists its own in `CHECKS`, and in `CONCLUSION_CHECKS` those that have to know which arm is ahead and
void nothing. Every module here is found by being here, and shown in the order of their names.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module

from analysis.judge.audits.audit import Ahead, Audit, Check, ConclusionCheck
from analysis.judge.compare import Comparison
from analysis.text import printable

_MODULES = [
    import_module(f"{__name__}.{name}")
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__))
]
AUDITS: tuple[Check, ...] = tuple(
    check for module in _MODULES for check in getattr(module, "CHECKS", ())
)
CONCLUSION_AUDITS: tuple[ConclusionCheck, ...] = tuple(
    check for module in _MODULES for check in getattr(module, "CONCLUSION_CHECKS", ())
)


def audit(comparison: Comparison) -> tuple[Audit, ...]:
    """Everything that is wrong with a comparison, gravest first."""
    return _gravest_first(found for check in AUDITS for found in check(comparison))


def audit_conclusion(
    raised: Iterable[Audit], comparison: Comparison, ahead: Ahead | None
) -> tuple[Audit, ...]:
    """What was raised, and what weakens the conclusion that an arm is ahead; gravest first."""
    found = [each for check in CONCLUSION_AUDITS for each in check(comparison, ahead)]
    return _gravest_first([*raised, *found])


def _gravest_first(found: Iterable[Audit]) -> tuple[Audit, ...]:
    raised = [replace(each, message=printable(each.message)) for each in found]  # it names folders
    return tuple(sorted(raised, key=lambda each: ("void", "warning", "note").index(each.severity)))
