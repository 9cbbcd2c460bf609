"""Networks of one size: the width of the MLPs at which each is as large as was declared."""

from __future__ import annotations

from collections.abc import Callable

from models.network import Network
from tracks.track import Track
from training.config import Match
from training.cost import flops_per_example, parameters
from training.errors import UserError

CLOSE = 0.01  # of the declared size


def matched(
    match: Match, make: Callable[[int | None], Network], track: Track, batch: int
) -> Network:
    """The network of the declared size, by the width of its MLPs; where none is, as it is.

    Args:
        make: a network with MLPs of that width, or of the usual one.
        batch: examples of a pass, which share what it does once.
    Raises:
        UserError: it has no MLPs, or no width of them comes within 1 %: by how much.
    """
    usual = make(None)
    declared = {key: value for key, value in match.model_dump().items() if value is not None}
    if not declared:
        return usual
    [(key, target)] = declared.items()
    if usual.mlp_width is None:
        raise UserError(f"match.{key} is met by the width of MLPs, and model.mlp is null: name one")

    def size(network: Network) -> float:
        if key == "parameters":
            return parameters(network)
        return flops_per_example(network, track, track.train.inputs[:batch])

    one, two = size(make(1)), size(make(2))  # either size grows by the same with each step of width
    width = max(1, 1 + round((target - one) / (two - one)))
    network = make(width)
    off = size(network) / target - 1
    if abs(off) > CLOSE:
        raise UserError(
            f"match.{key} is {target:g}: with MLPs of width {width} this network is nearest to it, "
            f"{abs(off):.1%} {'above' if off > 0 else 'below'}, must be within {CLOSE:.0%}; "
            f"declare a larger size, or say a smaller model.dim or model.layers"
        )
    return network
