"""Which tunable keys act in a run, against what changing them changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from tests.conftest import small, variants
from training.run import train_one

KEYS = {"lr": 0.003, "gamma": 2.0, "mechanism_lr_scale": 5.0, "optimizer.weight_decay": 0.5}


@pytest.mark.parametrize("variant", variants())
def test_a_key_acts_where_its_value_changes_a_score(
    composed: Callable[..., DictConfig], tmp_path: Path, variant: str
) -> None:
    said = (f"variant={variant}", f"tunable=[{','.join(KEYS)}]")
    as_it_is = train_one(composed(*small(*said)), tmp_path / "as_it_is")
    acts = [
        key
        for key, value in KEYS.items()
        if train_one(composed(*small(*said, f"{key}={value}")), tmp_path / key)["scores"]
        != as_it_is["scores"]
    ]
    assert as_it_is["acting"] == acts
