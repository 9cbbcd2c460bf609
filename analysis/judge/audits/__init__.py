"""What makes a comparison's verdict weaker or void.

An audit is one function from a comparison to the `Audit`s that it raises; `AUDITS` lists them in
the order in which they are shown. A new audit is a new function in that list, or, where it has to
know which arm is ahead, in `CONCLUSION_AUDITS`; these void nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analysis.judge.audits import budget, evidence, likeness, mechanism, runs
from analysis.judge.audits.audit import Ahead, Audit, Check, ConclusionCheck
from analysis.judge.compare import Comparison
from analysis.tell.text import printable

AUDITS: tuple[Check, ...] = (
    runs.no_shared_seed,
    runs.missing_run,
    runs.unplanned_run,
    runs.unpaired_seed,
    runs.duplicate_run,
    runs.unreadable_record,
    runs.diverged_run,
    likeness.metric_mismatch,
    likeness.data_mismatch,
    likeness.order_mismatch,
    likeness.confounded,
    evidence.split_overlap,
    evidence.repeated_seed,
    mechanism.future_leak,
    mechanism.out_of_reach,
    mechanism.idle_mechanism,
    likeness.init_mismatch,
    likeness.mixed_code,
    likeness.mixed_environment,
    budget.unequal_grid,
    budget.unequal_budget,
    budget.grid_edge,
    evidence.saturated,
    evidence.few_seeds,
    mechanism.unconfirmed_signature,
    mechanism.prediction_edited,
    evidence.rules_changed,
    budget.tuned_on_reported_seeds,
    evidence.fixed_data,
)

CONCLUSION_AUDITS: tuple[ConclusionCheck, ...] = (
    budget.parameter_parity,
    budget.flop_parity,
    budget.memory_parity,
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
