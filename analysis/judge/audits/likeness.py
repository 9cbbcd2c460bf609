"""Do the arms differ in the variant alone?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from analysis.judge.audits.audit import Audit, pairs, several
from analysis.judge.compare import Comparison
from analysis.read.recorded import RecordedRun
from analysis.text import how_many, run_text, seed_list, some
from records.record import Record
from records.settings import differing, flat, is_below

OF_TRAINING = ("lr", "mechanism_lr_scale", "compile", "precision")  # hashed with it


def metric_mismatch(comparison: Comparison) -> Iterator[Audit]:
    """Scores in different units, or with different better ends, cannot be subtracted."""
    metric = comparison.metric
    metrics = {
        f"{run.metric.name} ({run.metric.better}) in {side.name}"
        for side in comparison.sides
        for run in side.arm.runs
        if (run.metric.name, run.metric.direction) != (metric.name, metric.direction)
    }
    if metrics:
        yield Audit(
            "metric_mismatch",
            "void",
            f"Not all runs have the metric {metric.name} ({metric.better}): "
            f"{some(sorted(metrics))}.",
            "Train both arms with the same version of the track.",
        )


def data_mismatch(comparison: Comparison) -> Iterator[Audit]:
    """The runs of a seed were not all trained and tested on the same data."""
    data: dict[int, set[str]] = {}
    for side in comparison.sides:
        for run in side.arm.runs:
            data.setdefault(run.record.seed, set()).add(run.record.hashes.data)
    if seeds := [seed for seed, hashes in data.items() if len(hashes) > 1]:
        yield Audit(
            "data_mismatch",
            "void",
            f"The runs of seed {seed_list(seeds)} did not all have the same data.",
            "Train both arms with the same track settings and the same version of the data.",
        )


def order_mismatch(comparison: Comparison) -> Iterator[Audit]:
    """The arms of a pair did not see their batches in one order."""
    if seeds := {
        s for s, one, other in pairs(comparison) if one.hashes.order != other.hashes.order
    }:
        yield Audit(
            "order_mismatch",
            "void",
            f"The arms saw their batches in different orders on seed {seed_list(seeds)}.",
            "Train both arms with the same batch size, epochs and version of the code.",
        )


def confounded(comparison: Comparison) -> Iterator[Audit]:
    """The configurations differ in more than variant and hyper."""
    both = comparison.baseline.arm.runs + comparison.idea.arm.runs
    tuned = {key for run in both for key in run.record.hyper}
    parts: list[tuple[str, str, list[RecordedRun]]] = [
        (group, group, both) for group in ("track", "model", "optimizer", "training")
    ]
    parts += [("variant", f"variant {s.name}", s.arm.runs) for s in comparison.sides]
    for group, name, runs in parts:
        examples = {getattr(run.record.hashes.config, group): run for run in reversed(runs)}
        if len(examples) < 2 or group in tuned:
            continue
        one, *others = reversed(examples.values())
        told = f"The runs do not have one configuration of {name}, but {len(examples)}"
        if all(run.record.config is not None for run in examples.values()):
            keys = {key: None for other in others for key in _unlike(one, other, group, tuned)}
            told += f", which differ in {some(keys)}" if keys else ""
        yield Audit(
            "confounded",
            "void",
            f"{told}: "
            f"{some(f'{run_text(run.record)} in {run.folder}' for run in examples.values())}.",
            "Compare .hydra/config.yaml in these folders, and analyse runs that differ in "
            "variant, seed and tunable keys alone.",
        )


def _unlike(
    one: RecordedRun, other: RecordedRun, group: str, tuned: Iterable[str]
) -> Iterator[str]:
    """The keys of a group, none of them tuned, in which two runs differ: `model.dim (64, 32)`."""
    groups = {group, *(OF_TRAINING if group == "training" else ())}
    for key, values in differing(one.record.config, other.record.config).items():
        belongs = any(is_below(key, each) for each in groups)
        predicted = is_below(key, "variant.signature")
        if belongs and not predicted and not any(is_below(key, each) for each in tuned):
            yield f"{key} ({values[0]}, {values[1]})"


def init_mismatch(comparison: Comparison) -> Iterator[Audit]:
    """Parameters of one name and shape start different; a note where the variants ask for it."""
    by_chance, asked_for = dict[str, set[int]](), dict[str, set[int]]()
    declared = dict[str, None]()  # in words, in order, each once
    for seed, baseline, idea in pairs(comparison):
        why = _declared(baseline, idea)
        for name, start in baseline.hashes.init.items():
            if idea.hashes.init.get(name, start) != start:
                declared |= dict.fromkeys(why)
                (asked_for if why else by_chance).setdefault(name, set()).add(seed)
    if by_chance:
        yield Audit(
            "init_mismatch",
            "warning",
            f"{_apart(by_chance)}.",
            "Draw start values by parameter name, as models/network.py does, or part of the "
            "difference is other luck.",
        )
    if asked_for:
        yield Audit(
            "init_mismatch",
            "note",
            f"{_apart(asked_for)}, as the variants declare ({', '.join(declared)}).",
            "Nothing to do where the start is what is compared; the difference includes it.",
        )


def _apart(seeds: Mapping[str, Iterable[int]]) -> str:
    return (
        f"The arms start {how_many(len(seeds), 'parameter')} of one name and shape otherwise: "
        + some(f"{name} (seed {seed_list(at)})" for name, at in seeds.items())
    )


def _declared(baseline: Record, idea: Record) -> list[str]:
    """The streams that two variants draw their starts from, where they name others, in words."""
    key = "variant.initial_stream"
    here, there = (flat(record.config or {}).get(key) for record in (baseline, idea))
    differ = None not in (here, there) and here != there
    return [f"initial_stream: {there} against {here}"] if differ else []


def mixed_code(comparison: Comparison) -> Iterator[Audit]:
    """The runs were made by different versions of a file."""
    files = several(comparison, lambda run: run.record.hashes.code)
    if files:
        yield Audit(
            "mixed_code",
            "warning",
            f"The code changed between the runs, in {some(files)}.",
            "Run both arms with one version of the code.",
        )


def mixed_environment(comparison: Comparison) -> Iterator[Audit]:
    """The runs were made on different machines or with different libraries."""
    keys = several(comparison, lambda run: run.record.environment)
    keys.pop("commit", None)  # it says nothing that the hashes of the files do not
    if keys:
        told = (f"{key} ({', '.join(map(str, values))})" for key, values in keys.items())
        yield Audit(
            "mixed_environment",
            "warning",
            f"The runs were made in different environments: {some(told)}.",
            "Run both arms on one machine with the same libraries.",
        )


CHECKS = (
    metric_mismatch,
    data_mismatch,
    order_mismatch,
    confounded,
    init_mismatch,
    mixed_code,
    mixed_environment,
)
