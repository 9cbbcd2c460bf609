"""One dry pass, before anything is trained: does a track or a variant keep its promises?

It asks what training, probes and costs will ask, on a few examples, so that a mistake in a new one
is told in one line that names the class, the method, what was expected and what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from models.mixer import Observed
from models.network import Network, mechanisms
from tracks.track import Split, Track
from training.build import build, build_track
from training.config import Config
from training.cost import flops_per_example
from training.errors import UserError
from training.observe import OVER, check_criteria, read_by_mixers
from training.place import raised_by
from training.probes.ablation import neutralised

FEW = 3  # examples: a number that is unlikely to be a size of anything else
Got = TypeVar("Got")


def check(config: Config) -> tuple[Track, Network]:
    """Build what a configuration says and pass a few examples through it; track and network.

    Raises:
        UserError: whatever cannot be built or does not keep to what its base class says.
    """
    _check_data(build_track(config), build_track(config))
    track, network, start, _ = build(config)
    network.eval()
    start.eval()
    _check_order(track, network)
    _check_passes(track, network)
    for name, split in track.splits.items():
        if name != "train":
            _check_scores(track, network, name, _few(split))
    _check_mechanisms(track, network)
    blocks = _check_signatures(track, network, start)
    if config.variant.signature:
        check_criteria(config.variant.signature, network, blocks)
    return track, network


def _name(of: object, method: str) -> str:
    cls = type(of)
    return f"{cls.__module__}.{cls.__qualname__}.{method}"


def _ask(where: str, call: Callable[[], Got]) -> Got:
    """The answer, or a UserError that says where it went wrong."""
    try:
        return call()
    except UserError:
        raise
    except Exception as error:  # whatever the code of a track or mechanism raises
        raise UserError(f"{where} cannot be used: {raised_by(error)}") from error


def _must(holds: bool, where: str, expected: str, found: object) -> None:
    if not holds:
        raise UserError(f"{where} must {expected}, found {found}")


def _few(split: Split) -> Split:
    return Split(split.inputs[:FEW], split.targets[:FEW])


def _check_data(track: Track, again: Track) -> None:
    """Splits are as they must be, and drawn from the streams that were given alone.

    Args:
        again: the same track, built once more: global random streams have moved on.
    """
    where = _name(track, "__init__")
    for name, split in track.splits.items():
        sizes = len(split.inputs), len(split.targets)
        _must(sizes[0] == sizes[1] > 0, where, f"give as many inputs as targets of {name}", sizes)
        finite = not split.inputs.is_floating_point() or bool(split.inputs.isfinite().all())
        _must(finite, where, f"give finite inputs of {name}", "some that are not")
        twin = again.splits[name]
        _must(
            split.inputs.equal(twin.inputs) and split.targets.equal(twin.targets),
            where,
            f"draw {name} from streams({name!r}) alone",
            "other data when it is built again",
        )
    where = _name(track, "metrics")
    known = track.metric in track.metrics
    _must(known, where, f"say what {track.metric}, the primary metric, is like", [*track.metrics])
    timeless = track.requires_causal and track.time_axis is None
    where = _name(track, "time_axis")
    _must(not timeless, where, "say which axis is time, where requires_causal is true", None)


def _check_order(track: Track, network: Network) -> None:
    """Nothing looks ahead where the track forbids it."""
    for mixer in network.mixers:
        if track.requires_causal and not mixer.causal:
            raise UserError(
                f"variant.mixer: {type(track).__name__} requires mixers that are causal, and "
                f"{type(mixer).__name__} is not: choose another, or say causal: true if it has it"
            )


def _check_passes(track: Track, network: Network) -> None:
    """Shapes on the way of a training step, and its loss."""
    few, n = _few(track.train), math.prod(track.axes)
    where = _name(track, "encoder")
    tokens = _ask(where, lambda: network.embed(few.inputs))
    expected = f"give tokens (B, N, d) with B {len(few)} and N {n}, as axes {track.axes}"
    _must(tokens.ndim == 3 and tokens.shape[:2] == (len(few), n), where, expected, _shape(tokens))
    hooks = [mixer.register_forward_hook(_same_shape) for mixer in network.mixers]
    try:
        outputs = _ask("a pass of the network", lambda: network(few.inputs))
    finally:
        for hook in hooks:
            hook.remove()
    _must(
        outputs.ndim == 3 and outputs.shape[:2] == (len(few), n),
        _name(track, "head"),
        f"give (B, N, out) with B {len(few)} and N {n}",
        _shape(outputs),
    )
    predictions = _ask(_name(track, "readout"), lambda: track.readout(outputs))
    where = _name(track, "loss")
    loss = _ask(where, lambda: track.loss(predictions, few.targets))
    _per_example(loss, few, where)
    _must(loss.requires_grad, where, "depend on the network", "no gradient")


def _shape(found: Any) -> object:
    return tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__


def _same_shape(mixer: nn.Module, given: tuple[Tensor, ...], found: Any) -> None:
    expected = tuple(given[0].shape)
    where = _name(mixer, "forward")
    _must(_shape(found) == expected, where, f"give (B, N, d) = {expected}", _shape(found))


def _per_example(values: Any, split: Split, where: str) -> None:
    found, n = _shape(values), len(split)
    _must(found == (n,), where, f"give one number per example, (B,) = ({n},)", found)


def _check_scores(track: Track, network: Network, name: str, few: Split) -> None:
    """What is said of a split's examples, and every score of it."""
    if name.startswith("test@"):
        _check_length(track, network, name, few)
    where = _name(track, "predict")
    with torch.no_grad():
        predictions = _ask(f"{where} on {name}", lambda: track.predict(network, few.inputs))
        scores = _ask(_name(track, "scores"), lambda: track.measured(predictions, few.targets))
    where = _name(track, "scores")
    _must(isinstance(scores, dict), where, "give scores by name", type(scores).__name__)
    _must(track.metric in scores, where, f"give the primary metric {track.metric}", [*scores])
    for metric, values in scores.items():
        known = metric in track.metrics or metric == "loss"
        _must(
            known, _name(track, "metrics"), f"say what the score {metric} is like", [*track.metrics]
        )
        _per_example(values, few, f"{where}: {metric}")


