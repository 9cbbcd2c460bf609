"""What one run computes, written a second time: plainly, slowly, and in float64.

The tests hold the product against this file, so it shares no line with it: it imports nothing of
`models/`, `tracks/` or `training/`, and follows the definitions (the papers, the docstrings, the
comments in `conf/`) instead. A configuration is a nested dict as `conf/` composes it; parameters
are a dict from name to tensor, `{"embed.weight": (d, 1), …}`; a run is `run(config)`.

B examples, N tokens, d numbers per token, H heads of c = d/H numbers, L lags, J exponentials.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import torch
from statsmodels import datasets
from torch import Tensor

Config = dict[str, Any]
Params = dict[str, Tensor]
Splits = dict[str, tuple[Tensor, Tensor]]  # name → inputs (n, N, 1), targets (n, horizon)

PROBED = 32  # validation examples that reach and signature are measured on
KEPT = 4  # test examples that are kept for figures


# Seeds: one number, many independent streams, each keyed by a name ------------------------------


def stream(seed: int, *name: str) -> np.random.SeedSequence:
    """A child of the seed; its key is the first 8 bytes of the SHA-256 of the name."""
    key = hashlib.sha256("/".join(name).encode()).digest()[:8]
    return np.random.SeedSequence(seed, spawn_key=(int.from_bytes(key, "little"),))


def torch_generator(seed: int, *name: str) -> torch.Generator:
    """Seeded by 63 bits of the stream."""
    (word,) = stream(seed, *name).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(word) >> 1)


# Data -------------------------------------------------------------------------------------------


def data(config: Config) -> tuple[Splits, dict[str, dict[str, float]]]:
    """The three splits, float32, and the scores of trivial predictions on two of them."""
    track = config["track"]
    if track["_target_"].endswith("Sequence"):
        windows, references = sequence_windows(track, config["seed"]), {}
    else:
        windows, references = series_windows(track)
    context = track["context"]
    splits = {}
    for name, w in windows.items():  # (n, context + horizon)
        values = torch.from_numpy(w.astype(np.float32))
        splits[name] = (values[:, :context, None], values[:, context:])
    return splits, references


def sequence_windows(track: Config, seed: int) -> dict[str, np.ndarray]:
    """Two sinusoids and AR(1) noise, standardised by the context; every split by itself."""
    windows = {}
    length = track["context"] + track["horizon"]
    shortest, longest = track["periods"]
    rho, sigma = track["correlation"], track["noise"]
    for split in ("train", "validation", "test"):
        n = track[split]
        rng = np.random.default_rng(stream(seed, "data", split))
        period = np.exp(rng.uniform(math.log(shortest), math.log(longest), (n, 2, 1)))
        phase = rng.uniform(0, 2 * math.pi, (n, 2, 1))
        amplitude = rng.uniform(0.5, 1.5, (n, 2, 1))
        shock = rng.standard_normal((n, length))

        time = np.arange(length)
        x = (amplitude * np.sin(2 * math.pi * time / period + phase)).sum(axis=1)  # (n, length)
        noise = sigma * shock[:, 0]  # variance σ² from the first value on
        for t in range(length):
            if t > 0:
                noise = rho * noise + math.sqrt(1 - rho**2) * sigma * shock[:, t]
            x[:, t] += noise
        seen = x[:, : track["context"]]
        mean, std = seen.mean(axis=1), seen.std(axis=1)
        windows[split] = (x - mean[:, None]) / (std[:, None] + 1e-8)
    return windows


def series_windows(track: Config) -> tuple[dict[str, np.ndarray], dict[str, dict[str, float]]]:
    """All windows of one series in three stretches of time, relative to the last context value."""
    if track["csv"] is not None:
        series = pd.read_csv(track["csv"])[track["columns"]].to_numpy(float)
        season = None
    elif track["name"] == "co2":  # weekly; missing weeks lie on the line between their neighbours
        raw = datasets.co2.load_pandas().data["co2"].to_numpy(float)
        known = np.flatnonzero(np.isfinite(raw))
        series, season = np.interp(np.arange(len(raw)), known, raw[known]), 52
    elif track["name"] == "elnino":  # a row per year
        rows = datasets.elnino.load_pandas().data.to_numpy(float)
        series, season = np.concatenate([row[1:] for row in rows]), 12
    else:
        series = datasets.sunspots.load_pandas().data["SUNACTIVITY"].to_numpy(float)
        season = 11
    if track["period"] != "auto":
        season = track["period"]

    sizes = [n if n >= 1 else n * len(series) for n in track["split"]]  # in rows, or shares
    first, second, total = round(sizes[0]), round(sizes[0] + sizes[1]), round(sum(sizes))
    series = series / series[:first].std()  # of the training stretch alone
    context, horizon = track["context"], track["horizon"]
    windows: dict[str, np.ndarray] = {}
    errors: dict[str, dict[str, list[float]]] = {"persistence_mse": {}}
    if season is not None:
        errors["seasonal_naive_mse"] = {}
    stretches = {"train": (0, first), "validation": (first, second), "test": (second, total)}
    for split, (begin, end) in stretches.items():
        rows = []
        for name in errors:
            errors[name][split] = []
        own = 0 if track["reach_back"] and split != "train" else context  # context within it
        for now in range(begin + own - 1, end - horizon):  # where the last context value is
            rows.append(series[now - context + 1 : now + horizon + 1] - series[now])
            for step in range(1, horizon + 1):
                errors["persistence_mse"][split].append((series[now + step] - series[now]) ** 2)
            if season is not None:
                before = [s - season * math.ceil(s / season) for s in range(1, horizon + 1)]  # ≤ 0
                if now + min(before) >= 0:  # else the season lies before the series began
                    errors["seasonal_naive_mse"][split] += [
                        (series[now + s] - series[now + b]) ** 2
                        for s, b in enumerate(before, start=1)
                    ]
        windows[split] = np.array(rows)
    references = {
        name: {s: float(np.mean(by_split[s])) for s in ("validation", "test")}
        for name, by_split in errors.items()
    }
    return windows, references | {"dlinear_mse": dlinear(windows, context)}


def dlinear(windows: dict[str, np.ndarray], context: int) -> dict[str, float]:
    """MSE of linear maps of a moving average of 25 and of what remains, by ridge regression."""

    def features(rows: np.ndarray) -> np.ndarray:
        padded = np.pad(rows, ((0, 0), (12, 12)), mode="edge")
        trend = np.array([np.convolve(row, np.full(25, 1 / 25), mode="valid") for row in padded])
        return np.hstack([trend, rows - trend])

    x = {split: features(rows[:, :context]) for split, rows in windows.items()}
    y = {split: rows[:, context:] for split, rows in windows.items()}
    x_mean, y_mean = x["train"].mean(axis=0), y["train"].mean(axis=0)
    centred, n = x["train"] - x_mean, len(x["train"])
    width = centred.shape[1]
    fits = []
    for strength in (
        1e-4,
        1e-3,
        1e-2,
        1e-1,
        1,
    ):  # of the features' mean square; as rows to be fitted
        penalty = math.sqrt(strength * n * np.square(centred).sum() / n / width) * np.eye(width)
        rows = np.vstack([y["train"] - y_mean, np.zeros((width, y_mean.size))])
        weights = np.linalg.lstsq(np.vstack([centred, penalty]), rows, rcond=None)[0]
        fits.append(
            {
                split: float(np.square((x[split] - x_mean) @ weights + y_mean - y[split]).mean())
                for split in ("validation", "test")
            }
        )
    return min(fits, key=lambda scores: scores["validation"])


# Parameters and what they start as --------------------------------------------------------------


def kind(config: Config) -> str:
    """Which mixer: table, mixture, line, forgetting, rotary, dense, tensor or none."""
    mixer = config["variant"]["mixer"]
    target = mixer["_target_"].rpartition(".")[2]
    if target != "Attention":
        return {"TensorMixer": "tensor", "NoMixer": "none"}[target]
    slot = mixer.get("bias") or mixer.get("rotation")
    return {
        "LagTable": "table",
        "ExpMixture": "mixture",
        "Alibi": "line",
        "Forgetting": "forgetting",
        "Rope": "rotary",
        None: "dense",
    }[slot and slot["_target_"].rpartition(".")[2]]


def attends(config: Config) -> bool:
    return kind(config) not in ("tensor", "none")


def by_lag(config: Config) -> bool:
    """Has a bias that knows the lag alone."""
    return kind(config) in ("table", "mixture", "line")


def grid(config: Config) -> tuple[int, ...]:
    """Lengths of the token grid's axes: these tracks have one, time."""
    return (config["track"]["context"],)


