"""What a network costs: parameters, arithmetic, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import finalize

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
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


class Live(TorchDispatchMode):
    """Bytes of the tensors that live while it is on: those that are given, and all that come.

    Two that share their memory count once. `most` is how many there were at once.
    """

    def __init__(self, *given: Tensor) -> None:
        super().__init__()
        self.now = self.most = 0
        self.known: set[int] = set()
        for tensor in given:
            self.count(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self.count(tensor)
        return found

    def count(self, tensor: Tensor) -> None:
        """From now until its memory is freed."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.now += size
            self.most = max(self.most, self.now)
            finalize(storage, self.freed, key, size).atexit = False

    def freed(self, key: int, size: int) -> None:
        """Its memory is another's now."""
        self.known.discard(key)
        self.now -= size


def peak_bytes(network: Network, track: Track, inputs: Tensor, targets: Tensor) -> int:
    """Most bytes that tensors hold at once in a training step, forwards and backwards.

    Batch, parameters and gradients count; the optimizer's own numbers, and what kernels need while
    they compute, do not. The network is left without gradients.
    """
    network.zero_grad()
    with Live(*network.parameters(), *network.buffers()) as live:
        inputs, targets = inputs.clone(), targets.clone()  # a slice would count its whole data set
        track.loss(track.readout(network(inputs)), targets).mean().backward()
    network.zero_grad()
    return live.most


def parameters(network: Network) -> int:
    """Numbers that it holds, trained or not."""
    return sum(p.numel() for p in network.parameters())


def cost(network: Network, track: Track, batch_size: int) -> dict[str, float | None]:
    """All of it, measured on the first training batch (but for the seconds)."""
    inputs, targets = track.train.inputs[:batch_size], track.train.targets[:batch_size]
    return {
        "parameters": parameters(network),
        "mlp_width": network.mlp_width,
        "mixer_parameters": sum(p.numel() for m in network.mixers for p in m.parameters()),
        "flops_per_example": flops_per_example(network, track, inputs),
        "saved_bytes": saved_bytes(network, track, inputs, targets),
        "peak_bytes": peak_bytes(network, track, inputs, targets),
    }
