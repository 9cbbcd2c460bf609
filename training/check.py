"""One dry pass, before anything is trained: does a track or a variant keep its promises?

It asks what training, probes and costs will ask, on a few examples, so that a mistake in a new one
is told in one line that names the class, the method, what was expected and what was found.
"""

from __future__ import annotations

import copy
import math
import re
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.mixer import Observed, named
from models.network import Network, mechanisms
from records import record as recorded
from tracks.track import Split, Track
from training.build import build, build_network, build_track
from training.config import Config
from training.cost import cost
from training.errors import UserError
from training.fit import evaluate
from training.observe import OVER, artifacts, check_criteria, expansions, read_by_mixers
from training.place import told
from training.probes import probes
from training.probes.ablation import outermost, without
from training.probes.trained import Trained
from training.questions import (
    asked,
    can_be_read,
    each_alone,
    must,
    same_again,
    shape_of,
    shaped,
    takes_a_step,
)
from training.record import arrays, measured
from training.seeding import numpy_stream

FEW = 3  # examples: a number that is unlikely to be a size of anything else


def check(config: Config) -> tuple[Track, Network]:
    """Build what a configuration says and pass a few examples through it; track and network.

    Raises:
        UserError: whatever cannot be built or does not keep to what its base class says.
    """
    alone = build_track(config)
    with told(f"{named(alone)} cannot be used"):
        _check_description(alone)
    track, network, start, _ = build(config)
    must(isinstance(track, Track), named(alone, "to"), "give the track", type(track).__name__)
    _check_data(alone, track, build_track(config, partial(_otherwise, config.seed)))
    again = build_network(config, track).to(track.train.inputs.device)
    for each in (network, start, again):
        each.eval()
    _check_causal(track, network)
    few = _few(track)
    _check_passes(few, network)
    same_again(network, again, few.validation.inputs)
    for name, split in few.splits.items():
        if name != "train":
            _check_scores(few, network, name, split)
    each_alone(few, network, few.validation)
    takes_a_step(track, again, config)
    _check_mechanisms(few, network)
    blocks = _check_signatures(few, network, start)
    if config.variant.signature:
        check_criteria(config.variant.signature, network, blocks)
    _check_measurements(few, network)
    return track, network


def _otherwise(seed: int, split: str) -> np.random.Generator:
    """The stream of a split; that of `train` is another one."""
    return numpy_stream(seed, "data", split, *(["other"] if split == "train" else []))


def _few(track: Track) -> Track:
    """The track with a few examples in each split."""
    found = copy.copy(track)
    found.splits = {
        name: Split(split.inputs[:FEW], split.targets[:FEW]) for name, split in track.splits.items()
    }
    return found


def _check_data(track: Track, again: Track, otherwise: Track) -> None:
    """Splits are as they must be, and each drawn from the stream of its name alone.

    Args:
        again: the same track, built once more: global random streams have moved on.
        otherwise: the same but for the stream of `train`.
    """
    where = named(track, "__init__")
    for name, split in track.splits.items():
        sizes = len(split.inputs), len(split.targets)
        must(sizes[0] == sizes[1] > 0, where, f"give as many inputs as targets of {name}", sizes)
        for part, values in (("inputs", split.inputs), ("targets", split.targets)):
            finite = not values.is_floating_point() or bool(values.isfinite().all())
            must(finite, where, f"give finite {part} of {name}", "some that are not")
        expected = f"draw {name} from streams({name!r}) alone"
        same = _equal(split, again.splits[name])
        must(same, where, expected, "other data when it is built again")
        same = name == "train" or _equal(split, otherwise.splits[name])
        must(same, where, expected, "other data where streams('train') draws others")


def _equal(one: Split, other: Split) -> bool:
    other = other.to(one.inputs.device)
    return one.inputs.equal(other.inputs) and one.targets.equal(other.targets)