def ranks(config: Config) -> list[int]:
    """Of the tensor mixer's factors: as given, or half of each axis."""
    rank = config["variant"]["mixer"]["rank"]
    return [n // 2 if rank == "auto" else rank for n in grid(config)]


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Every parameter of the network by name."""
    d, heads = config["model"]["dim"], config["model"]["heads"]
    n = math.prod(grid(config))
    found: dict[str, tuple[int, ...]] = {"embed.weight": (d, 1), "embed.bias": (d,)}
    if config["variant"]["positions"] == "learned":
        found["positions"] = (n, d)
    for i in range(config["model"]["layers"]):
        block: dict[str, tuple[int, ...]] = {
            "mixer_norm.weight": (d,),
            "mixer_norm.bias": (d,),
            "mlp_norm.weight": (d,),
            "mlp_norm.bias": (d,),
            "mlp.0.weight": (4 * d, d),
            "mlp.0.bias": (4 * d,),
            "mlp.2.weight": (d, 4 * d),
            "mlp.2.bias": (d,),
        }
        if attends(config):
            block |= {
                "mixer.qkv.weight": (3 * d, d),
                "mixer.qkv.bias": (3 * d,),
                "mixer.out.weight": (d, d),
                "mixer.out.bias": (d,),
            }
        if kind(config) == "table":
            length = config["variant"]["mixer"]["bias"]["length"]
            block["mixer.bias.table"] = (heads, n if length is None else length)
        elif kind(config) == "mixture":
            components = config["variant"]["mixer"]["bias"]["components"]
            block["mixer.bias.log_rates"] = block["mixer.bias.logits"] = (heads, components)
        elif kind(config) == "forgetting":
            block["mixer.bias.gate.weight"] = (heads, d)
            block["mixer.bias.offset"] = (heads,)
        elif kind(config) == "tensor":
            for a, (length, rank) in enumerate(zip(grid(config), ranks(config), strict=True)):
                block[f"mixer.free.{a}"] = (length, rank)
                block[f"mixer.theta.{a}"] = (rank,)
        found |= {f"blocks.{i}.{name}": shape for name, shape in block.items()}
    horizon = config["track"]["horizon"]
    return found | {
        "norm.weight": (d,),
        "norm.bias": (d,),
        "head.weight": (horizon, d),
        "head.bias": (horizon,),
    }


def is_matrix(name: str, shape: tuple[int, ...]) -> bool:
    """The weight matrix of a linear layer, (out, in)."""
    return name.endswith(".weight") and len(shape) == 2


def is_mechanism(config: Config, name: str) -> bool:
    """Part of the idea: a bias, or all of a tensor mixer."""
    return ".mixer.bias." in name or (kind(config) == "tensor" and ".mixer." in name)


def trains(config: Config, name: str) -> bool:
    bias = config["variant"]["mixer"].get("bias") or {}
    if bias.get("components") == 1 and name.endswith("logits"):
        return False  # the weight of one is 1, whatever its logit
    return not (config["variant"]["frozen"] and is_mechanism(config, name))


def spread(name: str, shape: tuple[int, ...]) -> float | None:
    """Standard deviation of a start that is drawn, normal with mean 0; None for a fixed one."""
    if is_matrix(name, shape):
        return 1 / math.sqrt(shape[1])  # so that a layer keeps its input's variance (LeCun 1998)
    if name == "positions":
        return 0.02
    return 1.0 if ".mixer.free." in name else None


def fixed_start(name: str, shape: tuple[int, ...]) -> Tensor:
    """A start without chance, float64: norms the identity, rates by closed form, all else 0.

    But for what forgets: of a token before, it keeps nine tenths at first, in log odds.
    """
    if name.endswith("norm.weight"):
        return torch.ones(shape, dtype=torch.float64)
    if name.endswith("offset"):
        return torch.full(shape, math.log(9), dtype=torch.float64)
    if not name.endswith("log_rates"):
        return torch.zeros(shape, dtype=torch.float64)
    heads, components = shape
    rates = np.empty(shape)
    for h in range(heads):
        slope = 2 ** (-8 * (h + 1) / heads)  # ALiBi's (Press et al. 2022)
        for j in range(components):  # log-evenly over a factor of 8, the slope in the middle
            place = j / (components - 1) - 0.5 if components > 1 else 0.0
            rate = slope * 8**place
            rates[h, j] = rate / (1 + rate)  # below 1
    return torch.from_numpy(np.log(rates))


def start_values(config: Config) -> Params:
    """Each drawn from a stream of its own, keyed by its name; float64 of float32 draws."""
    start = {}
    for name, shape in shapes(config).items():
        std = spread(name, shape)
        if std is None:
            start[name] = fixed_start(name, shape)
        else:
            stem = config["variant"]["initial_stream"]
            generator = torch_generator(config["seed"], stem, name)
            start[name] = std * torch.randn(shape, generator=generator).double()
    return start


# The network ------------------------------------------------------------------------------------


def linear(p: Params, name: str, x: Tensor) -> Tensor:  # (…, in) → (…, out)
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def layer_norm(p: Params, name: str, x: Tensor) -> Tensor:  # (…, d) → (…, d)
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * p[f"{name}.weight"] + p[f"{name}.bias"]


def gelu(x: Tensor) -> Tensor:
    """x·Φ(x), Φ the normal distribution function (Hendrycks & Gimpel 2016)."""
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def lag_bias(config: Config, p: Params, lags: Tensor) -> Tensor:
    """b_h(lag) of one block, γ included: (L,) → (H, L).

    The table has a free number for each lag, its last one for all beyond. The mixture is
    γ·log Σⱼ softmax(w)ⱼ exp(−rⱼ·lag), with rates r = exp(ρ). The line is ALiBi's.
    """
    gamma = config["variant"]["mixer"]["bias"]["gamma"]
    if kind(config) == "table":
        table = p["mixer.bias.table"]  # (H, L)
        return gamma * torch.stack(
            [table[:, min(int(lag), table.shape[1] - 1)] for lag in lags], dim=1
        )
    if kind(config) == "line":
        heads = config["model"]["heads"]
        assert heads in (1, 2, 4, 8)  # others have slopes by another rule
        slopes = torch.tensor([2 ** (-8 * h / heads) for h in range(1, heads + 1)]).double()
        return -gamma * slopes[:, None] * lags
    weights = p["mixer.bias.logits"].softmax(1)  # (H, J)
    rates = p["mixer.bias.log_rates"].exp()
    decays = torch.exp(-rates[:, :, None] * lags)  # (H, J, L)
    return gamma * torch.log((weights[:, :, None] * decays).sum(1))


def kept(p: Params, x: Tensor) -> Tensor:
    """Share of what was before that each token keeps, by head: (B, N, d) → (B, H, N)."""
    odds = torch.exp(x @ p["mixer.bias.gate.weight"].T + p["mixer.bias.offset"])
    return (odds / (1 + odds)).transpose(1, 2)


def forgotten(config: Config, p: Params, x: Tensor) -> Tensor:
    """γ·log of what is kept from each key to each query, (B, H, N, N) (Lin et al. 2025)."""
    share = kept(p, x)
    n = x.shape[1]
    rows = [
        torch.stack([share[:, :, j + 1 : i + 1].prod(-1) for j in range(n)], dim=-1)
        for i in range(n)
    ]
    return config["variant"]["mixer"]["bias"]["gamma"] * torch.log(torch.stack(rows, dim=-2))


def rotated(config: Config, x: Tensor) -> Tensor:
    """Pairs of numbers as complex ones, turned by t·base^(−2m/c): (B, N, H, c), the same."""
    n, c = x.shape[1], x.shape[3]
    rates = config["variant"]["mixer"]["rotation"]["base"] ** (
        -torch.arange(0, c, 2, dtype=torch.float64) / c
    )
    angles = torch.arange(n)[:, None] * rates  # (N, c/2)
    turns = torch.exp(1j * angles)[:, None]  # the same in all heads
    pairs = torch.complex(x[..., ::2].double(), x[..., 1::2].double()) * turns
    return torch.stack([pairs.real, pairs.imag], dim=-1).flatten(-2).to(x.dtype)


def attention(config: Config, p: Params, x: Tensor, biased: bool = True) -> tuple[Tensor, Tensor]:
    """softmax(QKᵀ/√c + b(lag)) V of one block (Vaswani et al. 2017).

    (B, N, d) → what comes out, (B, N, d), and the attention, (B, H, N, N), query by key.
    """
    heads, causal = config["model"]["heads"], config["variant"]["mixer"]["causal"]
    batch, n, d = x.shape
    q, k, v = (
        part.reshape(batch, n, heads, d // heads)  # (B, N, H, c)
        for part in linear(p, "mixer.qkv", x).split(d, dim=-1)
    )
    if biased and kind(config) == "rotary":
        q, k = rotated(config, q), rotated(config, k)
    logits = torch.einsum("bihc,bjhc->bhij", q, k) / math.sqrt(d // heads)
    behind = torch.arange(n)[:, None] - torch.arange(n)  # (N, N) lag of key j behind query i
    if biased and kind(config) == "forgetting":
        logits = logits + forgotten(config, p, x)
    if biased and by_lag(config):
        logits = logits + lag_bias(config, p, torch.arange(n))[:, behind.abs()]
    if causal:
        logits = logits.masked_fill(behind < 0, -math.inf)
    weights = logits.softmax(-1)
    mixed = torch.einsum("bhij,bjhc->bihc", weights, v).reshape(batch, n, d)
    return linear(p, "mixer.out", mixed), weights


def orthonormal(free: Tensor) -> Tensor:
    """The Q of QR with a positive diagonal of R, by Gram and Schmidt: (n, r) → (n, r)."""
    columns: list[Tensor] = []
    for column in free.T:
        for _ in range(2):  # a second time, for what rounding left
            for earlier in columns:
                column = column - (earlier @ column) * earlier
        columns.append(column / column.norm())
    return torch.stack(columns, dim=1)


def factors(config: Config, p: Params) -> list[Tensor]:
    """K = U·diag(sigmoid(θ))·Uᵀ of every axis, (n, n), in one block."""
    found = []
    for a in range(len(grid(config))):
        u = orthonormal(p[f"mixer.free.{a}"])
        found.append(u @ torch.diag(p[f"mixer.theta.{a}"].sigmoid()) @ u.T)
    return found


def mix(config: Config, p: Params, x: Tensor, mechanism: bool) -> Tensor:
    """One block's token mixer, (B, N, d) → (B, N, d); without its mechanism where asked."""
    if attends(config):
        return attention(config, p, x, biased=mechanism)[0]
    if kind(config) == "none" or not mechanism:
        return x
    return reduce(torch.kron, factors(config, p)) @ x  # (N, N): the whole grid at once


def block_params(p: Params, i: int) -> Params:
    """One block's parameters by their names in it."""
    stem = f"blocks.{i}."
    return {name.removeprefix(stem): v for name, v in p.items() if name.startswith(stem)}


def forward(
    config: Config, p: Params, inputs: Tensor, mechanism: bool = True
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, (B, N, 1) → (B, N, horizon), and what each block's mixer read, (B, N, d)."""
    x = linear(p, "embed", inputs.to(p["embed.weight"].dtype))
    if config["variant"]["positions"] == "learned":
        x = x + p["positions"]
    read = []
    for i in range(config["model"]["layers"]):
        own = block_params(p, i)
        read.append(layer_norm(own, "mixer_norm", x))
        x = block(config, own, x, mechanism)
    return linear(p, "head", layer_norm(p, "norm", x)), read


def block(config: Config, own: Params, x: Tensor, mechanism: bool = True) -> Tensor:
    """One block, (B, N, d) → (B, N, d)."""
    x = x + mix(config, own, layer_norm(own, "mixer_norm", x), mechanism)
    hidden = gelu(linear(own, "mlp.0", layer_norm(own, "mlp_norm", x)))
    return x + linear(own, "mlp.2", hidden)


def errors(
    config: Config, p: Params, split: tuple[Tensor, Tensor], mechanism: bool = True
) -> Tensor:
    """What was predicted at the last token, minus what came: (n, horizon)."""
    outputs, _ = forward(config, p, split[0], mechanism)
    return outputs[:, -1] - split[1].to(outputs.dtype)


def scores(
    config: Config, p: Params, split: tuple[Tensor, Tensor], mechanism: bool = True
) -> dict[str, Tensor]:
    """Mean squared and mean absolute error of every example, (n,) each."""
    error = errors(config, p, split, mechanism)
    return {"mse": error.square().mean(1), "mae": error.abs().mean(1)}


# Training ---------------------------------------------------------------------------------------


def batch_order(config: Config, examples: int) -> Tensor:
    """Every epoch all training examples once, in another order: (epochs, examples)."""
    generator = torch_generator(config["seed"], "order")
    epochs = range(config["training"]["epochs"])
    return torch.stack([torch.randperm(examples, generator=generator) for _ in epochs])


def lr_factor(optimizer: Config, step: int, steps: int) -> float:
    """Of the peak lr, in step 0, 1, …: a line from 0 up to 1, then 1 or half a cosine down to 0.

    The last of the warm-up's steps has the peak; the cosine would be 0 in the step after the last.
    """
    warm = math.floor(optimizer["warmup"] * steps)
    if step < warm:
        return (step + 1) / warm
    if optimizer["schedule"] == "constant":
        return 1.0
    return math.cos(math.pi / 2 * (step - warm) / (steps - warm)) ** 2  # = (1 + cos 2a)/2


Update = Callable[[Tensor, float], None]  # the parameter's gradient and lr → the parameter, changed


def adamw(w: Tensor, decay: float, settings: Config) -> Update:
    """Loshchilov & Hutter 2019: decay beside the step, which the moments alone decide."""
    beta1, beta2 = settings["betas"]
    m, v, t = torch.zeros_like(w), torch.zeros_like(w), 0

    def update(gradient: Tensor, lr: float) -> None:
        nonlocal m, v, t
        t += 1
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        step = (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + 1e-8)
        w.copy_(w - lr * decay * w - lr * step)

    return update


def sgd(w: Tensor, decay: float, settings: Config) -> Update:
    """With Nesterov's momentum, as torch has it: decay is part of the gradient."""
    momentum, velocity = settings["momentum"], torch.zeros_like(w)
    assert settings["nesterov"]

    def update(gradient: Tensor, lr: float) -> None:
        nonlocal velocity
        gradient = gradient + decay * w
        velocity = momentum * velocity + gradient
        w.copy_(w - lr * (gradient + momentum * velocity))

    return update


def muon(w: Tensor, decay: float, settings: Config) -> Update:
    """Jordan 2024: Nesterov's momentum, all its singular values brought close to 1.

    By five steps of X ← 3.4445·X − 4.775·(XXᵀ)X + 2.0315·(XXᵀ)²X, which torch takes in bfloat16,
    and this function does not. `match_rms_adamw`: steps 0.2·√(longer side) as large.
    """
    momentum, average = settings["momentum"], torch.zeros_like(w)
    assert settings["adjust_lr_fn"] == "match_rms_adamw"

    def update(gradient: Tensor, lr: float) -> None:
        nonlocal average
        average = momentum * average + (1 - momentum) * gradient
        x = momentum * average + (1 - momentum) * gradient
        x = x / x.norm()
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x - 4.775 * gram @ x + 2.0315 * gram @ gram @ x
        w.copy_(w - lr * decay * w - lr * 0.2 * math.sqrt(max(w.shape)) * x)

    return update


RULES = {"AdamW": adamw, "SGD": sgd, "Muon": muon}


def updates(config: Config, p: Params) -> dict[str, tuple[Update, float]]:
    """For every parameter that trains: its rule, and its peak lr.

    Weight matrices decay; the mechanism has an lr of its own; the blocks' matrices may have an
    algorithm of their own.
    """
    optimizer = config["optimizer"]
    found = {}
    for name, w in p.items():
        if not trains(config, name):
            continue
        # a gate is a layer as any other, though it is part of the idea
        own = is_mechanism(config, name) and ".gate." not in name
        matrix = is_matrix(name, tuple(w.shape)) and not own
        inside = matrix and name.startswith("blocks.") and optimizer["matrices"] is not None
        settings = optimizer["matrices" if inside else "algorithm"]
        rule = RULES[settings["_target_"].rpartition(".")[2]]
        decay = optimizer["weight_decay"] if matrix else 0.0
        lr = config["lr"] * (config["mechanism_lr_scale"] if own else 1.0)
        found[name] = (rule(w, decay, settings), lr)
    return found


def clipped(gradients: Params, largest: float | None) -> tuple[Params, float]:
    """All gradients shrunk alike, so that their common norm is at most that; and the norm."""
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients.values()))
    factor = 1.0 if largest is None else min(1.0, largest / (norm + 1e-6))  # 1e-6 is torch's
    return {name: factor * g for name, g in gradients.items()}, norm


