"""Shares of what a file holds, in its order."""

from __future__ import annotations

import numpy as np

from tracks.track import SPLITS


def check_shares(validation: float, test: float) -> None:
    """Raise a ValueError for shares that are not above 0, or leave nothing to train on."""
    if not (validation > 0 and test > 0 and validation + test < 1):
        raise ValueError(
            f"validation_share is {validation} and test_share {test}, must be > 0 with a sum "
            f"below 1"
        )


def share_out(recorded: np.ndarray, validation: float, test: float) -> dict[str, np.ndarray]:
    """Each split's share of recordings (n, T, …): whole ones, or of a single one a stretch of T."""
    alone = len(recorded) == 1
    parts = recorded[0] if alone else recorded
    cuts = [round(len(parts) * (1 - share)) for share in (validation + test, test)]
    found = zip(SPLITS, np.split(parts, cuts), strict=True)
    return {name: each[None] if alone else each for name, each in found}
