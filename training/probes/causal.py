"""Does an output depend on what comes after it?"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from models.network import Network
from tracks.track import Track
from training.probes.trained import FEW_EXAMPLES, Trained


@torch.inference_mode()
def causal(trained: Trained) -> bool | None:
    """Do outputs ignore later time steps, while training and after?

    None where nobody claims it, or the track has no time axis.
    """
    network, track = trained.network, trained.track
    claimed = track.requires_causal or all(mixer.causal for mixer in network.mixers)
    if not (trained.finished and claimed) or track.time_axis is None:
        return None
    # Of a copy: what a module keeps of what it sees in training must not change the network. What
    # it kept of a pass with gradients cannot be copied; after this pass it has none.
    network(track.validation.inputs[:1])
    return all(ignores_later_steps(copy.deepcopy(network).train(m), track) for m in (False, True))


def ignores_later_steps(network: Network, track: Track) -> bool:
    """Whether outputs up to a cut stay, but for rounding, as inputs after it are another example's.

    Whatever is random in the network is drawn alike in every pass.
    """
    axis = track.time_axis
    assert axis is not None

    def passed(x: Tensor) -> Tensor:
        with torch.random.fork_rng():
            found: Tensor = network(x)  # (B, N, out)
            return found.unflatten(1, track.axes).movedim(1 + axis, 1)  # (B, T, …, out)

    inputs = track.validation.inputs[:FEW_EXAMPLES]
    others = track.train.inputs[: len(inputs)]
    inputs = inputs[: len(others)]
    outputs = passed(inputs)
    steps = outputs.shape[1]
    size = inputs.shape[1 + axis] // steps  # of a step in the inputs, where several make a token
    for cut in sorted(
        {0, steps // 4, steps // 2, 3 * steps // 4, steps - 2} & set(range(steps - 1))
    ):
        here = (cut + 1) * size
        there = inputs.shape[1 + axis] - here
        swapped = torch.cat(
            [inputs.narrow(1 + axis, 0, here), others.narrow(1 + axis, here, there)], dim=1 + axis
        )
        moved = (passed(swapped) - outputs)[:, : cut + 1].abs().max()
        if moved > 1e-5 * outputs.abs().max():
            return False
    return True


PROBES = (causal,)
