"""What a configuration must look like, who a run is, and what it resolves to.

Imports no torch: a sweep checks hundreds of configurations before its first run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from training.errors import UserError, no_such

GROUPS = ("track", "variant", "model", "optimizer", "training")  # that a run is made with
TUNABLE_GROUPS = ("optimizer", "model")  # whose YAMLs' names are values to choose among

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Node = dict[str, Any]  # what a `_target_` builds from


TWO_TUNING_SEEDS = (
    "analysis.tuning_seeds and design.tuning_seeds are both given: a tuned design tunes on its "
    "own; say design.tuning_seeds alone"
)
ASIDE = (
    "about",
    "epochs",
    "batch_size",
    "flops",
)  # keys of a track's YAML that its class is not built with


class Section(BaseModel):
    """Types as the YAML has them, nothing converted but 1 to 1.0; unknown keys refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


S = TypeVar("S", bound=Section)


class Criterion(Section):
    metric: str
    op: Literal["<", "<=", ">", ">="]
    value: float


class Signature(Section):
    prediction: str
    criteria: Annotated[list[Criterion], Field(min_length=1)]


def _one_or_more(value: Any) -> Any:
    several = value if isinstance(value, list) else [value]
    if not several or not all(isinstance(each, dict) for each in several):
        raise ValueError("a class with its keys (_target_: …), or a list of one or more of these")
    return value


class Variant(Section):
    mixer: Annotated[Node | list[Node], PlainValidator(_one_or_more)]
    positions: Literal["learned", "none"]
    frozen: bool
    initial_stream: str
    signature: Signature | None


class OptimizerConfig(Section):
    algorithm: Node
    matrices: Node | None
    weight_decay: NotNegative
    schedule: Literal["constant", "cosine"]
    warmup: Annotated[float, Field(ge=0, lt=1)]
    clip_norm: Positive | None


class Model(Section):
    dim: Count
    heads: Count
    layers: Count
    mlp: str | None


class Match(Section):
    parameters: Count | None
    flops: Positive | None


class Training(Section):
    epochs: Count
    batch_size: Count


class FixedDesign(Section):
    kind: Literal["fixed"]
    grid: dict[str, str]
    tuning_seeds: list[Seed]


class TunedDesign(Section):
    kind: Literal["tuned"]
    grid: dict[str, str]
    tuning_seeds: Annotated[list[Seed], Field(min_length=1)]
    extend: Annotated[int, Field(ge=0)]
    looks: Annotated[list[Count], Field(min_length=1)]
    futility: Annotated[float, Field(ge=0, lt=1)]
    budgets: list[Positive]


Design = FixedDesign | TunedDesign


class Designed(Section):
    """What of a configuration is needed before any run of a sweep is composed."""

    design: Annotated[Design, Field(discriminator="kind")]


class Expected(Section):
    idea: str
    baseline: str | None = None
    length: Count = 1
    verdict: Literal["better", "worse", "equal"]
    source: str


def _two_arms(value: Any) -> Any:
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value)):
        raise ValueError("two variants, [idea, what it is compared with]")
    return value


class Analysis(Section):
    alpha: Annotated[float, Field(ge=1e-9, le=0.5)]
    margin_pct: Positive
    family: Literal["all", "track"]
    tuning_seeds: list[Seed]
    report_tuning_seeds: bool
    contrasts: list[Annotated[list[str], PlainValidator(_two_arms)]]
    lengths: list[Count]
    expects: list[Expected]


class Config(Designed):
    """The whole configuration of one run (without Hydra's own part)."""

    track: Node
    variant: Variant
    optimizer: OptimizerConfig
    model: Model
    match: Match
    seed: Seed
    lr: Positive
    gamma: Positive
    mechanism_lr_scale: NotNegative
    budget: Positive
    tunable: list[str]
    baseline: str | None
    analysis: Analysis
    reuse: list[str]
    allow: list[str]
    training: Training
    device: Literal["auto", "cpu", "cuda"]
    threads: Annotated[int, Field(ge=1, le=1024)]
    compile: bool
    precision: Literal["float32", "bfloat16"]
    save_weights: bool
    validations_per_epoch: Count
    log_steps: Annotated[int, Field(ge=0)]


def validated_design(cfg: DictConfig) -> Design:
    """How a sweep spends its runs, checked.

    Args:
        cfg: of the sweep: its default arm, which need not be swept, may lack keys.
    Raises:
        UserError: as `validated`.
    """
    design = cfg.design
    if OmegaConf.is_config(design):
        design = OmegaConf.to_container(design, resolve=True)
    return _checked(Designed, {"design": design}).design


def validated(cfg: DictConfig) -> Config:
    """The task's part of a composed configuration, checked.

    Raises:
        UserError: names every wrong key, what it takes and what was found.
    """
    config = _checked(Config, resolved(cfg))
    if isinstance(config.design, TunedDesign):
        if config.analysis.tuning_seeds != config.design.tuning_seeds:
            raise UserError(TWO_TUNING_SEEDS)
        if config.analysis.report_tuning_seeds:
            raise UserError(
                "analysis.report_tuning_seeds is true: a tuned design's tuning seeds only choose, "
                "and are never reported; leave it false"
            )
    if config.match.parameters and config.match.flops:
        raise UserError("match.parameters and match.flops are both given: arms meet one of them")
    tested = config.track.get("test_lengths")
    for length in config.analysis.lengths:
        if length == 1:
            raise UserError("analysis.lengths names 1, which is judged anyway: name longer ones")
        if not isinstance(tested, list) or length not in tested:
            raise UserError(
                f"analysis.lengths names {length}, which track.test_lengths {tested} lacks: add it "
                f"there, on a track that has this key"
            )
    for key in config.tunable:
        if key == "seed" or config.tunable.count(key) > 1:
            raise UserError(f"tunable names {key}: must name each key once, and never the seed")
        value = OmegaConf.select(cfg, key)
        if key in TUNABLE_GROUPS:
            continue
        if key == "budget":
            raise UserError("tunable names budget, which is swept as it is: more of it always wins")
        if key.startswith("match."):
            raise UserError(f"tunable names {key}, a size that all arms share: it is not tuned")
        if key in ("track", "variant"):
            raise UserError(
                f"tunable names {key}, which is compared, not tuned: of the groups only "
                f"{' and '.join(TUNABLE_GROUPS)} can be tunable"
            )
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise UserError(f"tunable names {key}, which must be a key with a number, not {value}")
    return config