def train(
    config: Config, start: Params, splits: Splits, order: Tensor
) -> tuple[Params, dict[str, Any]]:
    """The trained parameters, and what happened: rows of history, norms, steps, examples.

    Every step takes the next batch of the epoch (the last may be smaller); a loss that is not
    finite ends it, before it changes anything.
    """
    p = {name: value.clone() for name, value in start.items()}
    rules = updates(config, p)
    size = config["training"]["batch_size"]
    per_epoch = math.ceil(order.shape[1] / size)
    steps = per_epoch * len(order)
    looks = config["validations_per_epoch"]
    due = {math.ceil(per_epoch * (k + 1) / looks) for k in range(looks)}  # after which batches
    seen: dict[str, Any] = {"rows": [], "norms": [], "steps": 0, "examples": 0, "diverged": False}
    losses: list[float] = []
    for epoch, permutation in enumerate(order):
        for i in range(per_epoch):
            batch = permutation[i * size : (i + 1) * size]
            leaves = {n: w.detach().requires_grad_(n in rules) for n, w in p.items()}
            inputs, targets = splits["train"]
            loss = scores(config, leaves, (inputs[batch], targets[batch]))["mse"].mean()
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                seen["diverged"] = True
                return p, seen
            found = torch.autograd.grad(loss, [leaves[n] for n in rules])
            gradients, norm = clipped(
                dict(zip(rules, found, strict=True)), config["optimizer"]["clip_norm"]
            )
            factor = lr_factor(config["optimizer"], seen["steps"], steps)
            with torch.no_grad():
                for name, (update, lr) in rules.items():
                    update(gradients[name], factor * lr)
            seen["norms"].append(norm)
            seen["steps"] += 1
            seen["examples"] += len(batch)
            if i + 1 in due:
                validation = scores(config, p, splits["validation"])["mse"].mean().item()
                seen["rows"].append(
                    {
                        "epoch": epoch + (i + 1) / per_epoch,
                        "train_loss": sum(losses) / len(losses),  # since the row before
                        "validation": validation,
                    }
                )
                losses = []
    return {name: w.detach() for name, w in p.items()}, seen


