"""Costs against closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, ClassVar

import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from models.mixer import Mechanism, Mixer
from models.network import Network
from tests.conftest import ON_SEQUENCES
from tracks.track import Track
from training.build import build
from training.config import validated
from training.cost import Live, cost, flops_per_example, peak_bytes, saved_bytes

Compose = Callable[..., DictConfig]
N, D, HORIZON, LAYERS, BATCH = 32, 64, 8, 2, 32

# Multiply-adds of one block's mixer, per example, counted by hand.
MIXER = {
    # q, k, v and output projections: N tokens · 4 d²; QKᵀ and the weighted sum: N² d each
    "baseline": 4 * N * D**2 + 2 * N**2 * D,
    "idea": 4 * N * D**2 + 2 * N**2 * D,
    "dense_attention": 4 * N * D**2 + 2 * N**2 * D,
    # Uᵀx and back: N·r·d each; once per batch a QR: 2nr² − ⅔r³
    "tensor_mixer": 2 * N * 16 * D + (2 * N * 16**2 - 2 / 3 * 16**3) / BATCH,
    # the gate: N · d²; Toeplitz matrices: N² d
    "base_conv": N * D**2 + N**2 * D,
    "no_mixer": 0,
}


class Toy:
    """What a step asks of a track."""

    def readout(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs

    def loss(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (predictions - targets).square().mean(-1)


def built(composed: Compose, *overrides: str) -> tuple[Track, Network]:
    track, network, _, _ = build(validated(composed(*overrides)))
    return track, network


@pytest.mark.parametrize("variant", MIXER)
def test_flops_are_those_of_the_closed_form(composed: Compose, variant: str) -> None:
    track, network = built(composed, f"variant={variant}")
    mlp, embed, head = 8 * N * D**2, N * D, N * D * HORIZON
    expected = 2 * (embed + LAYERS * (MIXER[variant] + mlp) + head)
    seen = flops_per_example(network, track, track.train.inputs[:BATCH])
    assert seen == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    ("variant", "mixer"),
    [
        ("baseline", LAYERS * (4 * D**2 + 4 * D + 4 * N)),
        ("idea", LAYERS * (4 * D**2 + 4 * D + 2 * 4 * 8)),
        ("tensor_mixer", LAYERS * (N * 16 + 16)),
        ("no_mixer", 0),
    ],
)
def test_parameters_by_hand(composed: Compose, variant: str, mixer: int) -> None:
    track, network = built(composed, f"variant={variant}")
    seen = cost(network, track, BATCH)
    block = 2 * 2 * D + (4 * D * D + 4 * D) + (4 * D * D + D)
    around = (D + D) + N * D + LAYERS * block + 2 * D + (D * HORIZON + HORIZON)
    assert seen["mixer_parameters"] == mixer
    assert seen["parameters"] == around + mixer


def test_saved_bytes_of_a_network_that_can_be_counted() -> None:
    """Linear → square loss: the pass keeps the input and the difference, not the weight."""

    network = torch.nn.Linear(6, 3)
    inputs, targets = torch.randn(5, 6), torch.randn(5, 3)
    assert saved_bytes(network, Toy(), inputs, targets) == 4 * (5 * 6 + 5 * 3)
    many = torch.randn(1000, 6)
    assert saved_bytes(network, Toy(), many[:5], targets) == 4 * (5 * 6 + 5 * 3)


def test_saved_bytes_leave_out_parameters_and_buffers() -> None:
    """Two layers: the pass keeps the second's weight too, which is no cost of the step."""

    class Scaled(torch.nn.Linear):
        def __init__(self, n: int, out: int) -> None:
            super().__init__(n, out)
            self.register_buffer("scale", torch.ones(out))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.scale

    network = torch.nn.Sequential(torch.nn.Linear(6, 4), Scaled(4, 3))
    inputs, targets = torch.randn(5, 6), torch.randn(5, 3)
    # the input, what is between the layers, the difference; the scale is a buffer
    assert saved_bytes(network, Toy(), inputs, targets) == 4 * (5 * 6 + 5 * 4 + 5 * 3)


def test_live_bytes_counted_by_hand() -> None:
    given = torch.zeros(3)
    with Live(given, given.view(3, 1)) as live:
        first = torch.zeros(5)  # 3 + 5
        view = first[:2]
        second = first + 1  # 3 + 5 + 5: the most
        del first, second  # the view keeps the first
        assert live.now == 4 * (3 + 5)
        del view
        last = given.repeat(2)  # 3 + 6
    assert (live.now, live.most) == (4 * (3 + 6), 4 * (3 + 5 + 5))
    del last
    assert live.now == 4 * 3


def profiled_peak(network: Network, track: Track, inputs: Tensor, targets: Tensor) -> int:
    """As the allocator tells it: PyTorch's profiler sees every allocation and every release."""
    held = sum(t.numel() * t.element_size() for t in (*network.parameters(), *network.buffers()))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        inputs, targets = inputs.clone(), targets.clone()
        track.loss(track.readout(network(inputs)), targets).mean().backward()
    network.zero_grad()
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    steps = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
    return held + max(accumulate(steps))


@pytest.mark.parametrize("variant", ON_SEQUENCES)
def test_peak_is_what_the_allocator_saw(composed: Compose, variant: str) -> None:
    track, network = built(composed, f"variant={variant}", "track.train=64")
    batch = track.train.inputs[:BATCH], track.train.targets[:BATCH]
    peak = peak_bytes(network, track, *batch)
    # but for a few numbers that an operator holds while it computes
    assert peak == pytest.approx(profiled_peak(network, track, *batch), rel=1e-3)


def test_cost_is_of_a_training_batch(composed: Compose) -> None:
    track, network = built(composed)
    x, y = track.train.inputs, track.train.targets
    assert cost(network, track, 24)["saved_bytes"] == saved_bytes(network, track, x[:24], y[:24])


def test_saved_bytes_grow_with_the_batch(composed: Compose) -> None:
    track, network = built(composed)
    x, y = track.train.inputs, track.train.targets
    small, large = (saved_bytes(network, track, x[:b], y[:b]) for b in (16, 32))
    assert 1.9 < large / small <= 2.0


class Factorised(Mixer, Mechanism):
    """Solves a system that torch's counter knows nothing of, and says what it costs."""

    flop_rules: ClassVar[Mapping[Any, Callable[..., int]]] = {
        torch.ops.aten.linalg_inv_ex: lambda shape, *_, **__: 1000 * shape[-1]
    }

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.linalg.inv(torch.eye(5, device=x.device)).sum()

    def neutral(self) -> torch.nn.Module:
        return torch.nn.Identity()


class Unsaid(Factorised):
    flop_rules: ClassVar[Mapping[Any, Callable[..., int]]] = {}


def test_what_the_counter_does_not_know_mechanisms_say(composed: Compose) -> None:
    track, network = built(composed, "variant=no_mixer")
    inputs = track.train.inputs[:4]
    plain = flops_per_example(network, track, inputs)
    network.blocks[0].mixer = Unsaid()
    assert flops_per_example(network, track, inputs) == plain
    network.blocks[1].mixer = Factorised()  # its rule holds of the operation wherever it is
    assert flops_per_example(network, track, inputs) == plain + 2 * 5000 / 4
