"""The rule of a tuned design, whole, before anything is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from omegaconf import DictConfig

from analysis.judge.design import grows
from analysis.judge.sequential import usable
from analysis.text import how_many, seed_list
from records.design import SPENDING, PlannedArm, Rule
from records.identity import FULL, Value
from sweeping.compared import check_compared
from training.config import (
    TUNABLE_GROUPS,
    TWO_TUNING_SEEDS,
    TunedDesign,
    run_identity,
    validated,
)
from training.errors import UserError

Axes = Mapping[str, Sequence[str]]  # of a sweep: key → an override for each of its values


def seeded(axes: Axes, design: TunedDesign) -> Axes:
    """The axes with reported seeds: those that are swept, else as many as the last look has."""
    return {"seed": [f"seed={seed}" for seed in range(max(design.looks))], **axes}


def rule_of(axes: Axes, compose: Callable[[list[list[str]]], list[DictConfig]]) -> Rule:
    """The whole rule of a sweep, before anything is run.

    Args:
        axes: with their seeds.
        compose: the configurations of runs, from their overrides.
    Raises:
        UserError: a rule that could decide nothing, or contradicts itself.
    """
    said = {key.lstrip("+"): [_value(entry) for entry in entries] for key, entries in axes.items()}
    if "analysis.tuning_seeds" in said:
        raise UserError(TWO_TUNING_SEEDS)
    first = product(*(e if k in ("track", "variant") else e[:1] for k, e in axes.items()))
    composed = compose([list(line) for line in first])
    checked = validated(composed[0])
    design, analysis = checked.design, checked.analysis
    assert isinstance(design, TunedDesign)
    if "budget" in said or checked.budget != FULL:
        given = ",".join(said.get("budget", [f"{checked.budget:g}"]))
        raise UserError(
            f"budget={given}: design=tuned judges at a budget of 1, and trains at others beside "
            f"it: say design.budgets=[{given}]"
        )
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
        contrasts=[(idea, other) for idea, other in analysis.contrasts],
    )
    check_compared(checked, {arm.variant for arm in arms})
    if analysis.lengths:
        raise UserError(
            f"analysis.lengths is {analysis.lengths}: the looks of design=tuned are at the trained "
            f"context alone; say analysis.lengths=[], or design=fixed"
        )
    _check(rule, design)
    return rule


def _check(rule: Rule, design: TunedDesign) -> None:
    """Raise a UserError for a rule that could decide nothing, or contradicts itself."""
    for name, seeds in (("design.tuning_seeds", rule.tuning_seeds), ("seed", rule.seeds)):
        if twice := [seed for seed in seeds if seeds.count(seed) > 1]:
            raise UserError(f"{name} names {twice[0]} twice: name each seed once")
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
            found = [*sorted(float(format(float(each), ".12g")) for each in values)]
        except ValueError:
            raise UserError(f"{key}={','.join(values)}: must be numbers") from None
    if len(set(found)) < len(found):
        raise UserError(f"{key}={','.join(values)}: sweep each value once")
    return found
