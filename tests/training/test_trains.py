"""How a mechanism's parameters train is what the mechanism says of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from models.mixer import Mechanism, Mixer, Trains
from tests.conftest import small
from training.build import build, build_optimizers
from training.config import validated

Compose = Callable[..., DictConfig]


class Inner(Mechanism):
    """Lets its weights train as the network's do, and says nothing of its own number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.mlp = nn.Linear(3, 3)

    def neutral(self) -> nn.Module:
        return nn.Identity()

    def trains(self, name: str) -> Trains:
        return Trains(1.0, decay=True) if name == "mlp.weight" else super().trains(name)


class Plain(Inner, Mixer):
    """Whose layer trains as any other, and only its number does not."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    def trains(self, name: str) -> Trains | None:
        return Trains() if name == "scale" else None


class Outer(Inner, Mixer):
    """Has numbers of its own, and would have all that is in it train otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor) -> Tensor:
        return x

    def trains(self, name: str) -> Trains:
        return Trains(0.5) if name.endswith("weight") else Trains(3.0, decay=True)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_each_parameter_trains_as_the_innermost_mechanism_says(
    composed: Compose, optimizer: str
) -> None:
    config = validated(
        composed(*small(f"optimizer={optimizer}", "lr=0.002", "mechanism_lr_scale=7"))
    )
    _, network, _, _ = build(config)
    network.blocks[0].mixer = Outer()
    network.blocks[1].mixer = Outer().requires_grad_(False)
    decay = config.optimizer.weight_decay
    assert decay > 0
    name_of = {id(p): name for name, p in network.named_parameters()}
    found = {}
    for made in build_optimizers(config, network):
        for group in made.param_groups:
            for parameter in group["params"]:
                name = name_of[id(parameter)]
                if ".mixer." in name:
                    assert name not in found
                    found[name] = (pytest.approx(group["lr"]), group["weight_decay"])
    at = "blocks.0.mixer"
    assert found == {
        f"{at}.scale": (3 * 0.002, decay),
        f"{at}.mlp.weight": (0.5 * 0.002, 0.0),
        f"{at}.mlp.bias": (3 * 0.002, decay),
        f"{at}.inner.scale": (7 * 0.002, 0.0),  # mechanism_lr_scale
        f"{at}.inner.mlp.weight": (1 * 0.002, decay),
        f"{at}.inner.mlp.bias": (7 * 0.002, 0.0),
    }


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_what_trains_as_any_weight_does_so_by_each_rule(composed: Compose, optimizer: str) -> None:
    config = validated(composed(*small(f"optimizer={optimizer}", "mechanism_lr_scale=7")))
    _, network, _, _ = build(config)
    network.blocks[0].mixer = Plain()
    name_of = {id(p): name for name, p in network.named_parameters()}
    groups = [
        {name_of[id(p)] for p in group["params"]}
        for made in build_optimizers(config, network)
        for group in made.param_groups
    ]
    at = "blocks.0"
    for ours, theirs in [("mixer.mlp.weight", "mlp.0.weight"), ("mixer.mlp.bias", "mlp.0.bias")]:
        assert any({f"{at}.{ours}", f"{at}.{theirs}"} <= group for group in groups), ours
    [own] = [group for group in groups if f"{at}.mixer.scale" in group]
    assert own == {f"{at}.mixer.scale", "blocks.1.mixer.bias.table"}
