"""One seed, many independent streams, each known by its name."""

from __future__ import annotations

import hashlib

import numpy as np
import torch


def sequence(seed: int, *name: str) -> np.random.SeedSequence:
    """The seed sequence of the stream `name`; streams of other names or seeds are independent."""
    word = hashlib.sha256("/".join(name).encode()).digest()[:8]
    return np.random.SeedSequence(seed, spawn_key=(int.from_bytes(word, "little"),))


def numpy_stream(seed: int, *name: str) -> np.random.Generator:
    """The NumPy generator of the stream `name`, e.g. `numpy_stream(0, "data")`."""
    return np.random.default_rng(sequence(seed, *name))


def torch_seed(seed: int, *name: str) -> int:
    """A 63-bit seed for torch, of the stream `name`."""
    return int(sequence(seed, *name).generate_state(1, np.uint64)[0] >> np.uint64(1))


def torch_stream(seed: int, *name: str) -> torch.Generator:
    """The torch generator (CPU) of the stream `name`."""
    return torch.Generator().manual_seed(torch_seed(seed, *name))