# Probes: is the mechanism wired, does it act, does it leak? ---------------------------------------


def reach(config: Config, p: Params, splits: Splits) -> dict[str, float]:
    """Norm of the loss gradient in each of the mechanism's parameters, over that in all.

    All that train, on the first validation examples; empty where none of the mechanism's does.
    """
    leaves = {n: w.detach().requires_grad_() for n, w in p.items() if trains(config, n)}
    inputs, targets = (part[:PROBED] for part in splits["validation"])
    loss = scores(config, p | leaves, (inputs, targets))["mse"].mean()
    norms = {
        name: g.norm().item()
        for name, g in zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True)
    }
    whole = math.sqrt(sum(norm**2 for norm in norms.values()))
    return {name: norm / whole for name, norm in norms.items() if is_mechanism(config, name)}


def ablation(config: Config, p: Params, splits: Splits) -> float | None:
    """Test score without the mechanism, minus the one with it; None where there is none.

    Of the first 256 test examples alone.
    """
    if kind(config) in ("dense", "none"):
        return None
    inputs, targets = splits["test"]
    few = inputs[:256], targets[:256]
    with_it, without = (scores(config, p, few, m)["mse"].mean() for m in (True, False))
    return (without - with_it).item()


def causal(config: Config, p: Params, splits: Splits) -> bool | None:
    """Whether no output has a gradient in a later input; None where nobody claims it."""
    if kind(config) == "tensor" or (
        kind(config) != "none" and not config["variant"]["mixer"]["causal"]
    ):
        return None
    inputs = splits["validation"][0][:1].double().requires_grad_()
    outputs, _ = forward(config, p, inputs)
    for t in range(outputs.shape[1] - 1):
        (gradient,) = torch.autograd.grad(outputs[:, t].sum(), inputs, retain_graph=True)
        if gradient[:, t + 1 :].abs().max() > 0:
            return False
    return True


