"""Are the runs all there, readable, and each once?"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.judge.audits.audit import Audit
from analysis.judge.compare import Comparison
from analysis.read.recorded import RecordedRun
from analysis.text import how_many, hyper_text, run_text, seed_list, some
from records.record import Record
from records.settings import differing


def no_shared_seed(comparison: Comparison) -> Iterator[Audit]:
    """Nothing is paired, or nothing on which an arm's configurations could be compared."""
    if comparison.is_unfinished:
        return
    tuning = comparison.rules.tuning_seeds
    seed = f"of the tuning seeds {seed_list(tuning)} none" if tuning else "no seed"
    for side in comparison.sides:
        if not side.selection.shared:
            yield Audit(
                "no_shared_seed",
                "void",
                f"{side.name} could not be tuned: {seed} stands in the other arm and in all "
                f"{how_many(len(side.selection.candidates), 'configuration')} of {side.name}.",
                "Run every configuration of both arms with the same seeds.",
            )
    if not comparison.seeds:
        yield Audit(
            "no_shared_seed",
            "void",
            f"The selected configurations of {comparison.baseline.name} and "
            f"{comparison.idea.name} share no seed, so nothing is paired.",
            "Run every configuration of both arms with the same seeds.",
        )


def missing_run(comparison: Comparison) -> Iterator[Audit]:
    """The plan has a run that left no record."""
    if comparison.design and not comparison.design.is_finished:
        batch = comparison.design.batches[-1]
        there = len(batch.runs) - len(comparison.design.missing)
        yield Audit(
            "missing_run",
            "void",
            f"The design is under way: of its batch {len(comparison.design.batches)} ({batch.why}) "
            f"{there} of {how_many(len(batch.runs), 'run')} are there, and after it come at most "
            f"{comparison.design.most_left()} more.",
            "Resume the sweep; a look between two looks would cost the error rate.",
        )
    elif comparison.missing:
        yield Audit(
            "missing_run",
            "warning" if comparison.rules.partial else "void",
            f"{len(comparison.missing)} of {how_many(comparison.planned, 'planned run')} left no "
            f"record: {some(run_text(run) for run in comparison.missing)}.",
            "Run them; --partial judges what is there, as if the absent runs had nothing to tell."
            if not comparison.rules.partial
            else "Run them before believing this verdict: runs seldom die at random.",
        )


def unplanned_run(comparison: Comparison) -> Iterator[Audit]:
    """A record that no plan asked for, or no plan at all."""
    if comparison.unplanned:
        yield Audit(
            "unplanned_run",
            "warning",
            f"No plan holds {how_many(len(comparison.unplanned), 'run')}: "
            f"{some(run_text(run.record) for run in comparison.unplanned)}.",
            "Seeds or values that are added or left out after a look bias the verdict: name the "
            "whole sweep with its plan.json, or sweep everything anew.",
        )


def unpaired_seed(comparison: Comparison) -> Iterator[Audit]:
    """A seed that an arm lacks is left out of the pairs, or of the choice among its candidates."""
    seeds = comparison.baseline.arm.seeds | comparison.idea.arm.seeds
    tuning = set(comparison.rules.tuning_seeds) or seeds
    for side in comparison.sides:
        if absent := seeds - set(side.selected):
            yield Audit(
                "unpaired_seed",
                "warning",
                f"{side.name} ({hyper_text(side.selection.best.hyper)}) has no run of "
                f"seed {seed_list(absent)}, which is left out of the pairs.",
                "Run both arms with the same seeds.",
            )
        short = [
            f"{hyper_text(candidate.hyper)} has no run of seed {seed_list(absent)}"
            for candidate in side.selection.candidates
            if candidate is not side.selection.best
            and (absent := (tuning & set(side.selected)) - set(candidate.runs))
        ]
        if short and not comparison.missing:  # which says it already
            yield Audit(
                "unpaired_seed",
                "warning",
                f"{side.name} was tuned on {how_many(len(side.selection.compared), 'seed')} alone: "
                f"{some(short)}.",
                "Run every configuration with the same seeds.",
            )


def duplicate_run(comparison: Comparison) -> Iterator[Audit]:
    """Two records of one track, variant, seed and hyper; void if they disagree."""
    for side in comparison.sides:
        alike: list[str] = []
        unlike: list[str] = []
        for kept, other in side.arm.duplicates:
            said, again = _outcome(kept.record), _outcome(other.record)
            # what one of them does not record, an older one, is no difference
            same = all(said[name] == again[name] for name in said.keys() & again.keys())
            (alike if same else unlike).append(_twin(kept, other))
        if unlike:
            yield Audit(
                "duplicate_run",
                "void",
                f"Recorded twice, with different scores: {some(unlike)}.",
                "Find out what differed (code, configuration, machine), and analyse one sweep.",
            )
        if alike:
            yield Audit(
                "duplicate_run",
                "note",
                f"Recorded twice, with the same scores (the first is used): {some(alike)}.",
                "Nothing to do; name one sweep only to be rid of this note.",
            )


def unreadable_record(comparison: Comparison) -> Iterator[Audit]:
    """A file that a run left is truncated, not JSON, of another schema, or wrong in a field."""
    if comparison.unreadable:
        yield Audit(
            "unreadable_record",
            "warning",
            f"Files that could not be used: {some(comparison.unreadable)}.",
            "Run those runs again, or remove their folders.",
        )


def diverged_run(comparison: Comparison) -> Iterator[Audit]:
    """A loss that is not finite; void where the run is one of the pairs."""
    for side in comparison.sides:
        paired = [run for run in side.paired if run.diverged]
        judged = {id(run) for run in paired}
        others = [run for run in side.arm.runs if run.diverged and id(run) not in judged]
        if paired:
            yield Audit(
                "diverged_run",
                "void",
                f"{len(paired)} of {how_many(len(side.paired), 'run')} of {side.name} to be "
                f"compared diverged: {some(run_text(run.record) for run in paired)}.",
                f"Widen the grid of {side.name} until one configuration trains on every seed.",
            )
        if others:
            yield Audit(
                "diverged_run",
                "warning",
                f"Diverged, outside the pairs: {some(run_text(run.record) for run in others)}.",
                "Expected at the upper end of a grid of learning rates, a bug elsewhere.",
            )


def _outcome(record: Record) -> dict[str, object]:
    """All scores and observations of a run, by name."""
    observed = record.signature.observed if record.signature else {}
    return {
        "status": record.status,
        **{f"score {split}": score for split, score in record.scores.items()},
        **{
            f"score {name} {split}": score
            for name, each in record.secondary.items()
            for split, score in each.scores.items()
        },
        **{f"observed {name}": value for name, value in observed.items()},
    }


def _twin(kept: RecordedRun, other: RecordedRun) -> str:
    told = f"{run_text(kept.record)} in {kept.folder} and {other.folder}"
    if kept.record.config is None or other.record.config is None:
        return told
    keys = differing(kept.record.config, other.record.config)
    unlike = some(f"{key}: {one} against {another}" for key, (one, another) in keys.items())
    return f"{told} ({unlike})" if keys else told


CHECKS = (
    no_shared_seed,
    missing_run,
    unplanned_run,
    unpaired_seed,
    duplicate_run,
    unreadable_record,
    diverged_run,
)
