"""Measurements on one trained network: is the mechanism wired, does it act, does it leak?"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from models.mixer import Observed
from models.network import Network, mechanism_parameters, mechanisms
from tracks.track import Split, Track
from training.config import Criterion, Signature
from training.errors import UserError, no_such
from training.fit import evaluate, evaluating, mean

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
OVER: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "max": max,
    "min": min,
}
Blocks = list[dict[str, Observed]]  # what was observed in each, first to last
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
    secondary = {name: means[name] | asdict(track.describe(name)) for name in means}
    finished = all(map(math.isfinite, primary.values()))
    reached = reach(network, track) if finished else {}
    without = ablation(network, track, test) if finished else {}
    return {
        "status": "finished" if finished else "diverged",
        "scores": primary,
        "secondary": secondary | track.references,
        "probes": {
            "reach": math.hypot(*reached.values()) if reached else None,
            "reach_by_parameter": reached or None,
            "ablation": without.get(track.metric),
            "loss_ablation": without.get("loss") if track.can_tie else None,
            "causal": causal(network, track) if finished else None,
            "split_overlap": split_overlap(track),
        },
        "signature": signature(
            predicted,
            network,
            observe(network, start, track) if finished else [],
            observe(start, start, track),
        ),
    }


def reach(network: Network, track: Track) -> dict[str, float]:
    """Norm of the loss gradient in each of the mechanism's parameters, over that in all there are.

    0 where the loss does not depend on it; empty where none of the mechanism trains, or a gradient
    is beyond what a number can hold.
    """
    own = mechanism_parameters(network)
    trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
    if not own.keys() & trained.keys():
        return {}
    split = track.validation
    loss = track.loss(network(split.inputs[:PROBE_EXAMPLES]), split.targets[:PROBE_EXAMPLES]).mean()
    gradients = torch.autograd.grad(loss, list(trained.values()), materialize_grads=True)
    norms = [gradient.double().norm().item() for gradient in gradients]
    whole = math.hypot(*norms) or 1.0  # a network that no parameter moves reaches none
    if not math.isfinite(whole):
        return {}
    return {name: norm / whole for name, norm in zip(trained, norms, strict=True) if name in own}


@contextmanager
def neutralised(network: Network) -> Iterator[None]:
    """The network with every mechanism taken out, for as long as the context lasts."""
    every = mechanisms(network)
    inner = {name for name in every for around in every if name.startswith(f"{around}.")}
    found = {name: mechanism for name, mechanism in every.items() if name not in inner}

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


def ablation(network: Network, track: Track, test: dict[str, Tensor]) -> dict[str, float]:
    """Mean scores by name without the mechanism, minus those with it; empty without mechanism.

    Args:
        test: every test example's scores with it, (n,) each.
    """
    if not mechanisms(network):
        return {}
    with neutralised(network):
        without = evaluate(network, track, track.test)
    return {name: mean(scores) - mean(test[name]) for name, scores in without.items()}


@torch.inference_mode()
def causal(network: Network, track: Track) -> bool | None:
    """Do outputs ignore later tokens, while training and after? None where nobody claims it."""
    if not (track.requires_causal or all(mixer.causal for mixer in network.mixers)):
        return None
    # Of a copy: what a module keeps of what it sees in training must not change the network. What
    # it kept of a pass with gradients cannot be copied; after this pass it has none.
    network(track.validation.inputs[:1])
    return all(ignores_later_tokens(copy.deepcopy(network).train(m), track) for m in (False, True))


def ignores_later_tokens(network: Network, track: Track) -> bool:
    """Whether outputs up to a cut stay, but for rounding, as tokens after it are another example's.

    Whatever is random in the network is drawn alike in every pass.
    """

    def passed(x: Tensor) -> Tensor:
        with torch.random.fork_rng():
            found: Tensor = network(x)
            return found

    inputs = track.validation.inputs[:FEW_EXAMPLES]
    others = track.train.inputs[: len(inputs)]
    inputs = inputs[: len(others)]
    outputs = passed(inputs)
    n = inputs.shape[1]
    for cut in sorted({0, n // 4, n // 2, 3 * n // 4, n - 2} & set(range(n - 1))):
        swapped = torch.cat([inputs[:, : cut + 1], others[:, cut + 1 :]], dim=1)
        moved = (passed(swapped) - outputs)[:, : cut + 1].abs().max()
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
def observe(network: Network, start: Network, track: Track) -> Blocks:
    """The signature's metrics in every block, in evaluation mode.

    Args:
        start: the network as it was before training.
    """
    with evaluating(network, start):
        read = read_by_mixers(network, track.validation.inputs[:PROBE_EXAMPLES])
        return [
            mixer.signature(before, x)
            for mixer, before, x in zip(network.mixers, start.mixers, read, strict=True)
        ]


def gathered(blocks: Blocks) -> dict[str, float]:
    """Each metric over the blocks: its mean, largest or smallest, as the mechanism says."""
    found: dict[str, float] = {}
    for metric, seen in (blocks[0] if blocks else {}).items():
        found[metric] = OVER[seen.over]([block[metric].value for block in blocks])
    return found


def signature(
    predicted: Signature | None, network: Network, blocks: Blocks, before: Blocks
) -> dict[str, Any] | None:
    """The record's `signature`: what was predicted, what is observed, whether all of it holds.

    Args:
        blocks: observed after training; empty after divergence.
        before: observed at the start. What holds there already is no evidence.
    """
    if predicted is None:
        return None
    observed, at_start = gathered(blocks), gathered(before)
    return {
        **predicted.model_dump(),
        "observed": observed,
        "observed_at_start": at_start,
        "blocks": [{name: seen.value for name, seen in block.items()} for block in blocks],
        "by_construction": {m: why for m, why in by_construction(network).items() if m in observed},
        "confirmed": bool(observed)
        and all(
            holds(c, observed[c.metric]) and not holds(c, at_start[c.metric])
            for c in predicted.criteria
        ),
    }


def holds(criterion: Criterion, value: float) -> bool:
    """Whether the metric's value is what was predicted."""
    return OPERATORS[criterion.op](value, criterion.value)


def by_construction(network: Network) -> dict[str, str]:
    """The metrics of the network's mechanisms that no training could refute, and why."""
    found = mechanisms(network).values()
    return {metric: why for m in found for metric, why in m.by_construction.items()}


def check_criteria(predicted: Signature, network: Network, track: Track) -> None:
    """Raise a UserError where a criterion names a metric that is not observed, or cannot fail."""
    blocks, certain = observe(network, network, track), by_construction(network)
    known = blocks[0]
    for criterion in predicted.criteria:
        metric = criterion.metric
        key = f"variant.signature.criteria: metric {metric}"
        if metric not in known:
            raise UserError(f"{key} is not observed; {no_such(metric, list(known))}")
        if metric in certain:
            raise UserError(f"{key} could not be refuted: {certain[metric]}")
        least = min(block[metric].least for block in blocks)
        most = max(block[metric].most for block in blocks)
        if holds(criterion, least) and holds(criterion, most):
            raise UserError(
                f"{key} lies between {least:g} and {most:g} with these settings, so that "
                f"{criterion.op} {criterion.value:g} always holds: predict what could fail, "
                f"or nothing (variant.signature=null)"
            )


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