def overlap(splits: Splits) -> int:
    """Test examples that stand, value for value, in train or validation too."""

    def rows(split: str) -> list[tuple[float, ...]]:
        inputs, targets = splits[split]
        return [tuple(row) for row in torch.cat([inputs[:, :, 0], targets], dim=1).tolist()]

    known = {*rows("train"), *rows("validation")}
    return sum(row in known for row in rows("test"))


# Signature: what the mechanism looks like ---------------------------------------------------------

# How the blocks' values become one: the largest, the smallest, and of all others the mean.
OVER_BLOCKS: dict[str, Callable[[list[float]], float]] = {
    "attention_max_first_difference": max,
    "bias_max_first_difference": max,
    "bias_min_second_difference": min,
    "bias_max_slope": max,
    "bias_min_curvature": min,
    "max_singular_value": max,
    "max_orthonormality_error": max,
    "mixer_expansion": max,
    "block_expansion": max,
}


def profile(config: Config, p: Params, x: Tensor) -> Tensor:
    """Mean attention that the last token pays to each lag, of one block: (B, N, d) → (H, N)."""
    _, weights = attention(config, p, x)  # (B, H, N, N)
    return weights[:, :, -1].mean(0).flip(1)  # the last key is lag 0


def observed_in_block(config: Config, p: Params, start: Params, x: Tensor) -> dict[str, float]:
    """The metrics of one block; x is what its mixer reads, (B, N, d), in the network of p."""
    if kind(config) == "tensor":
        return observed_factors(config, p, start, x)
    if kind(config) == "none":
        return {}
    rises = [profile(config, q, x).diff(dim=1).max(1).values for q in (p, start)]  # (H,) each
    found = {
        "attention_max_first_difference": rises[0].max().item(),
        "attention_rise_over_start": (rises[0] - rises[1]).mean().item(),
        "nonmonotone_heads": (rises[0] > 0).double().mean().item(),
    }
    if kind(config) == "forgetting":
        found["kept_share"] = kept(p, x).mean().item()
    if not by_lag(config):
        return found
    lags = torch.arange(x.shape[1])
    bias, before = lag_bias(config, p, lags), lag_bias(config, start, lags)  # (H, N)
    first = bias[:, 1:] - bias[:, :-1]
    second = first[:, 1:] - first[:, :-1]
    found["bias_max_first_difference"] = first.max().item()
    found["bias_min_second_difference"] = second.min().item()
    if kind(config) == "line":
        return found
    if kind(config) == "table":
        return found | {
            "negative_first_differences": (first < 0).double().mean().item(),
            "positive_second_differences": (second > 0).double().mean().item(),
            "table_distance_from_start": (bias - before).square().mean().sqrt().item(),
        }
    moved = p["mixer.bias.log_rates"] - start["mixer.bias.log_rates"]
    weights = p["mixer.bias.logits"].softmax(1)
    entropy = -(weights * weights.log()).sum(1)  # (H,)
    at = lags.double().requires_grad_()  # the curve's derivatives in lag, head by head
    slopes, curvatures, at_lag_0 = [], [], []
    for curve in lag_bias(config, p, at):
        (slope,) = torch.autograd.grad(curve.sum(), at, create_graph=True)
        slopes.append(slope.max().item())
        at_lag_0.append(slope[0].item())
        curvatures.append(torch.autograd.grad(slope.sum(), at, retain_graph=True)[0].min().item())
    return found | {
        "rate_distance_from_start": moved.square().mean().sqrt().item(),
        "effective_components": entropy.exp().mean().item(),
        "gamma_mean_rate": -sum(at_lag_0) / len(at_lag_0),
        "bias_max_slope": max(slopes),
        "bias_min_curvature": min(curvatures),
    }


