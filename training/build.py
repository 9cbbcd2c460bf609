"""From configuration to objects: the only place where a `_target_` is followed."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, get_type_hints

import torch
from hydra.utils import get_class
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from torch import nn

from models.network import Network, initialise, mechanism_parameters, mechanisms
from tracks.track import Track
from training.config import ALLOWED_TARGETS, Config, Node
from training.errors import UserError, no_such
from training.probes import check_criteria
from training.seeding import numpy_stream, torch_seed, torch_stream
from training.step import check_machine

OPTIMIZER_GIVEN = frozenset({"params", "lr", "weight_decay"})  # keys of their own in the YAML


def build(config: Config) -> tuple[Track, Network, Network, list[torch.optim.Optimizer]]:
    """Track, network, the network as it starts, and its optimizers, on the run's device.

    Sets the process up as the run wants it: threads, and torch's global stream for dropout.

    Raises:
        UserError: whatever in the configuration cannot be built, named by its key.
    """
    if config.device == "cuda" and not torch.cuda.is_available():
        raise UserError("device is cuda, but torch finds no CUDA device here: use cpu or auto")
    cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda" if cuda else "cpu")
    check_machine(config, device)
    torch.set_num_threads(config.threads)

    torch.manual_seed(torch_seed(config.seed, "constructors"))  # what they draw does not stay
    track = build_track(config)
    network = build_network(config, track).to(device)  # which it tries on the CPU
    track = track.to(device)
    if config.variant.signature:
        check_criteria(config.variant.signature, network, track)
    optimizers = build_optimizers(config, network)
    torch.manual_seed(torch_seed(config.seed, "dropout"))  # last: constructors draw from it too
    return track, network, copy.deepcopy(network), optimizers


def build_track(config: Config) -> Track:
    """The track, each split drawn from a stream of its own, such as `data/train`.

    Raises:
        UserError: the track's YAML has a key or value that its class refuses.
    """
    make = factory("track", config.track)
    track: Track = _call(
        "track", make, streams=lambda split: numpy_stream(config.seed, "data", split)
    )
    return track


def build_network(config: Config, track: Track) -> Network:
    """The network for a track, its parameters drawn from the variant's `initial_stream`.

    Raises:
        UserError: the variant's or model's YAML has a key or value that its class refuses, a
            parameter starts at random and no rule says how, or the variant is not causal where the
            track requires it.
    """
    make = partial(
        Network,
        in_features=track.in_features,
        out_features=track.out_features,
        axes=track.axes,
        mixer=factory("variant.mixer", config.variant.mixer),
        **config.model.model_dump(),
    )
    with _unset_is_nan():
        network: Network = _call("variant.mixer", make)
        again: Network = _call("variant.mixer", make)  # torch's global stream has moved on
    streams = partial(torch_stream, config.seed, config.variant.initial_stream)
    _call("variant.mixer", partial(initialise, network, again, streams))
    inputs = track.train.inputs[:2]
    with torch.no_grad():
        found, expected = network(inputs).shape, (*inputs.shape[:2], track.out_features)
    if found != expected:
        raise UserError(f"variant.mixer: the network gives {tuple(found)}, must give {expected}")
    if track.requires_causal and not all(mixer.causal for mixer in network.mixers):
        raise UserError("the track requires a causal mixer, and this variant's is not causal")
    if config.variant.frozen:
        for mechanism in mechanisms(network).values():
            mechanism.requires_grad_(False)
    return network


@contextmanager
def _unset_is_nan() -> Iterator[None]:
    """Memory that nobody sets reads NaN, which never equals itself: no start value by accident."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("error")  # fills what torch.empty gives
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