def _check_description(track: Track) -> None:
    """What is said of metrics, of time, and of the grids of further splits."""
    where = named(track, "metrics")
    known = track.metric in track.metrics
    must(known, where, f"say what {track.metric}, the primary metric, is like", [*track.metrics])
    overlap = track.overlap
    whole = isinstance(overlap, int) and overlap >= 0
    must(whole, named(track, "overlap"), "be a whole number, at least 0", overlap)
    for name, metric in track.metrics.items():
        can_be_read(recorded.Metric, {"name": name, **asdict(metric)}, f"{where}: {name}")
    for name, scores in (track.references | track.fitted).items():
        where = f"{named(track, '__init__')}: reference {name}"
        can_be_read(recorded.Secondary, {"scores": scores}, where)
    axis, where = track.time_axis, named(track, "time_axis")
    if axis is None:
        must(not track.requires_causal, where, "say which axis is time, as requires_causal", None)
    else:
        known = type(axis) is int and 0 <= axis < len(track.axes)
        must(
            known,
            where,
            f"be None, or an axis from 0 to {len(track.axes) - 1} of axes {track.axes}",
            axis,
        )
        shape, steps = tuple(track.train.inputs.shape), track.axes[axis]
        fits = len(shape) > 1 + axis and shape[1 + axis] >= steps
        expected = f"have its {steps} steps along dimension {1 + axis} of the inputs"
        must(fits, where, expected, f"inputs {shape}")
    if len(track.axes) > 1:
        for name, split in track.tests.items():
            _check_grid(track, name, split)


def _check_grid(track: Track, name: str, split: Split) -> None:
    """Of several axes nobody could tell from the tokens how long each is."""
    shape, found = tuple(track.train.inputs.shape[1:]), tuple(split.inputs.shape[1:])
    expected = f"give {name} on the grid of training, {track.axes}, as it has several axes"
    must(found == shape, named(track, "__init__"), expected, f"inputs (n, *{found})")
    said = re.fullmatch(r"test@(\d+(?:x\d+)+)", name)
    grid = tuple(map(int, said[1].split("x"))) if said else track.axes
    must(grid == tuple(track.axes), named(track, "__init__"), expected, f"{grid} in its name")


def _check_causal(track: Track, network: Network) -> None:
    """Every mixer says whether it looks ahead, and none does where the track forbids it."""
    for mixer in network.mixers:
        where = named(mixer, "causal")
        with told(where):
            causal = mixer.causal
        must(isinstance(causal, bool), where, "be true or false", repr(causal))
        if track.requires_causal and not causal:
            raise UserError(
                f"variant.mixer: {type(track).__name__} requires mixers that are causal, and "
                f"{type(mixer).__name__} is not: choose another, or say causal: true if it has it"
            )


def _check_passes(few: Track, network: Network) -> None:
    """Shapes on the way of a training step, and its loss."""
    inputs, targets, n = few.train.inputs, few.train.targets, math.prod(few.axes)
    b, where = len(inputs), named(few, "encoder")
    with told(f"{where} cannot be used"):
        tokens = network.embed(inputs)
    expected = f"give tokens (B, N, d) with B {b} and N {n}, as axes {few.axes}"
    must(shape_of(tokens)[:2] == (b, n) and tokens.ndim == 3, where, expected, shape_of(tokens))
    with asked("a pass of the network", few.train), shaped(network):
        outputs = network(inputs)
    where, expected = named(few, "head"), f"give (B, N, out) with B {b} and N {n}"
    must(shape_of(outputs)[:2] == (b, n) and outputs.ndim == 3, where, expected, shape_of(outputs))
    with asked(named(few, "readout"), few.train):
        predictions = few.readout(outputs)
    where = named(few, "loss")
    with asked(where, few.train):
        loss = few.loss(predictions, targets)
    _per_example(loss, few.train, where)
    must(loss.requires_grad, where, "depend on the network", "no gradient")


def _per_example(values: Any, split: Split, where: str) -> None:
    found, n = shape_of(values), len(split)
    must(found == (n,), where, f"give one number per example, (B,) = ({n},)", found)


def _check_scores(few: Track, network: Network, name: str, split: Split) -> None:
    """What is said of a split's examples, and every score of it."""
    if name.startswith("test@"):
        _check_length(few, network, name, split)
    where = named(few, "predict")
    with asked(f"{where} on {name}", split):
        predictions = few.predict(network, split.inputs)
    must(isinstance(predictions, Tensor), where, "give a Tensor", type(predictions).__name__)
    must(predictions.requires_grad, where, "keep gradients, which a probe follows", "none")
    where = named(few, "scores")
    with asked(where, split), torch.no_grad():
        scores = few.measured(predictions, split.targets)
    must(isinstance(scores, dict), where, "give scores by name", type(scores).__name__)
    must(few.metric in scores, where, f"give the primary metric {few.metric}", [*scores])
    for metric, values in scores.items():
        known, expected = metric in few.metrics, f"say what the score {metric} is like"
        must(known or metric == "loss", named(few, "metrics"), expected, [*few.metrics])
        _per_example(values, split, f"{where}: {metric}")


