"""The signature: what was predicted of a mechanism, and what is seen in the trained network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from models.mixer import Observed
from models.network import Network, mechanisms
from records.signature import OPERATORS
from tracks.track import Track
from training.config import Criterion, Signature
from training.errors import UserError, no_such
from training.fit import evaluating
from training.probes.trained import FEW_EXAMPLES, PROBE_EXAMPLES

OVER: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
}
Blocks = list[dict[str, Observed]]  # what was observed in each, first to last


def read_by_mixers(network: Network, inputs: Tensor) -> list[Tensor]:
    """What each mixer reads in a forward pass, (B, N, d), first block to last."""
    seen: list[Tensor] = []
    hooks = [
        m.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
        for m in network.mixers
    ]
    try:
        network(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


@torch.no_grad()
def observe(network: Network, start: Network, track: Track) -> Blocks:
    """The signature's metrics in every block, in evaluation mode.

    Args:
        start: the network as it was before training.
    """
    inputs = track.validation.inputs[:PROBE_EXAMPLES]
    with evaluating(network, start):
        read = read_by_mixers(network, inputs)
        return [
            mixer.signature(before, x) | grown
            for mixer, before, x, grown in zip(
                network.mixers, start.mixers, read, expansions(network, inputs), strict=True
            )
        ]


@torch.no_grad()
def expansions(network: Network, inputs: Tensor) -> Blocks:
    """By how much each mixer, and each whole block, moves two examples apart: the largest factor.

    Over all pairs of examples that it reads as different, ‖f(x) − f(y)‖ / ‖x − y‖: below 1 it is a
    contraction on these.
    """
    passed: dict[nn.Module, tuple[Tensor, Tensor]] = {}
    hooks = [
        module.register_forward_hook(lambda m, given, out: passed.update({m: (given[0], out)}))
        for module in (*network.blocks, *network.mixers)
    ]
    try:
        network(inputs)
    finally:
        for hook in hooks:
            hook.remove()

    def expansion(module: nn.Module) -> Observed:
        before, after = (torch.pdist(t.flatten(1).double()) for t in passed[module])  # (B(B−1)/2,)
        return Observed(torch.where(before > 0, after / before, 0).max().item(), "max", least=0.0)

    return [
        {"mixer_expansion": expansion(mixer), "block_expansion": expansion(block)}
        for mixer, block in zip(network.mixers, network.blocks, strict=True)
    ]


def gathered(blocks: Blocks) -> dict[str, float]:
    """Each metric over the blocks that have it, as the mechanism says: mean, largest, smallest."""
    found: dict[str, list[Observed]] = {}
    for block in blocks:
        for metric, seen in block.items():
            found.setdefault(metric, []).append(seen)
    return {
        metric: OVER[seen[0].over]([each.value for each in seen]) for metric, seen in found.items()
    }


def signature(
    predicted: Signature, network: Network, blocks: Blocks, before: Blocks
) -> dict[str, Any]:
    """The record's `signature`: what was predicted, and what is observed.

    Args:
        blocks: observed after training; empty after divergence.
        before: observed at the start. What holds there already is no evidence.
    """
    return {
        **predicted.model_dump(),
        "observed": gathered(blocks),
        "observed_at_start": gathered(before),
        "blocks": [{name: seen.value for name, seen in block.items()} for block in blocks],
        "by_construction": by_construction(network, blocks),
    }


def holds(criterion: Criterion, value: float) -> bool:
    """Whether the metric's value is what was predicted."""
    return OPERATORS[criterion.op](value, criterion.value)


def by_construction(network: Network, blocks: Blocks) -> dict[str, str]:
    """The metrics that no training could refute, and why: so says every block that shows them.

    Args:
        blocks: what was observed in each; none after divergence.
    """
    certain, open_ = dict[str, str](), set[str]()
    for mixer, block in zip(network.mixers, blocks, strict=False):
        said = [mechanism.by_construction for mechanism in mechanisms(mixer).values()]
        here = {metric: why for each in said for metric, why in each.items()}
        certain |= {metric: why for metric, why in here.items() if metric in block}
        open_ |= block.keys() - here.keys()
    return {metric: why for metric, why in certain.items() if metric not in open_}


def check_criteria(predicted: Signature, network: Network, blocks: Blocks) -> None:
    """Raise a UserError where a criterion names a metric that is not observed, or cannot fail.

    Args:
        blocks: observed in the network at its start.
    """
    certain = by_construction(network, blocks)
    known = {metric: None for block in blocks for metric in block}
    for criterion in predicted.criteria:
        metric = criterion.metric
        key = f"variant.signature.criteria: metric {metric}"
        if metric not in known:
            raise UserError(f"{key} is not observed; {no_such(metric, list(known))}")
        if metric in certain:
            raise UserError(f"{key} could not be refuted: {certain[metric]}")
        seen = [block[metric] for block in blocks if metric in block]
        least, most = min(each.least for each in seen), max(each.most for each in seen)
        if holds(criterion, least) and holds(criterion, most):
            raise UserError(
                f"{key} lies between {least:g} and {most:g} with these settings, so that "
                f"{criterion.op} {criterion.value:g} always holds: predict what could fail, "
                f"or nothing (variant.signature=null)"
            )


@torch.no_grad()
def artifacts(network: Network, track: Track) -> dict[str, Tensor]:
    """What figures need: the mixers' curves or spectra by block, and a few test examples.

    These are the first of the test split, the same in every arm.
    """
    read = read_by_mixers(network, track.validation.inputs[:PROBE_EXAMPLES])
    found = {
        f"block{i}_{name}": value
        for i, (mixer, x) in enumerate(zip(network.mixers, read, strict=True))
        for name, value in mixer.artifacts(x).items()
    }
    inputs, targets = track.test.inputs[:FEW_EXAMPLES], track.test.targets[:FEW_EXAMPLES]
    predictions = track.predict(network, inputs)
    return found | {"inputs": inputs, "targets": targets, "predictions": predictions}
