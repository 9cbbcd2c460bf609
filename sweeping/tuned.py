"""A tuned design, batch after batch: which runs come next, and how each is composed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.text import Text

from analysis.judge.design import Course, grows
from analysis.judge.sequential import usable
from analysis.read.recorded import RecordedRun
from analysis.text import how_many, seed_list
from records.design import SPENDING, PlannedArm, Rule
from records.files import RECORD
from records.identity import Identity, Value
from records.record import PlannedRun, read_record
from training.config import (
    TUNABLE_GROUPS,
    TunedDesign,
    config_hashes,
    run_identity,
    run_name,
    validated,
)
from training.errors import UserError

Axes = Mapping[str, Sequence[str]]  # of a sweep: key → an override for each of its values


class Frozen:
    """What each arm was configured as when its first run was composed."""

    def __init__(self) -> None:
        self.hashes: dict[tuple[str, str], Mapping[str, str]] = {}

    def check(self, configs: Iterable[DictConfig]) -> None:
        """Raise a UserError where an arm is configured otherwise than it was."""
        for config in configs:
            choices, hashes = config.hydra.runtime.choices, config_hashes(config)
            before = self.hashes.setdefault((choices.track, choices.variant), hashes)
            if changed := [part for part in hashes if hashes[part] != before.get(part)]:
                raise UserError(
                    f"the {changed[0]} of {choices.variant} on {choices.track} is configured "
                    "otherwise than when this sweep began: an edited YAML; take the edit back and "
                    "resume, or choose another hydra.sweep.dir"
                )


def seeded(axes: Axes, design: TunedDesign) -> dict[str, list[str]]:
    """The axes with reported seeds: those swept, else as many as the last look has pairs."""
    given = {key: list(entries) for key, entries in axes.items()}
    given.setdefault("seed", [f"seed={seed}" for seed in range(max(design.looks))])
    return given


def rule_of(axes: Axes, compose: Callable[[list[list[str]]], list[DictConfig]]) -> Rule:
    """The whole rule of a sweep, before anything is run.

    Args:
        axes: with their seeds.
        compose: the configurations of runs, from their overrides.
    Raises:
        UserError: a rule that could decide nothing, or contradicts itself.
    """
    said = {key.lstrip("+"): [_value(entry) for entry in entries] for key, entries in axes.items()}
    first = product(*(e if k in ("track", "variant") else e[:1] for k, e in axes.items()))
    composed = compose([list(line) for line in first])
    checked = validated(composed[0])
    design, analysis = checked.design, checked.analysis
    assert isinstance(design, TunedDesign)
    if len(said.get("budget", "1")) > 1 or checked.budget != 1:
        raise UserError("budget is not for design=tuned: design.budgets names the other budgets")
    arms = [
        PlannedArm(who["track"], who["variant"], who["hyper"])
        for who in (run_identity(cfg, cfg.hydra.runtime.choices) for cfg in composed)
    ]
    swept = [key for key, values in said.items() if len(values) > 1 or key in design.grid]
    keys = [key for key in swept if key not in ("track", "variant", "seed")]
    if loose := [key for key in keys if key not in checked.tunable]:
        raise UserError(
            f"{loose[0]} is swept, and is not tunable; design=tuned sweeps track, variant, seed "
            f"and what is tunable: {', '.join(checked.tunable)}"
        )
    seeds = sorted(_seed(value) for value in said["seed"])
    rule = Rule(
        arms=arms,
        baseline=checked.baseline or "",
        grid={key: _rising(key, said[key]) for key in keys},
        tuning_seeds=design.tuning_seeds,
        seeds=seeds,
        looks=[*(n for n in design.looks if n < len(seeds)), len(seeds)],
        extend=design.extend,
        futility=design.futility,
        spending=SPENDING,
        budgets=design.budgets,
        alpha=analysis.alpha,
        margin_pct=analysis.margin_pct,
        family=analysis.family,
    )
    _check(rule, design)
    return rule


def _check(rule: Rule, design: TunedDesign) -> None:
    """Raise a UserError for a rule that could decide nothing, or contradicts itself."""
    if len(set(rule.seeds)) < len(rule.seeds):
        raise UserError(f"seed={','.join(map(str, rule.seeds))}: sweep each value once")
    if both := sorted(set(rule.tuning_seeds) & set(rule.seeds)):
        raise UserError(
            f"design.tuning_seeds and the reported seeds share seed {seed_list(both)}: hyper must "
            f"be chosen on seeds that are not reported; change one of the two"
        )
    if design.looks != sorted(set(design.looks)):
        raise UserError(f"design.looks must rise, as [8,12,16], found {design.looks}")
    if 1.0 in design.budgets or len(set(design.budgets)) < len(design.budgets):
        raise UserError(
            f"design.budgets must hold each factor once, and not 1, found {design.budgets}"
        )
    for track in rule.tracks:
        if rule.of_track(track)[0].variant != rule.baseline:
            raise UserError(
                f"design=tuned compares with the baseline {rule.baseline or None}, which is not "
                f"swept on {track}: add it to variant=…, or say baseline=NAME"
            )
        ideas = len(rule.family_of(track))
        if not ideas:
            raise UserError("design=tuned needs an idea beside the baseline: variant=baseline,idea")
        if not usable(rule.looks[-1:], rule.alpha / ideas):
            raise UserError(
                f"at a last look of {how_many(rule.looks[-1], 'pair')} nothing could be "
                f"significant among {how_many(ideas, 'comparison')} at analysis.alpha "
                f"{rule.alpha:g}: sweep more seeds"
            )
    for key, values in rule.grid.items():
        if rule.extend and not isinstance(values[0], str) and len(values) < 3:
            raise UserError(
                f"design.extend is {rule.extend}, and {key} has {how_many(len(values), 'value')}: "
                f"a grid that is to grow needs three or more; or say design.extend=0"
            )
        if rule.extend and grows(values) and float(values[0]) <= 0:
            raise UserError(
                f"{key}={values[0]:g} cannot be where a grid grows by its ratio: give values above "
                f"0, or say design.extend=0"
            )


def _value(entry: str) -> str:
    return entry.partition("=")[2].strip("'\"")


def _seed(value: str) -> int:
    if not value.isdecimal():
        raise UserError(f"seed={value}: must be a whole number ≥ 0")
    return int(value)


def _rising(key: str, values: Sequence[str]) -> list[Value]:
    """A key's values: numbers in order, or the names of a group's YAMLs as they were given."""
    if key in TUNABLE_GROUPS:
        found: list[Value] = [*values]
    else:
        try:
            found = [*sorted(map(float, values))]
        except ValueError:
            raise UserError(f"{key}={','.join(values)}: must be numbers") from None
    if len(set(found)) < len(found):
        raise UserError(f"{key}={','.join(values)}: sweep each value once")
    return found


def line(axes: Axes, run: PlannedRun, keys: Iterable[str]) -> list[str]:
    """The overrides of a run; `keys` are those of the grid."""
    said: dict[str, Value] = {"track": run.track, "variant": run.variant, "seed": run.seed}
    said |= {key: run.hyper[key] for key in keys}
    overrides: list[str] = []
    for key, entries in axes.items():
        name = key.lstrip("+")
        overrides += [f"{key}={_text(said[name])}"] if name in said else entries
    return overrides + ([] if run.budget_factor == 1 else [f"budget={_text(run.budget_factor)}"])


def _text(value: Value) -> str:
    return value if isinstance(value, str) else format(value, ".12g")


def tell(made: Course, new: int) -> None:
    """Say which stage a design is at, and how many runs may still come.

    Args:
        new: runs of the last batch that are to be trained now.
    """
    grow = "" if made.chosen else ", and more where a grid grows"
    left = f"{how_many(new, 'run')} now, then at most {made.most_left()} more{grow}"
    _say(f"{made.batches[-1].why}: {left}")


def tell_rule(made: Course) -> None:
    """Say which looks are left out, and why."""
    for track in made.rule.tracks:
        if out := [n for n in made.rule.looks if n not in made.looks(track)]:
            ideas = len(made.rule.family_of(track))
            _say(
                f"{track}: no look at {' or '.join(map(str, out))} pairs, of which so few could "
                f"decide nothing among {how_many(ideas, 'comparison')}"
            )


def tell_end(made: Course) -> None:
    """Say where each idea's path ended."""
    for (track, idea), stop in made.stops.items():
        _say(f"{idea} on {track} ended at {how_many(stop.pairs, 'pair')}: {stop.why}")


def _say(text: str) -> None:
    Console(stderr=True).print(Text(text, style="bold"), soft_wrap=True)


def read(
    directory: Path, configs: Iterable[DictConfig], runs: Iterable[PlannedRun]
) -> dict[Identity, RecordedRun]:
    """The finished runs of a batch, by who they are."""
    folders = {
        run.identity: str(directory / run_name(_root_=config))
        for config, run in zip(configs, runs, strict=True)
    }
    found = {}
    for who, folder in folders.items():
        run = RecordedRun(read_record(os.path.join(folder, RECORD)), folder)
        if run.record.identity != who:
            raise UserError(f"{folder} holds another run than its name says: take it away, resume")
        found[who] = run
    return found
