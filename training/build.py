"""From configuration to objects: track, network, optimizers."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from models.mixer import Mixer, Trains, offered
from models.network import Network, initialise, mechanisms, mixers_in_turn
from tracks.track import Streams, Track
from training.config import ASIDE, Config
from training.errors import UserError
from training.factory import factories, factory
from training.match import matched
from training.place import built
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
    network = build_network(config, track).to(device)
    track = track.to(device)
    optimizers = build_optimizers(config, network)
    torch.manual_seed(torch_seed(config.seed, "dropout"))  # last: constructors draw from it too
    return track, network, copy.deepcopy(network), optimizers


def build_track(config: Config, streams: Streams | None = None) -> Track:
    """The track, each split drawn from a stream of its own, such as `data/train`.

    Args:
        streams: other ones than those of the configuration's seed.
    Raises:
        UserError: the track's YAML has a key or value that its class refuses.
    """
    node = {key: value for key, value in config.track.items() if key not in ASIDE}
    make = factory("track", node, config.allow, bases=(Track,))
    with built("track"):
        streams = streams or partial(numpy_stream, config.seed, "data")
        track: Track = offered(make, streams=streams)
    return track


def build_network(config: Config, track: Track) -> Network:
    """The network for a track, its parameters drawn from the variant's `initial_stream`.

    Raises:
        UserError: the variant's or model's YAML has a key or value that its class refuses, or a
            parameter starts at random and no rule says how.
    """
    makes = factories("variant.mixer", config.variant.mixer, config.allow, (Mixer,))
    model, context = config.model, math.prod(track.axes)

    def make(width: int | None = None) -> Network:
        with built("track"):
            encoder, head = track.encoder(model.dim), track.head(model.dim)
        with built("variant.mixer"):
            mixers = mixers_in_turn(
                makes,
                model.layers,
                dim=model.dim,
                heads=model.heads,
                context=context,
                axes=track.axes,
                time_axis=track.time_axis,
            )
        with built("model"):
            positions = config.variant.positions
            return Network(encoder, head, mixers, context, model.dim, model.mlp, width, positions)

    with _unset_is_nan():
        network = matched(config.match, make, track, config.training.batch_size)
        again = make(network.mlp_width)  # torch's global stream has moved on
    with built("start values"):
        streams = partial(torch_stream, config.seed, config.variant.initial_stream)
        initialise(network, again, streams)
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

    Weight decay acts on weight matrices alone; a mechanism's own numbers train as it says.

    Raises:
        UserError: the optimizer's YAML has a key or value that its class refuses.
    """
    settings, decay = config.optimizer, config.optimizer.weight_decay
    with built("variant.mixer: trains()"):
        own = _own_numbers(network)
        own_groups = _groups(config, own)
    inside, matrices, rest = [], [], []  # weight matrices of the blocks, others, all else
    first = dict(network.named_parameters())  # of one that modules share, its first name alone
    for prefix, module in network.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if name not in first or parameter in own or not parameter.requires_grad:
                continue
            if not (isinstance(module, nn.Linear) and parameter.ndim == 2):
                rest.append(parameter)
            elif settings.matrices and name.startswith("blocks."):
                inside.append(parameter)
            else:
                matrices.append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": decay},
        {"params": rest, "weight_decay": 0.0},
        *own_groups,
    ]
    planned = [("optimizer.algorithm", settings.algorithm, groups)]
    if settings.matrices:
        groups = [{"params": inside, "weight_decay": decay}]
        planned.append(("optimizer.matrices", settings.matrices, groups))
    made = []
    for key, node, groups in planned:
        make = factory(key, node, (), OPTIMIZER_GIVEN)
        with built(key):
            made.append(make(params=[g for g in groups if g["params"]], lr=config.lr))
    return made


def is_scaled(network: Network) -> bool:
    """Whether any of its parameters trains at `lr · mechanism_lr_scale`."""
    return any(p.requires_grad and scale is None for p, (scale, _) in _own_numbers(network).items())


def _own_numbers(network: Network) -> dict[nn.Parameter, Trains]:
    """How the mechanisms' parameters train that do not train as any other would."""
    says = {  # of one inside another, the inner mechanism, which comes later
        parameter: mechanism.trains(name)
        for mechanism in mechanisms(network).values()
        for name, parameter in mechanism.named_parameters()
    }
    return {parameter: trains for parameter, trains in says.items() if trains is not None}


def _groups(config: Config, own: Mapping[nn.Parameter, Trains]) -> list[dict[str, Any]]:
    """Those that train, together where they train alike."""
    alike: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for parameter, (scale, decay) in own.items():
        if parameter.requires_grad:
            scale = config.mechanism_lr_scale if scale is None else scale
            alike.setdefault((scale, decay), []).append(parameter)
    return [
        {
            "params": parameters,
            "weight_decay": config.optimizer.weight_decay if decay else 0.0,
            "lr": config.lr * scale,
        }
        for (scale, decay), parameters in alike.items()
    ]
