"""A track that nobody can learn, or everybody can, tells nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from training.run import train_one


@pytest.mark.slow
@pytest.mark.parametrize("track", ["series", "elnino", "sunspots"])
def test_the_baseline_beats_what_is_trivial_and_is_clear_of_the_ceiling(
    composed: Callable[..., DictConfig], tmp_path: Path, track: str
) -> None:
    record = train_one(composed(f"track={track}", "lr=0.003"), tmp_path)
    references = {k: v for k, v in record["secondary"].items() if k.endswith("_mse")}
    trivial = [v["scores"]["test"] for v in references.values() if not v["is_fitted"]]
    assert len(trivial) == 2
    assert record["scores"]["test"] < 0.9 * min(trivial)
    assert record["scores"]["test"] > 0.1 * min(trivial)  # much is left to forecast
