"""What was typed, turned into what was meant, before Hydra composes anything from it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

from hydra._internal.utils import get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString, Sweep

from training.errors import UserError, no_such
from training.paths import CONF

MOST = 10_000  # values that one key may take in a sweep
SEEDS = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")  # 0-7
TUNING_SEEDS = ("analysis.tuning_seeds", "design.tuning_seeds")
EACH_RUN = "each_run"  # Hydra's tag on what is for each run to take, as it was typed
DELETED = f"+{EACH_RUN}"  # the key of a deletion that is, which cannot be tagged


def typed() -> list[str]:
    """This process's command line as it was typed, from the script on; argv may be rewritten."""
    line, script = sys.orig_argv, sys.argv[0]
    return line[line.index(script) :] if script in line else sys.argv


def meant(arguments: Sequence[str]) -> list[str]:
    """A command line, without the program, as Hydra is to have it.

    `seed=0-7` is a sweep over eight seeds; seeds that are given more than once, as bash makes them
    of `seed={0..7}`, are one sweep. `tuning_seeds=0-3`, a design's or analysis', is a list of four.
    An experiment is a sweep, with or without -m. In a sweep, what is said of a key below a group
    (`variant.mixer.rank=4`, `~variant.mixer.rank`) is left to each run: the default arm, which need
    not be swept, may lack it.

    Raises:
        UserError: a key given twice, a sweep without -m, or over nothing, a path for a name.
        OverrideParseException: what is no override at all.
    """
    given = get_args_parser().parse_intermixed_args(list(arguments))
    if given.help or given.hydra_help or given.shell_completion or given.info:
        return list(arguments)
    flags = [each for each in arguments if each not in given.overrides]
    overrides = understood(given.overrides)
    values = {override.key_or_group: override.value() for override in overrides}
    said = given.run or given.cfg or given.multirun or "hydra.mode" in values
    if not said and values.get("experiment") is not None:
        flags.append("-m")
        given.multirun = True
    if not (given.multirun or values.get("hydra.mode") == "MULTIRUN"):
        for override in overrides:
            if override.is_sweep_override():
                raise UserError(_wants_m(override, given.overrides, bool(given.cfg)))
        return flags + [str(override.input_line) for override in overrides]
    return flags + [_for_each_run(override) for override in overrides]


def understood(lines: Sequence[str], loader: ConfigLoader | None = None) -> list[Override]:
    """Overrides, checked, with all seeds in one; `loader` lists the options that a glob means.

    Raises:
        UserError: a key given twice, a sweep over nothing or too much, a path for a name.
        OverrideParseException: what is no override at all.
    """
    parser = OverridesParser.create(loader)
    given = parser.parse_overrides([_as_typed(line) for line in lines])
    overrides = _seeds_in_one([_tuning_seeds(each, parser) for each in given], parser)
    first: dict[tuple[str, str | None], Override] = {}
    for override in overrides:
        if override.is_delete():
            continue
        before = first.setdefault((override.key_or_group, override.package), override)
        if before is not override:
            raise UserError(_twice(before, override))
        _check_values(override)
    return overrides