def observed_factors(config: Config, p: Params, start: Params, x: Tensor) -> dict[str, float]:
    """Of a tensor mixer, means over axes: how flat its spectra are, how far its bases turned."""
    effective, turned, rounding, moved = [], [], [], []
    overlaps: dict[str, list[float]] = {}
    for a in range(len(grid(config))):
        eigenvalues = p[f"mixer.theta.{a}"].sigmoid()
        shares = eigenvalues / eigenvalues.sum()
        entropy = -(shares * shares.log()).sum()  # effective rank: Roy & Vetterli 2007
        effective.append(entropy.exp().item() / len(shares))
        u, before = (orthonormal(q[f"mixer.free.{a}"]) for q in (p, start))
        cosines = torch.linalg.svdvals(u.T @ before)  # of the angles between the subspaces
        turned.append((1 - cosines.square()).mean().item())
        rounding.append((u.T @ u - torch.eye(u.shape[1])).norm().item())
        moved.append((p[f"mixer.theta.{a}"] - start[f"mixer.theta.{a}"]).square().mean().item())
        for name, basis in (("dct", cosine_basis), ("dpss", slepian_basis)):
            angles = torch.linalg.svdvals(u.T @ basis(*u.shape).to(u.dtype))
            overlaps.setdefault(f"{name}_overlap", []).append(angles.square().mean().item())
    k = factors(config, p)
    mixed = mix(config, p, x, mechanism=True)
    return {name: sum(each) / len(each) for name, each in overlaps.items()} | {
        "theta_distance_from_start": math.sqrt(sum(moved) / len(moved)),
        "effective_rank_ratio": sum(effective) / len(effective),
        "subspace_distance_from_start": sum(turned) / len(turned),
        "max_singular_value": max(torch.linalg.svdvals(each).max().item() for each in k),
        "max_orthonormality_error": max(rounding),
        "mixing_norm_ratio": (mixed.norm() / x.norm()).item(),
    }


