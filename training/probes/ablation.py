"""What does the score lose without the mechanism?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from models.mixer import Mechanism
from models.network import Network, mechanisms
from tracks.track import Split
from training.fit import evaluate, mean
from training.probes.trained import ABLATED_EXAMPLES, Trained


def ablation(trained: Trained) -> float | None:
    """The test score without the mechanism, minus that with it; None without a mechanism.

    Both of the first test examples alone: a large test split would cost as much again.
    """
    return _lost(trained, trained.track.metric)


def loss_ablation(trained: Trained) -> float | None:
    """The same of the loss, which stands beside a primary metric that can tie."""
    return _lost(trained, "loss") if trained.track.can_tie else None


def _lost(trained: Trained, metric: str) -> float | None:
    if not (trained.finished and mechanisms(trained.network)):
        return None
    test = trained.track.test
    few = Split(test.inputs[:ABLATED_EXAMPLES], test.targets[:ABLATED_EXAMPLES])
    with without(trained.network, outermost(trained.network)):
        scores = evaluate(trained.network, trained.track, few)[metric]
    return mean(scores) - mean(trained.scores["test"][metric][:ABLATED_EXAMPLES])


def outermost(network: Network) -> dict[str, Mechanism]:
    """The mechanisms that lie in no other, by name."""
    every = mechanisms(network)
    inner = {name for name in every for around in every if name.startswith(f"{around}.")}
    return {name: mechanism for name, mechanism in every.items() if name not in inner}


@contextmanager
def without(network: Network, found: Mapping[str, Mechanism]) -> Iterator[None]:
    """The network with these mechanisms taken out, for as long as the context lasts."""

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


PROBES = (ablation, loss_ablation)
