"""What makes a comparison's verdict weaker or void.

An audit is one function from a comparison to the `Audit`s that it raises; `AUDITS` lists them in
the order in which they are shown. A new audit is a new function in that list.
"""

from __future__ import annotations

from dataclasses import replace

from analysis.audits import budget, evidence, likeness, mechanism, runs
from analysis.audits.audit import Audit, Check
from analysis.compare import Comparison
from analysis.text import printable

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
    budget.parameter_parity,
    budget.flop_parity,
    budget.memory_parity,
    evidence.saturated,
    evidence.few_seeds,
    mechanism.unconfirmed_signature,
    mechanism.prediction_edited,
    evidence.rules_changed,
    budget.tuned_on_reported_seeds,
    evidence.fixed_data,
)


def audit(comparison: Comparison) -> list[Audit]:
    """Everything that is wrong with a comparison, gravest first."""
    raised = [
        replace(found, message=printable(found.message))  # it may name folders
        for check in AUDITS
        for found in check(comparison)
    ]
    return sorted(raised, key=lambda found: ("void", "warning", "note").index(found.severity))