def cosine_basis(n: int, r: int) -> Tensor:
    """The first r cosines of DCT-II on n samples, of norm 1 each: (n, r)."""
    columns = [[math.cos(math.pi * (i + 0.5) * k / n) for i in range(n)] for k in range(r)]
    basis = torch.tensor(columns, dtype=torch.float64).T
    return basis / basis.norm(dim=0)


def slepian_basis(n: int, r: int) -> Tensor:
    """The first r eigenvectors of what keeps frequencies below W = r/(2n) alone: (n, r).

    Its kernel is sin(2πW·t)/(πt) (Slepian 1978).
    """
    w = r / (2 * n)
    kernel = [
        [2 * w if s == t else math.sin(2 * math.pi * w * (s - t)) / (math.pi * (s - t))
         for t in range(n)]
        for s in range(n)
    ]  # fmt: skip
    return torch.linalg.eigh(torch.tensor(kernel, dtype=torch.float64)).eigenvectors[:, -r:]


def expansion(before: Tensor, after: Tensor) -> float:
    """Largest factor by which the distance of two examples grew: (B, N, d) and (B, N, d)."""
    return max(
        ((after[i] - after[j]).norm() / (before[i] - before[j]).norm()).item()
        for i in range(len(before))
        for j in range(i)
    )


