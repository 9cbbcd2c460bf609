"""What a network costs: parameters, arithmetic, memory."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from models.network import Network, mechanisms
from tracks.track import Track


def flops_per_example(network: Network, track: Track, inputs: Tensor) -> float:
    """Arithmetic of a prediction, 2 per multiply-add of matrix products, elementwise not counted.

    What a pass does once (a factorisation) is shared by the examples of the batch. Attention is
    counted in full also where it is causal: torch's counter knows the plain kernel alone. What it
    does not know at all, mechanisms say (`flop_rules`).

    Args:
        inputs: a batch, (B, …).
    """
    rules = {op: rule for m in mechanisms(network).values() for op, rule in m.flop_rules.items()}
    counter = FlopCounterMode(display=False, custom_mapping=rules)
    # with gradients, as it trains: without, torch's counter chokes on a module that gives its own
    # parameter, or a view of it
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        track.predict(network, inputs)
    return float(counter.get_total_flops() / len(inputs))


def saved_bytes(network: Network, track: Track, inputs: Tensor, targets: Tensor) -> int:
    """Bytes that a training step keeps for its backward pass, without parameters and buffers."""
    inputs, targets = inputs.clone(), targets.clone()  # a slice would count its whole data set
    own = [*network.parameters(), *network.buffers()]
    return kept_bytes(lambda: track.loss(track.readout(network(inputs)), targets).mean(), own)


def kept_bytes(forward: Callable[[], Tensor], own: Iterable[Tensor]) -> int:
    """Bytes that a forward pass keeps for its backward pass, without those of `own`."""
    known = {t.untyped_storage().data_ptr() for t in own}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    del result  # the graph, and what it kept, lived until here
    return sum(kept.values())


def peak_bytes(device: torch.device) -> int:
    """Most memory so far: of the device's allocator, or on a CPU of the whole process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # kilobytes, but for macOS


def cost(network: Network, track: Track, batch_size: int) -> dict[str, float]:
    """All of it, measured on the first training batch (but for the seconds)."""
    inputs, targets = track.train.inputs[:batch_size], track.train.targets[:batch_size]
    return {
        "parameters": sum(p.numel() for p in network.parameters()),
        "mixer_parameters": sum(p.numel() for m in network.mixers for p in m.parameters()),
        "flops_per_example": flops_per_example(network, track, inputs),
        "saved_bytes": saved_bytes(network, track, inputs, targets),
        "peak_bytes": peak_bytes(inputs.device),
    }
