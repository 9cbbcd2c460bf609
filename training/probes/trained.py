"""What a probe may look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from models.network import Network
from tracks.track import Track
from training.fit import EVALUATION_BATCH

PROBE_EXAMPLES = 32  # validation examples that reach and signature look at
ABLATED_EXAMPLES = 4 * EVALUATION_BATCH  # test examples without the mechanism: scored in batches as
# they were with it, so that a mechanism that does nothing moves no bit
FEW_EXAMPLES = 4  # that the causality probe perturbs, and that are kept for figures


@dataclass(frozen=True)
class Trained:
    """A network after training.

    Args:
        scores: every example's by split and metric, (n,) each.
        finished: whether all of them are finite; else training diverged, and nothing that asks
            for the network's answers can be measured.
    """

    network: Network
    track: Track
    scores: Mapping[str, Mapping[str, Tensor]]
    finished: bool


Probe = Callable[[Trained], Any]