def observed(config: Config, p: Params, start: Params, splits: Splits) -> list[dict[str, float]]:
    """The metrics of every block, on the first validation examples."""
    inputs = splits["validation"][0][:PROBED]
    _, read = forward(config, p, inputs)
    x = linear(p, "embed", inputs.to(p["embed.weight"].dtype))
    if config["variant"]["positions"] == "learned":
        x = x + p["positions"]
    found = []
    for i, reads in enumerate(read):
        own = block_params(p, i)
        after = block(config, own, x)
        found.append(
            observed_in_block(config, own, block_params(start, i), reads)
            | {
                "mixer_expansion": expansion(reads, mix(config, own, reads, mechanism=True)),
                "block_expansion": expansion(x, after),
            }
        )
        x = after
    return found


def over_blocks(blocks: list[dict[str, float]]) -> dict[str, float]:
    """One value of each metric for the whole network."""
    found = {}
    for metric in blocks[0]:
        values = [block[metric] for block in blocks]
        found[metric] = OVER_BLOCKS.get(metric, lambda v: sum(v) / len(v))(values)
    return found


HOLDS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def confirmed(config: Config, now: dict[str, float], at_start: dict[str, float]) -> bool:
    """Whether all that was predicted holds now, and did not hold before training."""
    return all(
        HOLDS[c["op"]](now[c["metric"]], c["value"])
        and not HOLDS[c["op"]](at_start[c["metric"]], c["value"])
        for c in config["variant"]["signature"]["criteria"]
    )


def figures(config: Config, p: Params, splits: Splits) -> dict[str, Tensor]:
    """What figures need: curves or spectra of every block, and a few test examples."""
    _, read = forward(config, p, splits["validation"][0][:PROBED])
    found: dict[str, Tensor] = {}
    for i, x in enumerate(read):
        own = block_params(p, i)
        if attends(config):
            found[f"block{i}_attention"] = profile(config, own, x)  # (H, N)
        if by_lag(config):
            found[f"block{i}_bias"] = lag_bias(config, own, torch.arange(x.shape[1]))  # (H, N)
        if kind(config) == "tensor":
            for a in range(len(grid(config))):
                found[f"block{i}_spectrum{a}"] = own[f"mixer.theta.{a}"].sigmoid()  # (r,)
                found[f"block{i}_basis{a}"] = orthonormal(own[f"mixer.free.{a}"])  # (n, r)
    inputs, targets = (part[:KEPT] for part in splits["test"])
    return found | {
        "inputs": inputs,
        "targets": targets,
        "predictions": forward(config, p, inputs)[0][:, -1],
    }


# What it costs, and what it was made of -----------------------------------------------------------


def cost(config: Config, examples: int) -> dict[str, float]:
    """Parameters by counting; arithmetic of a forward pass by formula, 2 per multiply-add.

    Matrix products alone, attention in full; what a pass does once is shared by its batch, the
    first of `examples` training examples.
    """
    sizes = {name: math.prod(shape) for name, shape in shapes(config).items()}
    n, d = math.prod(grid(config)), config["model"]["dim"]
    mixing = 0.0
    if attends(config):
        mixing = 4 * n * d * d + 2 * n * n * d  # four projections; QKᵀ and the weighted sum
        if kind(config) == "forgetting":
            mixing += n * d * config["model"]["heads"]
    elif kind(config) == "tensor":
        batch = min(config["training"]["batch_size"], examples)
        for length, r in zip(grid(config), ranks(config), strict=True):
            qr = 2 * length * r * r - 2 / 3 * r**3  # Householder's, its Q formed
            mixing += 2 * n * r * d + qr / batch  # of the one axis that there is: Uᵀx, and back
    blocks = config["model"]["layers"] * (mixing + 8 * n * d * d)  # and the MLP
    around = n * d + n * d * config["track"]["horizon"]
    return {
        "parameters": sum(sizes.values()),
        "mixer_parameters": sum(size for name, size in sizes.items() if ".mixer." in name),
        "flops_per_example": 2 * (around + blocks),
    }


def digest(*tensors: Tensor) -> str:
    """SHA-256, in hex, over types, shapes and bytes."""
    total = hashlib.sha256()
    for t in tensors:
        total.update(f"{t.dtype}{tuple(t.shape)}".encode() + t.contiguous().numpy().tobytes())
    return total.hexdigest()


# One run ------------------------------------------------------------------------------------------


def run(config: Config, rounded: Params | None = None) -> dict[str, Any]:
    """All of it: data, start, order, trained parameters, and what the record says of them.

    Args:
        rounded: the start values as float32 has them, to train from; None for those of here.
    """
    splits, references = data(config)
    drawn = start_values(config)
    start = drawn if rounded is None else {name: value.double() for name, value in rounded.items()}
    order = batch_order(config, len(splits["train"][0]))
    trained, history = train(config, start, splits, order)
    result: dict[str, Any] = {
        "splits": splits,
        "references": references,
        "drawn": drawn,
        "order": order,
        "history": history,
        "overlap": overlap(splits),
        "observed_at_start": observed(config, start, start, splits),
    }
    if history["diverged"]:
        return result
    reached = reach(config, trained, splits)
    return result | {
        "trained": trained,
        "validation": scores(config, trained, splits["validation"]),
        "test": scores(config, trained, splits["test"]),
        "reach_by_parameter": reached or None,
        "reach": math.sqrt(sum(r**2 for r in reached.values())) if reached else None,
        "ablation": ablation(config, trained, splits),
        "causal": causal(config, trained, splits),
        "observed": observed(config, trained, start, splits),
        "figures": figures(config, trained, splits),
    }
