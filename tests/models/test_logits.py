"""Every variant's attention against loops over heads, queries and keys, written by hand."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from torch import Tensor

from models.attention import Attention
from tests.conftest import ATTENTION
from training.build import build
from training.config import validated

H, L, WIDTH, TRAINED = 3, 7, 8, 5  # heads, tokens, a head's numbers, tokens while training
GAMMA = 0.7
SIZES = (
    *(f"model.dim={H * WIDTH}", f"model.heads={H}", "model.layers=1", f"gamma={GAMMA}"),
    *(f"track.context={TRAINED}", "track.horizon=2", "track.train=4", "track.validation=4"),
    "track.test=4",
)
OTHERWISE = {"t5": ("variant.mixer.bias.buckets=6", "variant.mixer.bias.farthest=5")}
SLOPES = [1 / 16, 1 / 256, 1 / 4]  # ALiBi's of three heads: those of two, and the first of four

Numbers = dict[str, np.ndarray]  # the mechanism's parameters by name


def mean_exp(p: Numbers, h: int, lag: int) -> float:
    w, r = np.exp(p["logits"][h]), np.exp(p["log_rates"][h])
    return math.log(sum(w[m] * math.exp(-r[m] * lag) for m in range(len(w))) / sum(w))


def table(p: Numbers, h: int, lag: int) -> float:
    return p["table"][h][min(lag, TRAINED - 1)]


def sandwich(p: Numbers, h: int, lag: int) -> float:
    total = sum(math.cos(lag / 10000 ** (2 * k / 128)) for k in range(64))
    return total / (8 * (h + 1) / H)


# (parameters, head, lag) → bias, but for γ
BY_LAG: dict[str, Callable[[Numbers, int, int], float]] = {
    "baseline": table,
    "lag_table": table,
    "lag_table_half": lambda p, h, lag: p["table"][h][min(lag, TRAINED // 2 - 1)],
    "twin": table,
    "alibi": lambda p, h, lag: -SLOPES[h] * lag,
    "t5": lambda p, h, lag: p["table"][h][[0, 1, 2, 3, 4, 5, 5][lag]],
    "kerple_log": lambda p, h, lag: (
        -math.exp(p["log_p"][h]) * math.log(1 + math.exp(p["log_a"][h]) * lag)
    ),
    "kerple_power": lambda p, h, lag: (
        -math.exp(p["log_a"][h]) * lag ** (2 / (1 + math.exp(-p["free_p"][h])))
    ),
    "power_law": lambda p, h, lag: -math.exp(p["log_alpha"][h]) * math.log(1 + lag),
    "sandwich": sandwich,
    "mep": lambda p, h, lag: math.log(
        (math.exp(-SLOPES[h] * lag) + math.exp(-SLOPES[h] * lag**2)) / 2
    ),
    "idea": mean_exp,
    "exp_mixture": mean_exp,
    **dict.fromkeys([f"exp_mixture_{j}" for j in (1, 2, 4, 16)], mean_exp),
    "exp_mixture_frozen": mean_exp,
    "exp_mixture_shared": lambda p, h, lag: mean_exp(p, 0, lag),
    "exp_mixture_signed": lambda p, h, lag: sum(
        w * math.exp(-math.exp(r) * lag)
        for w, r in zip(p["weights"][h], p["log_rates"][h], strict=True)
    ),
}


def fire(p: Numbers, h: int, i: int, j: int, **of: Any) -> float:
    def psi(far: float) -> float:
        return math.log(1 + math.exp(p["log_c"]) * far)

    share = psi(i - j) / psi(max(i, math.exp(p["log_length"])))
    hidden = range(len(p["inner.bias"]))
    inner = [max(0.0, p["inner.weight"][m][0] * share + p["inner.bias"][m]) for m in hidden]
    return sum(p["outer.weight"][h][m] * inner[m] for m in hidden)


def forgetting(p: Numbers, h: int, i: int, j: int, x: np.ndarray, **of: Any) -> float:
    total = 0.0
    for t in range(j + 1, i + 1):
        total += math.log(1 / (1 + math.exp(-(p["gate.weight"][h] @ x[t]) - p["offset"][h])))
    return total


def cope(p: Numbers, h: int, i: int, j: int, q: np.ndarray, k: np.ndarray, **of: Any) -> float:
    far = sum(1 / (1 + math.exp(-q[i] @ k[t] / math.sqrt(WIDTH))) for t in range(j, i + 1))
    far = min(far, TRAINED - 1)
    low = math.floor(far)
    high = min(low + 1, TRAINED - 1)
    at_low, at_high = (q[i] @ p["table"][:, n] for n in (low, high))
    return at_low + (far - low) * (at_high - at_low)


BY_CONTENT: dict[str, Callable[..., float]] = {
    "fire": fire,
    "forgetting": forgetting,
    "cope": cope,
}


def rope(pairs: int, slower: float = 1.0) -> Callable[[np.ndarray, int], np.ndarray]:
    """Turns the first pairs of a vector at a position, as complex numbers; `slower` is base's."""

    def turn(vector: np.ndarray, at: int) -> np.ndarray:
        turned = vector.copy()
        for m in range(pairs):
            angle = at / (10000 * slower) ** (2 * m / (2 * pairs))
            z = complex(vector[2 * m], vector[2 * m + 1]) * cmath.exp(1j * angle)
            turned[2 * m], turned[2 * m + 1] = z.real, z.imag
        return turned

    return turn