def build_optimizers(config: Config, network: Network) -> list[torch.optim.Optimizer]:
    """The optimizer over all trainable parameters, or two where `matrices` takes its own.

    Weight decay acts on weight matrices alone; a mechanism's parameters train at
    lr · mechanism_lr_scale.

    Raises:
        UserError: the optimizer's YAML has a key or value that its class refuses.
    """
    settings = config.optimizer
    mechanism = mechanism_parameters(network)
    inside, matrices, rest = [], [], []  # weight matrices of the blocks, others, all else
    first = dict(network.named_parameters())  # of one that modules share, its first name alone
    for prefix, module in network.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if name not in first or name in mechanism or not parameter.requires_grad:
                continue
            if not (isinstance(module, nn.Linear) and parameter.ndim == 2):
                rest.append(parameter)
            elif settings.matrices and name.startswith("blocks."):
                inside.append(parameter)
            else:
                matrices.append(parameter)
    own = [parameter for parameter in mechanism.values() if parameter.requires_grad]
    decay = settings.weight_decay
    groups = [
        {"params": matrices, "weight_decay": decay},
        {"params": rest, "weight_decay": 0.0},
        {"params": own, "weight_decay": 0.0, "lr": config.lr * config.mechanism_lr_scale},
    ]
    planned = [("optimizer.algorithm", settings.algorithm, groups)]
    if settings.matrices:
        groups = [{"params": inside, "weight_decay": decay}]
        planned.append(("optimizer.matrices", settings.matrices, groups))
    return [
        _call(
            key,
            factory(key, node, OPTIMIZER_GIVEN),
            params=[group for group in groups if group["params"]],
            lr=config.lr,
        )
        for key, node, groups in planned
    ]


def factory(key: str, node: Node, given: frozenset[str] | None = None) -> Callable[..., Any]:
    """The class that a node's `_target_` names, its other keys bound; nodes inside it likewise.

    Args:
        key: the node's place in the configuration, for messages.
        given: arguments that whoever calls it passes, which are therefore no keys of the node;
            by default what the class itself says is given.
    Raises:
        UserError: a `_target_`, key or value that is not allowed, or not what the class takes.
    """
    cls = _class(key, node)
    given = getattr(cls, "given", frozenset()) if given is None else given
    takes = [name for name in inspect.signature(cls).parameters if name not in given]
    constructor = inspect.getattr_static(cls, "__init__")
    hints = {} if cls.__module__.startswith("torch.") else get_type_hints(constructor)
    bound = {}
    for name, value in node.items():
        if name == "_target_":
            continue
        if name not in takes:
            raise UserError(f"{key}.{name}: {cls.__name__} takes no {name}; {no_such(name, takes)}")
        if isinstance(value, dict):
            bound[name] = factory(f"{key}.{name}", value)
        else:
            bound[name] = _typed(f"{key}.{name}", value, hints.get(name, Any))
    return partial(cls, **bound)


def _class(key: str, node: Node) -> type:
    target = node.get("_target_")
    if target is None:
        raise UserError(f"{key}._target_ is missing: it names the class to build")
    try:
        cls = get_class(target)
    except (ImportError, ValueError) as error:
        raise UserError(f"{key}._target_: {' '.join(str(error).split())}") from error
    # The path was checked with the configuration; but one such as models.network.nn.Linear leaves
    # the package on its way, so look where it ended.
    if not f"{cls.__module__}.".startswith(ALLOWED_TARGETS):
        raise UserError(f"{key}._target_ is {target}, which lives in {cls.__module__}")
    return cls


def _typed(key: str, value: Any, hint: Any) -> Any:
    """The value, which read as JSON must be what the annotation says: a list for a tuple, say."""
    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:  # an annotation that no YAML value can meet
        raise UserError(f"{key} cannot be set in a YAML") from None
    try:
        return adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        takes = " or ".join(e["msg"].removeprefix("Input should be ") for e in error.errors())
        raise UserError(f"{key} must be {takes}, found {value!r}") from None


def _call(key: str, make: Callable[..., Any], **given: Any) -> Any:
    """Build, and put the key in front of what a constructor has against its arguments."""
    try:
        return make(**given)
    except (ValueError, TypeError) as error:
        raise UserError(f"{key}: {error}") from error
