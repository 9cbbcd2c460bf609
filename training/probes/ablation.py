"""What does the score lose without the mechanism?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from models.network import Network, mechanisms
from training.fit import evaluate, mean
from training.probes.trained import Trained


def ablation(trained: Trained) -> float | None:
    """The test score without the mechanism, minus the test score; None without a mechanism."""
    return _lost(trained, trained.track.metric)


def loss_ablation(trained: Trained) -> float | None:
    """The same of the loss, which stands beside a primary metric that can tie."""
    return _lost(trained, "loss") if trained.track.can_tie else None


def _lost(trained: Trained, metric: str) -> float | None:
    if not (trained.finished and mechanisms(trained.network)):
        return None
    with neutralised(trained.network):
        without = evaluate(trained.network, trained.track, trained.track.test)[metric]
    return mean(without) - mean(trained.scores["test"][metric])


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


PROBES = (ablation, loss_ablation)