ROTATIONS = {
    "rope": rope(4),
    "rope_partial": rope(1),
    "rope_ntk": rope(4, slower=(L / TRAINED) ** (8 / 6)),
}
BOTH_WAYS = {"dense_attention"}
BARE = {"nope", "dense_attention"}


@pytest.fixture(scope="module", params=ATTENTION)
def variant(request: pytest.FixtureRequest, composed: Callable[..., DictConfig]) -> Any:
    """Its name, and its attention with a mechanism that is not at its start, in float64."""
    name = request.param
    more = ("variant.signature=null", *OTHERWISE.get(name, ()))
    _, network, _, _ = build(validated(composed(f"variant={name}", *SIZES, *more)))
    attention = network.mixers[0].double()
    assert isinstance(attention, Attention)
    torch.manual_seed(1)
    with torch.no_grad():
        attention.qkv.weight.mul_(3)  # so that content says something
        for slot in (attention.bias, attention.rotation):
            for parameter in slot.parameters() if slot is not None else ():
                parameter.add_(0.5 * torch.randn_like(parameter))
    return name, attention


def by_hand(name: str, attention: Attention, x: Tensor) -> Tensor:
    """All queries' logits, (B, H, L, L)."""
    p: Numbers = {}
    if attention.bias is not None:
        p = {n: value.detach().numpy() for n, value in attention.bias.named_parameters()}
    projected = attention.qkv(x).detach().numpy()
    logits = np.full((len(x), H, L, L), -math.inf)
    for b in range(len(x)):
        for h in range(H):
            q = projected[b, :, h * WIDTH : (h + 1) * WIDTH]
            k = projected[b, :, (H + h) * WIDTH : (H + h + 1) * WIDTH]
            for i in range(L):
                for j in range(L) if name in BOTH_WAYS else range(i + 1):
                    turn = ROTATIONS.get(name, lambda vector, at: vector)
                    logits[b, h, i, j] = turn(q[i], i) @ turn(k[j], j) / math.sqrt(WIDTH)
                    if name in BY_LAG:
                        logits[b, h, i, j] += GAMMA * BY_LAG[name](p, h, i - j)
                    elif name in BY_CONTENT:
                        of = {"q": q, "k": k, "x": x[b].numpy()}
                        logits[b, h, i, j] += GAMMA * BY_CONTENT[name](p, h, i, j, **of)
    return torch.from_numpy(logits)


def test_every_variant_has_its_loop() -> None:
    assert {*BY_LAG, *BY_CONTENT, *ROTATIONS, *BARE} == {*ATTENTION}


@pytest.mark.parametrize("queries", [1, 3, L])
def test_logits_are_those_of_the_definition(variant: Any, queries: int) -> None:
    """Of the last queries alone too, which are fewer than the keys."""
    name, attention = variant
    torch.manual_seed(0)
    x = torch.randn(2, L, H * WIDTH, dtype=torch.float64)
    q, k, _ = attention.project(x)
    q = q[:, :, -queries:]
    turned_q, turned_k = attention.rotated(q, k, x)
    seen = turned_q @ turned_k.mT / math.sqrt(WIDTH)
    mask = attention.mask(q, k, x)
    if mask is not None:
        seen = seen + mask
    elif name not in BOTH_WAYS:  # torch's own mask, which forward asks for
        seen = seen.masked_fill(torch.ones(L, L, dtype=torch.bool).triu(1)[-queries:], -math.inf)
    expected = by_hand(name, attention, x)[:, :, -queries:]
    # some constants are of float32
    torch.testing.assert_close(seen, expected, rtol=1e-6, atol=1e-6)


def test_outputs_are_those_of_the_definition(variant: Any) -> None:
    name, attention = variant
    torch.manual_seed(0)
    x = torch.randn(2, L, H * WIDTH, dtype=torch.float64)
    _, _, v = attention.project(x)
    mixed = by_hand(name, attention, x).softmax(-1) @ v
    expected = attention.out(mixed.transpose(1, 2).flatten(-2))
    torch.testing.assert_close(attention(x), expected, rtol=1e-6, atol=1e-6)
