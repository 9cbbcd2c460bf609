"""How parameters start: by name, whatever constructors draw and in whatever order."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from models.mixer import Mechanism
from models.network import initialise


class Gate(Mechanism):
    """A mechanism with layers of its own, of which it draws one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Linear(50, 40)
        self.closed = nn.Linear(4, 4)
        nn.init.zeros_(self.closed.weight)  # without chance: given
        nn.init.constant_(self.closed.bias, -3.0)
        self.norm = nn.LayerNorm(4)
        self.own = nn.Parameter(torch.empty(2, 3))

    def neutral(self) -> nn.Module:
        return nn.Identity()

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        return torch.randn(2, 3, generator=generator) if name == "own" else None


class Undrawn(Gate):
    """Forgets to draw its own parameter."""

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        return None


class Chance(Undrawn):
    """Starts from numbers of torch's global stream."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.normal_(self.own)


class Around(Gate):
    """A mechanism around another, which draws all that the inner one does not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Gate()

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        return torch.full((2, 3), 7.0) if name.endswith("own") else None


class Product(nn.Module):
    """Outside any mechanism, and of no layer that has a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Bilinear(2, 2, 3)


class Tied(Gate):
    """Two layers that share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Linear(50, 40)
        self.again.weight = self.weight.weight


class Buffered(Gate):
    """Keeps random numbers beside its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("features", torch.randn(3))


def stream(name: str, seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(sum(name.encode()) + 1000 * seed)


def started(make: Callable[[], nn.Module], before: int = 0) -> dict[str, Tensor]:
    """The start values in a network that holds the module, after other draws were made."""
    torch.manual_seed(before)
    torch.set_deterministic_debug_mode("error")
    try:
        network, again = nn.ModuleDict({"gate": make()}), nn.ModuleDict({"gate": make()})
    finally:
        torch.set_deterministic_debug_mode("default")
    initialise(network, again, stream)
    return dict(network.named_parameters())


def test_layers_inside_a_mechanism_are_drawn_by_name() -> None:
    start = started(Gate)
    expected = torch.randn(40, 50, generator=stream("gate.weight.weight")) / math.sqrt(50)
    assert start["gate.weight.weight"].equal(expected)
    assert start["gate.weight.bias"].tolist() == [0.0] * 40
    for name, value in started(Gate, before=1).items():  # whatever the constructors drew
        assert value.equal(start[name]), name


def test_what_the_mechanism_draws_comes_from_the_parameters_own_stream() -> None:
    start = started(Gate)
    assert start["gate.own"].equal(torch.randn(2, 3, generator=stream("gate.own")))


def test_what_a_constructor_sets_without_chance_is_given() -> None:
    start = started(Gate)
    assert start["gate.closed.weight"].abs().max() == 0
    assert start["gate.closed.bias"].tolist() == [-3.0] * 4
    assert start["gate.norm.weight"].tolist() == [1.0] * 4


def test_the_innermost_mechanism_draws() -> None:
    start = started(Around)
    assert start["gate.inner.own"].equal(torch.randn(2, 3, generator=stream("gate.inner.own")))
    assert start["gate.own"].tolist() == [[7.0] * 3] * 2


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Undrawn, "gate.own of Undrawn"),
        (Chance, "gate.own of Chance"),
        (Product, "gate.kernel.weight of Bilinear"),
    ],
)
def test_a_random_start_without_a_rule_is_refused(make: type[nn.Module], name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} starts at random, and no rule says how: .*draw"):
        started(make)


class Layers(nn.Module):
    """Outside any mechanism: layers that a track's encoder may be made of."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Conv1d(6, 4, 3, groups=2)
        self.plane = nn.Conv2d(2, 4, (3, 5))
        self.space = nn.Conv3d(2, 4, 2, bias=False)
        self.symbols = nn.Embedding(7, 5)
        self.padded = nn.Embedding(7, 5, padding_idx=2)


@pytest.mark.parametrize(
    ("name", "shape", "fan_in"),
    [
        ("line", (4, 3, 3), 3 * 3),
        ("plane", (4, 2, 3, 5), 2 * 3 * 5),
        ("space", (4, 2, 2, 2, 2), 2 * 2 * 2 * 2),
        ("symbols", (7, 5), 1),
    ],
)
def test_convolutions_and_embeddings_are_drawn_by_name(
    name: str, shape: tuple[int, ...], fan_in: int
) -> None:
    start = started(Layers)
    drawn = torch.randn(shape, generator=stream(f"gate.{name}.weight"))
    torch.testing.assert_close(start[f"gate.{name}.weight"], drawn / math.sqrt(fan_in))
    if f"gate.{name}.bias" in start:
        assert start[f"gate.{name}.bias"].tolist() == [0.0] * 4


def test_a_padding_row_stays_zero() -> None:
    rows = started(Layers)["gate.padded.weight"]
    drawn = torch.randn((7, 5), generator=stream("gate.padded.weight"))
    drawn[2] = 0
    assert rows.equal(drawn)


class Encoder(nn.Module):
    """No mechanism, and draws of what is inside it the weight alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.ModuleList([nn.Linear(3, 2)])

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        return torch.rand(2, 3, generator=generator) if name == "inside.0.weight" else None


def test_any_module_may_draw_what_is_inside_it() -> None:
    start = started(Encoder)
    drawn = torch.rand(2, 3, generator=stream("gate.inside.0.weight"))
    assert start["gate.inside.0.weight"].equal(drawn)
    assert start["gate.inside.0.bias"].tolist() == [0.0, 0.0]


class Misshapen(Gate):
    """Draws a start that would broadcast."""

    def draw(self, name: str, generator: Generator) -> Tensor | None:
        return torch.randn(3, generator=generator) if name == "own" else None


def test_a_start_of_another_shape_is_told() -> None:
    with pytest.raises(TypeError, match=r"gate\.own was drawn as \(3,\), must be \(2, 3\)"):
        started(Misshapen)


def test_a_shared_parameter_starts_by_its_first_name() -> None:
    assert started(Tied)["gate.weight.weight"].equal(started(Gate)["gate.weight.weight"])


def test_a_random_buffer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"the buffer gate\.features is random"):
        started(Buffered)
