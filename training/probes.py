"""Measurements on one trained network: is the mechanism wired, does it act, does it leak?"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from models.network import Network, mechanism_parameters, mechanisms
from tracks.track import Split, Track
from training.config import Signature
from training.errors import UserError, no_such
from training.fit import evaluate, mean

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
PROBE_EXAMPLES = 32  # validation examples that reach and signature look at
FEW_EXAMPLES = 4  # that the causality probe perturbs, and that are kept for figures


def measure(
    predicted: Signature | None,
    network: Network,
    start: Network,
    track: Track,
    validation: dict[str, Tensor],
    test: dict[str, Tensor],
) -> dict[str, Any]:
    """The record's status, scores and secondary scores, probes and signature.

    Args:
        start: the network as it was before training.
        validation, test: every example's scores by name, (n,) each; both empty after divergence.
    """
    means = {n: {"validation": mean(validation[n]), "test": mean(test[n])} for n in test}
    primary = means.pop(track.metric, {"validation": math.nan, "test": math.nan})
    secondary = {name: {**means[name], "direction": track.directions[name]} for name in means}
    finished = all(map(math.isfinite, primary.values()))
    return {
        "status": "finished" if finished else "diverged",
        "scores": primary,
        "secondary": secondary | track.references,
        "probes": {
            "reach": reach(network, track) if finished else None,
            "ablation": ablation(network, track, primary["test"]) if finished else None,
            "causal": causal(network, track) if finished else None,
            "split_overlap": split_overlap(track),
        },
        "signature": signature(
            predicted, network, observe(network, start, track) if finished else {}
        ),
    }


def reach(network: Network, track: Track) -> float | None:
    """Norm of the loss gradient in the mechanism's parameters, over that in all of them.

    0 where the loss does not depend on them; None where there are none that train.
    """
    own = mechanism_parameters(network)
    trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
    if not own.keys() & trained.keys():
        return None
    split = track.validation
    loss = track.loss(network(split.inputs[:PROBE_EXAMPLES]), split.targets[:PROBE_EXAMPLES]).mean()
    gradients = torch.autograd.grad(loss, list(trained.values()), materialize_grads=True)
    norms = torch.stack([gradient.double().norm() for gradient in gradients])
    mask = torch.tensor([name in own for name in trained], device=norms.device)
    whole = norms.norm().item()
    return norms[mask].norm().item() / whole if whole > 0 else 0.0


@contextmanager
def neutralised(network: Network) -> Iterator[None]:
    """The network with every mechanism taken out, for as long as the context lasts."""
    found = mechanisms(network)

    def put(name: str, module: torch.nn.Module) -> None:
        parent, _, child = name.rpartition(".")
        setattr(network.get_submodule(parent), child, module)

    for name, mechanism in found.items():
        put(name, mechanism.neutral())
    try:
        yield
    finally:
        for name, mechanism in found.items():
            put(name, mechanism)


def ablation(network: Network, track: Track, score: float) -> float | None:
    """Test score without the mechanism, minus `score`, the one with it; None without mechanism."""
    if not mechanisms(network):
        return None
    with neutralised(network):
        return mean(evaluate(network, track, track.test)[track.metric]) - score


@torch.inference_mode()
def causal(network: Network, track: Track) -> bool | None:
    """Do outputs ignore later tokens? None where neither track nor variant claims it.

    Tokens after a cut are swapped for another example's; outputs up to it may move by rounding
    alone.
    """
    if not (track.requires_causal or all(mixer.causal for mixer in network.mixers)):
        return None
    inputs = track.validation.inputs[:FEW_EXAMPLES]
    others = track.train.inputs[: len(inputs)]
    inputs = inputs[: len(others)]
    outputs = network(inputs)
    n = inputs.shape[1]
    for cut in sorted({0, n // 4, n // 2, 3 * n // 4, n - 2} & set(range(n - 1))):
        swapped = torch.cat([inputs[:, : cut + 1], others[:, cut + 1 :]], dim=1)
        moved = (network(swapped) - outputs)[:, : cut + 1].abs().max()
        if moved > 1e-5 * outputs.abs().max():
            return False
    return True


def split_overlap(track: Track) -> int:
    """Examples of the test split that also stand, value for value, in train or validation."""

    def rows(split: Split) -> list[bytes]:
        return [
            x.tobytes() + y.tobytes()
            for x, y in zip(split.inputs.cpu().numpy(), split.targets.cpu().numpy(), strict=True)
        ]

    seen = {*rows(track.train), *rows(track.validation)}
    return sum(row in seen for row in rows(track.test))


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
def observe(network: Network, start: Network, track: Track) -> dict[str, float]:
    """The signature's metrics, over all blocks.

    A metric whose name has `max` or `min` in it is the largest or smallest over the blocks, any
    other the mean.

    Args:
        start: the network as it was before training.
    """
    read = read_by_mixers(network, track.validation.inputs[:PROBE_EXAMPLES])
    blocks = [
        mixer.signature(before, x)
        for mixer, before, x in zip(network.mixers, start.mixers, read, strict=True)
    ]

    def over_blocks(metric: str) -> float:
        values = [block[metric] for block in blocks]
        words = metric.split("_")
        if "max" in words:
            return max(values)
        return min(values) if "min" in words else sum(values) / len(values)

    return {metric: over_blocks(metric) for metric in blocks[0]}


def signature(
    predicted: Signature | None, network: Network, observed: dict[str, float]
) -> dict[str, Any] | None:
    """The record's `signature`: what was predicted, what is observed, whether all of it holds."""
    if predicted is None:
        return None
    return {
        **predicted.model_dump(),
        "observed": observed,
        "by_construction": {m: why for m, why in by_construction(network).items() if m in observed},
        "confirmed": bool(observed)
        and all(OPERATORS[c.op](observed[c.metric], c.value) for c in predicted.criteria),
    }


def by_construction(network: Network) -> dict[str, str]:
    """The metrics of the network's mechanisms that no training could refute, and why."""
    found = mechanisms(network).values()
    return {metric: why for m in found for metric, why in m.by_construction.items()}


def check_criteria(predicted: Signature, network: Network, track: Track) -> None:
    """Raise a UserError where a criterion names a metric that is not observed, or cannot fail."""
    network.eval()
    known, certain = observe(network, network, track), by_construction(network)
    for criterion in predicted.criteria:
        key = f"variant.signature.criteria: metric {criterion.metric}"
        if criterion.metric not in known:
            raise UserError(f"{key} is not observed; {no_such(criterion.metric, list(known))}")
        if criterion.metric in certain:
            raise UserError(f"{key} could not be refuted: {certain[criterion.metric]}")


@torch.no_grad()
def artifacts(network: Network, track: Track) -> dict[str, Tensor]:
    """What figures need: the mixers' curves or spectra by block, and a few test examples."""
    read = read_by_mixers(network, track.validation.inputs[:PROBE_EXAMPLES])
    found = {
        f"block{i}_{name}": value
        for i, (mixer, x) in enumerate(zip(network.mixers, read, strict=True))
        for name, value in mixer.artifacts(x).items()
    }
    few = slice(0, FEW_EXAMPLES)
    found |= {
        "inputs": track.test.inputs[few],
        "targets": track.test.targets[few],
        "outputs": network(track.test.inputs[few]),
    }
    return found
