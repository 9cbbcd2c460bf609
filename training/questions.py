"""What must come out the same, of any track and network, however it is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from models.mixer import named
from models.network import Network
from records.files import finite
from records.reading import Part, Unreadable, converted
from tracks.track import Split, Track
from training.build import build_optimizers
from training.config import Config
from training.errors import UserError
from training.place import told
from training.step import batch_loss

ROUNDING = 1e-4  # of the largest value: a batch of another size sums in another order


def must(holds: bool, where: str, expected: str, found: object) -> None:
    """Raise a UserError unless it holds."""
    if not holds:
        raise UserError(f"{where} must {expected}, found {found}")


def near(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are one, but for rounding."""
    if one.shape != other.shape:
        return False
    one, other = one.double(), other.double()
    largest = torch.maximum(one.abs(), other.abs()).nan_to_num(0.0).amax() if one.numel() else 0
    return torch.allclose(one, other, rtol=0.0, atol=ROUNDING * float(largest), equal_nan=True)


def shape_of(found: object) -> Any:
    """A tensor's shape, or what it is instead of a tensor."""
    return tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__


def can_be_read(kind: type[Part], value: object, where: str) -> None:
    """What would stand in the record is what analysis will read there."""
    try:
        converted(kind, json.loads(json.dumps(finite(value))))
    except (Unreadable, TypeError) as error:
        raise UserError(f"{where} could not be read back from a record: {error}") from error


@contextmanager
def shaped(network: Network) -> Iterator[None]:
    """Every mixer gives what it is given the shape of."""

    def same(mixer: nn.Module, given: tuple[Tensor, ...], found: object) -> None:
        expected = tuple(given[0].shape)
        where = named(mixer, "forward")
        must(shape_of(found) == expected, where, f"give (B, N, d) = {expected}", shape_of(found))

    hooks = [mixer.register_forward_hook(same) for mixer in network.mixers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def asked(where: str, split: Split) -> Iterator[None]:
    """What goes wrong is told to be there; inputs and targets are the same after as before."""
    inputs, targets = split.inputs.clone(), split.targets.clone()
    with told(f"{where} cannot be used"):
        yield
    same = inputs.equal(split.inputs) and targets.equal(split.targets)
    must(same, where, "leave what it is given as it is", "it changed in place")


@torch.no_grad()
def answers(network: Network, inputs: Tensor) -> list[tuple[str, Tensor]]:
    """What the encoder, each mixer and the head give in a pass, with the name of each."""
    found: list[tuple[str, Tensor]] = []

    def keep(module: nn.Module, _: object, given: Tensor) -> None:
        found.append((named(module, "forward"), given.detach().clone()))

    parts = (network.embed, *network.mixers, network.head)
    for part in parts:
        must(isinstance(part, nn.Module), "every part of the network", "be an nn.Module", part)
    hooks = [part.register_forward_hook(keep) for part in parts]
    try:
        with told("a pass of the network cannot be used"):
            network(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def same_again(network: Network, again: Network, inputs: Tensor) -> None:
    """Two passes give the same, and so does the network when it is built again.

    Args:
        again: global random streams have moved on since the first was built.
    """
    first = answers(network, inputs)
    for (where, one), (_, two) in zip(first, answers(network, inputs), strict=True):
        must(bool(one.isfinite().all()), where, "give finite numbers before training", "others")
        expected = "give the same in two equal passes"
        must(
            near(one, two), where, expected, "others: it is random in evaluation, or keeps a state"
        )
    twins = dict(again.named_parameters())
    for name, parameter in network.named_parameters():
        finite, same = bool(parameter.isfinite().all()), parameter.equal(twins[name])
        must(finite, f"the start value of {name}", "be finite", "some that is not")
        must(same, f"the start value of {name}", "be drawn from its generator alone", "another")
    for (where, one), (_, two) in zip(first, answers(again, inputs), strict=True):
        expected = "give the same when it is built again"
        must(near(one, two), where, expected, "others: its constructor draws what is no parameter")


def each_alone(track: Track, network: Network, few: Split) -> None:
    """What is said of an example, its loss and its scores depend on no other of its batch."""
    expected = "answer for each example by itself"
    batch = answers(network, few.inputs)
    predictions = _predicted(track, network, few)
    measured = _measured(track, predictions, few.targets)
    for i in range(len(few)):
        one = Split(few.inputs[i : i + 1], few.targets[i : i + 1])
        for (where, alone), (_, together) in zip(answers(network, one.inputs), batch, strict=True):
            must(near(alone, together[i : i + 1]), where, expected, "another answer to one alone")
        alone, where = _predicted(track, network, one), named(track, "predict")
        same = not alone.is_floating_point() or near(alone, predictions[i : i + 1])
        must(same, where, expected, "another answer to one alone")
        of_one = _measured(track, predictions[i : i + 1], one.targets)
        scores = named(track, "scores")
        must(of_one.keys() == measured.keys(), scores, "be the same of any batch", [*of_one])
        for where, value in of_one.items():
            must(
                near(value, measured[where][i : i + 1]),
                where,
                expected,
                "another value of one alone",
            )


@torch.no_grad()
def _predicted(track: Track, network: Network, split: Split) -> Tensor:
    where = named(track, "predict")
    with asked(where, split):
        found = track.predict(network, split.inputs)
    return found


@torch.no_grad()
def _measured(track: Track, predictions: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """The loss, and the scores that cannot tie: one that counts may jump by rounding alone."""
    where = named(track, "loss")
    with asked(where, Split(predictions, targets)):
        found = {where: track.loss(predictions, targets)}
    where = named(track, "scores")
    with asked(where, Split(predictions, targets)):
        scores = track.scores(predictions, targets)
        smooth = {name: each for name, each in scores.items() if not track.describe(name).can_tie}
    return found | {f"{where}: {name}": each for name, each in smooth.items()}


def takes_a_step(track: Track, network: Network, config: Config) -> None:
    """A step of training works: forwards, backwards, every optimizer; the network is changed."""
    size = config.training.batch_size
    batch = Split(track.train.inputs[:size], track.train.targets[:size])
    optimizers = build_optimizers(config, network)
    loss_of = batch_loss(network, track, config.model_copy(update={"compile": False}))
    where = "a training step"
    network.train()
    with asked(where, batch), shaped(network):
        loss = loss_of(batch.inputs, batch.targets)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    must(bool(loss.isfinite()), where, "begin with a finite loss", loss.item())
