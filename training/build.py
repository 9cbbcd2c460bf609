"""From configuration to objects: the only place where a `_target_` is followed."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

import torch
from hydra.errors import HydraException
from hydra.utils import get_class, instantiate
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from torch import nn

from models.mixer import Mixer
from models.network import Network, initialise, mechanisms
from tracks.track import Track
from training.config import ALLOWED_TARGETS, Config, Node
from training.errors import UserError, no_such
from training.probes import check_criteria
from training.seeding import numpy_stream, torch_seed, torch_stream


def build(config: Config) -> tuple[Track, Network, Network, list[torch.optim.Optimizer]]:
    """Track, network, the network as it starts, and its optimizers, on the run's device.

    Raises:
        UserError: whatever in the configuration cannot be built, named by its key.
    """
    device = prepare(config)
    track = build_track(config).to(device)
    network = build_network(config, track).to(device)
    if config.variant.signature:
        check_criteria(config.variant.signature, network, track)
    return track, network, copy.deepcopy(network), build_optimizers(config, network)


def prepare(config: Config) -> torch.device:
    """Set the process up as the run wants it: threads, and torch's own stream for dropout."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise UserError("device is cuda, but torch finds no CUDA device here: use cpu or auto")
    torch.set_num_threads(config.threads)
    torch.manual_seed(torch_seed(config.seed, "dropout"))
    cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    return torch.device("cuda" if cuda else "cpu")


def build_track(config: Config) -> Track:
    """The track, its data drawn from the stream `data`.

    Raises:
        UserError: the track's YAML has a key or value that its class refuses.
    """
    factory = _factory("track", config.track)
    track: Track = _call("track", factory, rng=numpy_stream(config.seed, "data"))
    return track


def build_network(config: Config, track: Track) -> Network:
    """The network for a track, its parameters drawn from the stream `initialisation`.

    Raises:
        UserError: the variant's or model's YAML has a key or value that its class refuses, or the
            variant is not causal where the track requires it.
    """
    mixer: Callable[..., Mixer] = _factory("variant.mixer", config.variant.mixer)
    network: Network = _call(
        "variant.mixer",
        partial(Network, track.in_features, track.out_features, track.axes, mixer),
        **config.model.model_dump(),
    )
    if track.requires_causal and not all(getattr(m, "causal", False) for m in network.mixers):
        raise UserError("the track requires a causal mixer, and this variant's is not causal")
    initialise(network, lambda name: torch_stream(config.seed, "initialisation", name))
    if config.variant.frozen:
        for mechanism in mechanisms(network).values():
            mechanism.requires_grad_(False)
    return network


def build_optimizers(config: Config, network: Network) -> list[torch.optim.Optimizer]:
    """The optimizer over all trainable parameters, or two where `matrices` takes its own.

    Weight decay acts on weight matrices alone; a mechanism's parameters train at
    lr · mechanism_lr_scale.

    Raises:
        UserError: the optimizer's YAML has a key or value that its class refuses.
    """
    own = {id(p) for m in mechanisms(network).values() for p in m.parameters()}
    matrices, rest, mechanism = [], [], []
    for module in network.modules():
        for parameter in module.parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            if id(parameter) in own:
                mechanism.append(parameter)
            elif isinstance(module, nn.Linear) and parameter.ndim == 2:
                matrices.append(parameter)
            else:
                rest.append(parameter)
    inside = {id(p) for p in network.blocks.parameters()}
    special = [p for p in matrices if id(p) in inside] if config.optimizer.matrices else []
    taken = {id(p) for p in special}
    decay = config.optimizer.weight_decay
    groups = [
        {"params": [p for p in matrices if id(p) not in taken], "weight_decay": decay},
        {"params": rest, "weight_decay": 0.0},
        {"params": mechanism, "weight_decay": 0.0, "lr": config.lr * config.mechanism_lr_scale},
    ]
    algorithm = _factory("optimizer.algorithm", config.optimizer.algorithm)
    groups = [group for group in groups if group["params"]]
    optimizers = [_call("optimizer.algorithm", algorithm, params=groups, lr=config.lr)]
    if special:
        algorithm = _factory("optimizer.matrices", config.optimizer.matrices or {})
        groups = [{"params": special, "weight_decay": decay}]
        optimizers.append(_call("optimizer.matrices", algorithm, params=groups, lr=config.lr))
    return optimizers


def _factory(key: str, node: Node) -> Callable[..., Any]:
    """A callable that builds what a node's `_target_` names, from its keys and the caller's."""
    factory: Callable[..., Any] = instantiate(_checked(key, node), _convert_="all")
    return factory


def _checked(key: str, node: Node) -> Node:
    """The node with every `_target_` in it made a partial, its keys and values checked first."""
    try:
        cls = get_class(node["_target_"])
    except KeyError:
        raise UserError(f"{key}._target_ is missing: it names the class to build") from None
    except (HydraException, ImportError, ValueError) as error:
        raise UserError(f"{key}._target_: {' '.join(str(error).split())}") from None
    # A path such as models.network.nn.Linear leaves the package on its way: look where it ended.
    if not f"{cls.__module__}.".startswith(ALLOWED_TARGETS):
        raise UserError(f"{key}._target_ is {node['_target_']}, which lives in {cls.__module__}")

    takes = list(inspect.signature(cls).parameters)
    hints = get_type_hints(cls.__init__)  # type: ignore[misc]
    checked: Node = {"_partial_": True}
    for name, value in node.items():
        if not name.startswith("_") and name not in takes:
            raise UserError(f"{key}.{name}: {cls.__name__} takes no {name}; {no_such(name, takes)}")
        if isinstance(value, dict) and "_target_" in value:
            value = _checked(f"{key}.{name}", value)
        elif name in hints:
            _check_type(f"{key}.{name}", value, hints[name])
        checked[name] = value
    return checked


def _check_type(key: str, value: Any, hint: Any) -> None:
    """Raise a UserError unless the value, read as JSON, is what the annotation says."""
    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        return  # an annotation such as Tensor, which no YAML value can be
    try:
        adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        takes = " or ".join(e["msg"].removeprefix("Input should be ") for e in error.errors())
        raise UserError(f"{key} must be {takes}, found {value!r}") from None


def _call(key: str, factory: Callable[..., Any], **given: Any) -> Any:
    """Build, and put the key in front of what a constructor has against its arguments."""
    try:
        return factory(**given)
    except (ValueError, TypeError) as error:
        raise UserError(f"{key}: {error}") from error