def _checked(section: type[S], container: dict[str, Any]) -> S:
    try:
        return section.model_validate(container)
    except ValidationError as error:
        raise UserError("; ".join(_sentence(e, container) for e in error.errors())) from None


def resolved(cfg: DictConfig) -> dict[str, Any]:
    """The task's part of a configuration as plain values, interpolations followed."""
    task = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    return cast(dict[str, Any], OmegaConf.to_container(task, resolve=True))


def _sentence(error: Any, container: Any) -> str:
    """One of pydantic's errors in words."""
    loc = list(error["loc"])
    if loc[0] == "design":
        del loc[1:2]  # its kind, which pydantic puts there
    *parents, name = loc
    key = ".".join(map(str, loc))
    if error["type"] == "union_tag_invalid":
        return f"{key}.kind must be fixed or tuned, found {error['input']['kind']!r}"
    if error["type"] == "union_tag_not_found":
        return f"{key}.kind is missing: must be fixed or tuned"
    if error["type"] == "extra_forbidden":
        for parent in parents:
            container = container[parent]
        beside = [str(k) for k in container if k != name]
        return f"{key} is no key of this configuration; {no_such(str(name), beside)}"
    if error["type"] == "missing":
        return f"{key} is missing"
    takes = error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"{key} must be {takes}, found {error['input']!r}"


def run_identity(cfg: DictConfig, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Who a run is: the YAMLs that were chosen, the seed, the tunable keys' values, the budget.

    A tunable group's value is the name of its YAML.
    """
    hyper = {
        key: choices[key] if key in TUNABLE_GROUPS else float(OmegaConf.select(cfg, key))
        for key in cfg.tunable
    }
    return {
        "track": choices["track"],
        "variant": choices["variant"],
        "seed": cfg.seed,
        "hyper": hyper,
        "budget_factor": float(cfg.budget),
    }


def run_name(*, _root_: DictConfig) -> str:
    """`track/variant/lr=0.003,gamma=1/seed=0`: the folder of a run within its sweep.

    At another budget than 1 it is `track/variant/lr=0.003,gamma=1/budget=0.5/seed=0`.
    """
    who = run_identity(_root_, _root_.hydra.runtime.choices)
    hyper = ",".join(
        f"{key}={value if isinstance(value, str) else format(value, '.12g')}"
        for key, value in who["hyper"].items()
    )
    factor = who["budget_factor"]
    budget = "" if factor == 1 else f"budget={factor:.12g}/"
    return f"{who['track']}/{who['variant']}/{hyper or 'default'}/{budget}seed={who['seed']}"


OmegaConf.register_new_resolver("run_name", run_name, replace=True)


def config_hashes(cfg: DictConfig) -> dict[str, str]:
    """SHA-256 over what each group resolves to, the tunable keys' values left out.

    A tunable group hashes to the same thing whatever is chosen; beside it, what was chosen.
    Learning rates, compilation and precision count as training's; what is predicted of a variant,
    and what is said about a track, changes no run. The budget is who a run is, not how it is set
    up. Two runs with equal hashes, hyper and budget were set up alike, whatever their YAMLs are
    called.
    """
    tuned_groups = [key for key in cfg.tunable if key in TUNABLE_GROUPS]
    task = _masked(cfg)
    # the name of a YAML does not say what is in it, and it may be edited
    task["model"]["match"] = task["match"]  # what was declared; the width is each arm's own
    inside = {f"tuned {group}": digest(task[group]) for group in tuned_groups}
    task |= {group: f"tunable:{group}" for group in tuned_groups}
    beside = ("lr", "mechanism_lr_scale", "compile", "precision")
    task["training"] |= {key: task[key] for key in beside}
    del task["variant"]["signature"]
    for key in ASIDE:
        task["track"].pop(key, None)
    return {group: digest(task[group]) for group in GROUPS} | inside


def acting(cfg: DictConfig, is_scaled: bool) -> list[str]:
    """The tunable keys that change anything in this run; a strength of what is not there does not.

    Args:
        is_scaled: whether anything trains at `lr · mechanism_lr_scale`.
    """
    task = _masked(cfg)
    inside = json.dumps([task[group] for group in GROUPS])
    always = {"lr", *TUNABLE_GROUPS, *(["mechanism_lr_scale"] if is_scaled else [])}
    return [key for key in cfg.tunable if key in always or f'"tunable:{key}"' in inside]


def _masked(cfg: DictConfig) -> dict[str, Any]:
    """What a run is made with, `tunable:KEY` in place of each tunable key but a group."""
    masked = cfg.copy()
    OmegaConf.set_struct(masked, False)
    for key in set(cfg.tunable) - set(TUNABLE_GROUPS):
        OmegaConf.update(masked, key, f"tunable:{key}")
    return resolved(masked)


def digest(value: Any) -> str:
    """SHA-256, in hex, of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