def axes(
    grid: Mapping[str, str], lines: Sequence[str], loader: ConfigLoader
) -> dict[str, list[str]]:
    """What a sweep varies: key → an override for each of its values; one for what is not swept.

    Args:
        grid: an experiment's or a design's, key → values; what the command line, `lines`, says of
            a key replaces it.
    Raises:
        UserError: as `understood`, or an experiment is swept.
    """
    planned = understood([f"{key}={values}" for key, values in grid.items()], loader)
    values: dict[str, list[str]] = {}
    for override in [*planned, *understood(lines, loader)]:
        if override.key_or_group == "experiment" and override.is_sweep_override():
            raise UserError(
                f"experiment cannot be swept ({override.input_line}): each one has a grid of its "
                f"own; run them one after the other"
            )
        key = override.get_key_element()
        if override.is_sweep_override():
            values[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
        else:
            values[key] = [f"{key}={override.get_value_element_as_str()}"]
    return values


def combinations(values: Mapping[str, list[str]]) -> list[list[str]]:
    """The overrides of every run of a sweep: each value of a key with each of all others."""
    return [list(run) for run in product(*values.values())]


def _as_typed(line: str) -> str:
    """An override as it was before `_for_each_run`."""
    if f"=tag({EACH_RUN}," not in line:
        return line
    override = OverridesParser.create().parse_override(line)
    [value] = override.value().list  # type: ignore[union-attr]
    return str(value) if line.startswith(DELETED) else f"{override.get_key_element()}={value}"


def _for_each_run(override: Override) -> str:
    """A key below a group, as a sweep over its one value: Hydra leaves such a one to the runs."""
    line = str(override.input_line)
    group, _, below = override.key_or_group.partition(".")
    alone = override.is_sweep_override() or override.is_hydra_override() or group == "design"
    if alone or not (below and (CONF / group).is_dir()):
        return line
    if override.is_delete():
        deletion = QuotedString(line, Quote.single).with_quotes()
        return f"{DELETED}=tag({EACH_RUN},choice({deletion}))"
    value = QuotedString(override.get_value_string(), Quote.single).with_quotes()
    return f"{override.get_key_element()}=tag({EACH_RUN},choice({value}))"


def _seeds_in_one(overrides: list[Override], parser: OverridesParser) -> list[Override]:
    """The same overrides with every `seed=` in the place of the first, and `0-7` written out.

    A single one without such a range stays as it is.
    """
    seeds = [each for each in overrides if each.key_or_group == "seed" and not each.is_delete()]
    if not seeds:
        return overrides
    for each in seeds:
        _check_values(each)
    given = [value for each in seeds for value in _values(each)]
    if len(seeds) == 1 and not any(map(SEEDS.fullmatch, given)):
        return overrides
    values = dict.fromkeys(seed for value in given for seed in _seeds(value, "seed"))
    if len(values) > MOST:
        raise UserError(_too_many(" ".join(str(each.input_line) for each in seeds)))
    [one] = parser.parse_overrides([f"{seeds[0].get_key_element()}={','.join(values)}"])
    rest = [each for each in overrides if each not in seeds]
    rest.insert(overrides.index(seeds[0]), one)
    return rest


def _tuning_seeds(override: Override, parser: OverridesParser) -> Override:
    """`design.tuning_seeds=0-3,7` as the list that it means; any other override as it is."""
    key = override.key_or_group
    if key not in TUNING_SEEDS or override.is_delete():
        return override
    value = override.value()
    given = [*map(_text, value)] if isinstance(value, list) else [*_values(override)]
    if not all(each.isdecimal() or SEEDS.fullmatch(each) for each in given):
        return override
    seeds = dict.fromkeys(seed for each in given for seed in _seeds(each, key))
    [one] = parser.parse_overrides([f"{override.get_key_element()}=[{','.join(seeds)}]"])
    return one


def _seeds(value: str, key: str) -> Iterator[str]:
    """`0-7` → 0, 1, … 7; anything else as it is.

    Raises:
        UserError: a range that falls, or too long a one.
    """
    ends = SEEDS.fullmatch(value)
    if not ends:
        yield value
        return
    first, last = map(int, ends.groups())
    if first > last:
        raise UserError(f"{key}={value}: a range must rise, as {key}={last}-{first}")
    if last - first >= MOST:
        raise UserError(_too_many(f"{key}={value}"))
    yield from map(str, range(first, last + 1))


def _values(override: Override) -> Iterator[str]:
    """What an override sets its key to, one after the other; nothing where only Hydra can tell.

    Raises:
        UserError: a range that is none, or stands in a list.
    """
    if not override.is_sweep_override():
        yield _text(override.value())
    elif override.is_discrete_sweep() and not (
        _is_glob(override) and override.config_loader is None
    ):
        try:
            for value in override.sweep_iterator():
                if isinstance(value, Sweep):
                    raise UserError(
                        f"{override.input_line}: a range cannot stand in a list: write its values "
                        f"out (of seeds 0-3,8 are five)"
                    )
                yield _text(value)
        except ValueError as error:  # range(0,8,0)
            raise UserError(f"{override.input_line}: {error}") from None


def _is_glob(override: Override) -> bool:
    return override.value_type is not None and override.value_type.name == "GLOB_CHOICE_SWEEP"


def _text(value: Any) -> str:
    return value.text if isinstance(value, QuotedString) else str(value)


def _check_values(override: Override) -> None:
    """Raise a UserError for a sweep over nothing or too much, and for a path in a name's place."""
    line = str(override.input_line)
    if override.is_interval_sweep():
        raise UserError(f"{line} has no end of values: list those to try, as a,b,c")
    values = list(islice(_values(override), MOST + 1))
    listed = override.is_range_sweep() or (override.config_loader and _is_glob(override))
    unknown = override.is_sweep_override() and not listed  # as a glob's options, without a loader
    if not values and not unknown:
        raise UserError(f"{line} is a sweep over nothing; range(8) and, of seeds, 0-7 are eight")
    if len(values) > MOST:
        raise UserError(_too_many(line))
    group = override.key_or_group
    if "." in group or not (CONF / group).is_dir():
        return
    for value in values:
        if value.endswith(".yaml") or not {"", ".", ".."}.isdisjoint(value.split("/")):
            names = [path.stem for path in (CONF / group).glob("*.yaml")]
            raise UserError(
                f"{group}={value}: must be the name of a YAML in conf/{group}, without folder and "
                f".yaml; {no_such(Path(value).stem, names)}"
            )


def _wants_m(sweep: Override, lines: Sequence[str], shown: bool) -> str:
    """That one of the typed lines is a sweep where a single run was asked for, or to be shown."""
    key = sweep.key_or_group
    typed = " ".join(line for line in lines if line.partition("=")[0].lstrip("+") == key)
    if shown:
        return f"{typed}: --cfg shows one run; give {key} one value"
    hint = f" (a list is {key}=[a,b])" if sweep.is_choice_sweep() and key != "seed" else ""
    return f"{typed} is a sweep, which wants -m: python train.py -m {typed} …{hint}"


def _too_many(line: str) -> str:
    return f"{line[:60]} sweeps over more than {MOST} values: sweep over fewer"


def _twice(one: Override, two: Override) -> str:
    key = one.key_or_group
    both = f"{one.input_line} {two.input_line}: {key} is given twice; say it once"
    if one.is_hydra_override():
        return both
    return f"{both}, or sweep over both: {key}={one.get_value_string()},{two.get_value_string()}"