def _check_length(track: Track, network: Network, name: str, few: Split) -> None:
    """A further test split of another length needs mixers, and positions, that go so far."""
    with torch.no_grad():
        tokens = _ask(f"{_name(track, 'encoder')} on {name}", lambda: network.embed(few.inputs))
    n, built = tokens.shape[1], math.prod(track.axes)
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
def _check_mechanisms(track: Track, network: Network) -> None:
    """They can be taken out, and their costs be counted."""
    few = _few(track.validation)
    names = ", ".join({type(m).__name__ for m in mechanisms(network).values()})
    with neutralised(network):
        _ask(f"neutral() of {names}", lambda: track.predict(network, few.inputs))
    _ask(f"flop_rules of {names}", lambda: flops_per_example(network, track, few.inputs))


@torch.no_grad()
def _check_signatures(track: Track, network: Network, start: Network) -> list[dict[str, Observed]]:
    """Every mixer's signature, which must be numbers by name."""
    blocks = []
    read = read_by_mixers(network, track.validation.inputs[:FEW])
    for mixer, before, x in zip(network.mixers, start.mixers, read, strict=True):
        where = _name(mixer, "signature")
        found = _ask(where, lambda m=mixer, b=before, x=x: m.signature(b, x))  # type: ignore[misc]
        _must(isinstance(found, dict), where, "give metrics by name", type(found).__name__)
        for metric, seen in found.items():
            _must(
                isinstance(seen, Observed) and isinstance(seen.value, float) and seen.over in OVER,
                where,
                f"give {metric} as Observed(a float, over=one of {', '.join(OVER)})",
                seen,
            )
        _ask(_name(mixer, "artifacts"), lambda m=mixer, x=x: m.artifacts(x))  # type: ignore[misc]
        blocks.append(found)
    return blocks