def _check_length(few: Track, network: Network, name: str, split: Split) -> None:
    """A further test split of another length needs mixers, and positions, that go so far."""
    with told(f"{named(few, 'encoder')} on {name} cannot be used"), torch.no_grad():
        tokens = network.embed(split.inputs)
    n, built = tokens.shape[1], math.prod(few.axes)
    if n == built:
        return
    if network.positions is not None and n > built:
        raise UserError(
            f"variant.positions is learned, for {built} tokens, and {name} has {n}: say "
            f"variant.positions=none, so that the mixer alone gives order, or take out that split"
        )
    for mixer in network.mixers:
        if not mixer.any_length:
            raise UserError(
                f"variant.mixer: {type(mixer).__name__} is built for {built} tokens, and {name} "
                f"has {n}: take one that promises any length (any_length), or take out that split"
            )


@torch.no_grad()
def _check_mechanisms(few: Track, network: Network) -> None:
    """Each can be taken out, and costs be counted."""
    for mechanism in mechanisms(network).values():
        for name, _ in mechanism.named_parameters():
            says = mechanism.trains(name)
            sound = says is None or says.scale is None or 0 <= says.scale < math.inf
            where = f"{named(mechanism, 'trains')}({name!r})"
            must(sound, where, "give a scale that is None, or a number of 0 or more", says)
    for name, mechanism in outermost(network).items():
        with (
            told(f"{named(mechanism, 'neutral')} cannot be used"),
            without(network, {name: mechanism}),
        ):
            few.predict(network, few.validation.inputs)
    ruled = [type(m).__name__ for m in mechanisms(network).values() if m.flop_rules]
    of = f"flop_rules of {', '.join(dict.fromkeys(ruled))}" if ruled else "counting FLOPs"
    with told(f"{of} cannot be used"), torch.enable_grad():
        cost(network, few, FEW)


@torch.no_grad()
def _check_signatures(few: Track, network: Network, start: Network) -> list[dict[str, Observed]]:
    """Every mixer's signature, which must be numbers by name, and what figures need of it."""
    blocks: list[dict[str, Observed]] = []
    over: dict[str, str] = {}
    read = read_by_mixers(network, few.validation.inputs)
    for mixer, before, x in zip(network.mixers, start.mixers, read, strict=True):
        where = named(mixer, "signature")
        with told(f"{where} cannot be used"):
            found = mixer.signature(before, x)
        must(isinstance(found, dict), where, "give metrics by name", type(found).__name__)
        for metric, seen in found.items():
            must(
                isinstance(seen, Observed) and isinstance(seen.value, float) and seen.over in OVER,
                where,
                f"give {metric} as Observed(a float, over=one of {', '.join(OVER)})",
                seen,
            )
            first = over.setdefault(metric, seen.over)
            expected = f"gather {metric} over blocks as an earlier block does, by {first}"
            must(seen.over == first, where, expected, seen.over)
        where = named(mixer, "artifacts")
        with told(f"{where} cannot be used"):
            kept = mixer.artifacts(x)
            tensors = isinstance(kept, dict) and all(isinstance(a, Tensor) for a in kept.values())
            must(tensors, where, "give tensors by name", kept)
            arrays(kept)
        blocks.append(found)
    grown = expansions(network, few.validation.inputs)
    return [found | each for found, each in zip(blocks, grown, strict=True)]


def _check_measurements(few: Track, network: Network) -> None:
    """All that is asked when training is over: scores, what they are like, probes, artifacts."""
    with told(f"{named(few)} cannot be used"):
        by_split = {n: evaluate(network, few, s) for n, s in few.splits.items() if n != "train"}
        measured(few, by_split)
        artifacts(network, few)
    trained = Trained(network, few, by_split, finished=True)
    for name, probe in probes().items():
        with told(f"the probe {name} cannot be used"):
            probe(trained)
