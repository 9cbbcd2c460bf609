"""Does the loss depend on the mechanism's parameters?"""

from __future__ import annotations

import math
from typing import Any

import torch

from models.network import Network, mechanism_parameters
from tracks.track import Track
from training.probes.trained import PROBE_EXAMPLES, Trained


def reach(trained: Trained) -> dict[str, Any] | None:
    """Share of the loss gradient's norm in the mechanism's parameters, in all and in each.

    0 where the loss does not depend on it; None where none of the mechanism trains, or a gradient
    is beyond what a number can hold.
    """
    found = by_parameter(trained.network, trained.track) if trained.finished else {}
    return {"all": math.hypot(*found.values()), "by_parameter": found} if found else None


def by_parameter(network: Network, track: Track) -> dict[str, float]:
    """Of each of the mechanism's parameters; empty where `reach` is None."""
    own = mechanism_parameters(network)
    trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
    if not own.keys() & trained.keys():
        return {}
    split = track.validation
    predictions = track.predict(network, split.inputs[:PROBE_EXAMPLES])
    loss = track.loss(predictions, split.targets[:PROBE_EXAMPLES]).mean()
    gradients = torch.autograd.grad(loss, list(trained.values()), materialize_grads=True)
    norms = [gradient.double().norm().item() for gradient in gradients]
    whole = math.hypot(*norms) or 1.0  # a network that no parameter moves reaches none
    if not math.isfinite(whole):
        return {}
    return {name: norm / whole for name, norm in zip(trained, norms, strict=True) if name in own}


PROBES = (reach,)
