"""Do the arms differ in the variant alone?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from analysis.judge.audits.audit import Audit, pairs, several
from analysis.judge.compare import Comparison
from analysis.read.recorded import RecordedRun
from analysis.tell.text import NONE, run_text, seed_list, some
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
        if baseline.hashes.init == idea.hashes.init:
            continue
        starts = _starts(baseline), _starts(idea)
        for name, start in baseline.hashes.init.items():
            if idea.hashes.init.get(name, start) == start:
                continue
            why = _why(name, *starts)
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
    return f"{len(seeds)} parameters of one name and shape start different in the arms: " + some(
        f"{name} (seed {seed_list(at)})" for name, at in seeds.items()
    )


Starts = tuple[Mapping[str, Any], int | None]  # what a variant declares, and of how many mixers


def _starts(record: Record) -> Starts | None:
    """What a record's variant declares of its start values; None where it was not recorded.

    With it the length of its list of mixers, None of a variant that has no list.
    """
    if record.starts is None:
        return None
    mixers = flat(record.config or {}).get("variant.mixer")
    return record.starts, len(mixers) if isinstance(mixers, list) else None


def _why(parameter: str, one: Starts | None, other: Starts | None) -> list[str]:
    """What two arms declare otherwise that a parameter's start depends on, in words."""
    if one is None or other is None:
        return []
    here, there = _said_of(parameter, *one), _said_of(parameter, *other)
    return [
        f"{key}: {there.get(key, NONE)} against {here.get(key, NONE)}"
        for key in here | there
        if here.get(key, NONE) != there.get(key, NONE)
    ]


def _said_of(parameter: str, declared: Mapping[str, Any], mixers: int | None) -> dict[str, Any]:
    """What is declared of one parameter's start, by key as if there were one mixer.

    `initial_stream` is of any; `mixer.bias.start` of what is in the mixer's `bias`, in any block.
    Of a list of mixers, `mixer.1.bias.start` is of the blocks that have its second.
    """
    said = {key: value for key, value in declared.items() if key == "initial_stream"}
    block = re.match(r"blocks\.(\d+)\.", parameter)
    if block is None:
        return said
    mixer = f"mixer.{int(block[1]) % mixers}." if mixers else "mixer."
    inside = parameter.removeprefix(block[0])
    for key, value in declared.items():
        plain = key.replace(mixer, "mixer.", 1)
        if key.startswith(mixer) and inside.startswith(plain.removesuffix("start")):
            said[plain] = value
    return said


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
