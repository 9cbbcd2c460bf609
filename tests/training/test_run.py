"""One run without a command line: how it is composed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.singleton import Singleton
from omegaconf import DictConfig

from tests.conftest import SMALL
from training import run


def test_a_run_is_composed_as_by_the_command_line(
    composed: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = composed(*SMALL, "seed=3")
    monkeypatch.delitem(Singleton._instances, GlobalHydra)  # Hydra composes for one at a time
    found = run.composed(*SMALL, "seed=3")
    assert found.hydra.runtime.choices == expected.hydra.runtime.choices
    for each in (found, expected):
        each.hydra = None  # beside the choices, how Hydra was called
    assert found == expected
