"""Chaotic systems: integrated right, asked one step ahead, and run free on what was said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor, nn

from tests.tracks.test_sequence import streams
from tracks.dynamics import (
    LENGTH,
    POINTS,
    SYSTEMS,
    Dynamics,
    drawn,
    kuramoto_sivashinsky,
    lorenz,
)

FEW: dict[str, Any] = {"train": 40, "validation": 6, "test": 5, "horizon": 7, "context": 9}
EQUATIONS = {"lorenz": lorenz, "kuramoto_sivashinsky": kuramoto_sivashinsky}


def of_lorenz(_: float, s: np.ndarray) -> list[float]:
    x, y, z = s
    return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]


def of_kuramoto_sivashinsky(_: float, u: np.ndarray) -> np.ndarray:
    """−u·uₓ − uₓₓ − uₓₓₓₓ by matrices of a trigonometric interpolation, with no transform."""
    n = len(u)
    k, x = np.arange(1, n // 2), np.arange(n) * LENGTH / n
    q = 2 * np.pi * k / LENGTH
    c, s = np.cos(np.outer(x, q)), np.sin(np.outer(x, q))
    nyquist = np.cos(np.pi * np.arange(n))
    last = np.pi * n / LENGTH
    a, b = c.T @ u * 2 / n, s.T @ u * 2 / n
    high = nyquist @ u / n
    second = -(c @ (q**2 * a) + s @ (q**2 * b)) - last**2 * high * nyquist
    fourth = c @ (q**4 * a) + s @ (q**4 * b) + last**4 * high * nyquist
    squared = u * u
    a2, b2 = c.T @ squared * 2 / n, s.T @ squared * 2 / n
    slope = c @ (q * b2) - s @ (q * a2)  # of u²
    return -slope / 2 - second - fourth


SLOW = {"lorenz": of_lorenz, "kuramoto_sivashinsky": of_kuramoto_sivashinsky}


@pytest.mark.parametrize(("name", "near"), [("lorenz", 2e-4), ("kuramoto_sivashinsky", 2e-3)])
def test_trajectories_are_those_of_scipy(name: str, near: float) -> None:
    """From states on the attractor, five samples ahead; rms over them, in standard deviations."""
    system = SYSTEMS[name]
    start = drawn(np.random.default_rng(0), name, 4, 1)[:, 0]
    found = EQUATIONS[name](start, 5, system.substeps, system.substep)
    every = system.substep * system.substeps
    for state, trajectory in zip(start, found, strict=True):
        times = every * np.arange(1, 6)
        exact = solve_ivp(
            SLOW[name], (0, times[-1]), state, "LSODA", times, rtol=1e-9, atol=1e-9
        ).y.T
        off = np.sqrt(np.square(trajectory - exact).mean()) / exact.std()
        assert off < near
    # of fourth order: half the step, a sixteenth of the error, where steps are small enough
    some, half, exact = (
        EQUATIONS[name](start, 5, k * system.substeps, system.substep / k) for k in (4, 8, 64)
    )
    assert np.abs(some - exact).mean() > 10 * np.abs(half - exact).mean()


@pytest.mark.parametrize("name", EQUATIONS)
def test_states_drift_apart_at_the_exponent_that_times_are_counted_in(name: str) -> None:
    system = SYSTEMS[name]
    start = drawn(np.random.default_rng(0), name, 100, 1)[:, 0]
    moved = start + 1e-7 * np.random.default_rng(1).normal(size=start.shape)
    lyapunov_times = 8
    samples = round(lyapunov_times / system.step)
    both = [EQUATIONS[name](s, samples, system.substeps, system.substep) for s in (start, moved)]
    apart = np.log(np.linalg.norm(both[0] - both[1], axis=2))  # (n, samples)
    begin = samples // 3  # the fastest direction has won by then
    growth = (apart[:, -1] - apart[:, begin]).mean() / ((samples - 1 - begin) * system.step)
    assert growth == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("name", EQUATIONS)
def test_drawn_trajectories_are_on_the_attractor(name: str) -> None:
    """Early and late samples have the same spread, that which the track scales by."""
    found = drawn(np.random.default_rng(3), name, 200, 40)
    early, late = found[:, :5], found[:, -5:]
    np.testing.assert_allclose(early.std((0, 1)), late.std((0, 1)), rtol=0.15)
    one = found[..., :1]
    track = Dynamics(streams(), name, observed=found.shape[-1], **FEW)
    assert track.spread == pytest.approx(one.std(), rel=0.1)
    assert track.change == pytest.approx(np.diff(one, axis=1).std() / one.std(), rel=0.1)


def test_every_so_many_th_channel_is_seen() -> None:
    whole = Dynamics(streams(), observed=1, **FEW)
    some = Dynamics(streams(), observed=2, **FEW)
    assert whole.train.inputs.shape == (40, 9, 3)
    assert some.train.inputs.equal(whole.train.inputs[..., ::2])
    assert some.test.targets.equal(whole.test.targets[..., ::2])


@pytest.mark.parametrize("name", EQUATIONS)
def test_targets_are_the_changes_that_lead_to_the_next_states(name: str) -> None:
    track = Dynamics(streams(), name, observed=1, **FEW)
    c = POINTS if name == "kuramoto_sivashinsky" else 3
    assert track.train.targets.shape == (40, 9, c)
    assert track.test.targets.shape == (5, 9 + 7, c)
    for inputs, targets in zip(track.train.inputs, track.train.targets, strict=True):
        for t in range(8):
            following = inputs[t] + torch.from_numpy(track.change).float() * targets[t]
            torch.testing.assert_close(following, inputs[t + 1], atol=1e-5, rtol=0)
    errors = []
    for inputs, targets in zip(track.test.inputs, track.test.targets, strict=True):
        states = [*inputs, *targets[9:]]
        for t in range(9):
            change = (states[t + 1] - states[t]).numpy() / track.change
            np.testing.assert_allclose(targets[t], change, atol=1e-4)
            errors.append(np.square(change).mean())
    assert track.references["persistence_mse"]["test"] == pytest.approx(np.mean(errors), rel=1e-4)


class Linear(nn.Module):
    """Says a change that the last two tokens alone decide."""

    def forward(self, inputs: Tensor) -> Tensor:
        before = torch.cat([inputs[:, :1], inputs[:, :-1]], 1)
        return 0.3 * inputs - 0.5 * before + 0.1


def test_a_free_run_reads_what_it_said() -> None:
    track = Dynamics(streams(), observed=1, **FEW)
    found = track.predict(Linear(), track.test.inputs)
    assert found.shape == (5, 16, 3)
    for inputs, said in zip(track.test.inputs, found, strict=True):
        states = [*inputs]
        for t in range(9):
            expected = 0.3 * states[t] - 0.5 * states[max(t - 1, 0)] + 0.1
            torch.testing.assert_close(said[t], expected)
        for t in range(7):
            change = 0.3 * states[-1] - 0.5 * states[-2] + 0.1
            states.append(states[-1] + torch.from_numpy(track.change).float() * change)
            torch.testing.assert_close(said[9 + t], states[-1])


def test_valid_time_ends_where_the_run_is_first_too_far() -> None:
    track = Dynamics(streams(), observed=1, close=0.5, **FEW)
    targets = torch.zeros(4, 16, 3)
    said = torch.zeros(4, 16, 3)
    said[:, :9] = 7.0  # one step ahead does not count
    said[1, 9] = 0.6  # at once
    said[2, 12, 0] = 0.8  # rms over three channels .46
    said[2, 14] = -0.6  # after five steps; and near again later
    said[3, 15] = 0.6
    scores = track.scores(said, targets)
    per_step = 0.1 * 0.9056
    expected = torch.tensor([7.0, 0.0, 5.0, 6.0]) * per_step
    torch.testing.assert_close(scores["valid_time"], expected)
    torch.testing.assert_close(scores["mse"], torch.full((4,), 49.0))
    assert track.metrics["valid_time"].bounds == (0.0, pytest.approx(7 * per_step))
    assert track.metrics["valid_time"].direction == "max"


def test_data_depend_on_the_seed_and_a_split_on_its_stream_alone() -> None:
    one, same, other = (Dynamics(streams(s), **FEW) for s in (0, 0, 1))
    more = Dynamics(streams(), **(FEW | {"train": 80}))
    for name in ("train", "validation", "test"):
        assert one.splits[name].inputs.equal(same.splits[name].inputs)
        assert not one.splits[name].inputs.equal(other.splits[name].inputs)
        assert one.splits[name].inputs.equal(more.splits[name].inputs) is (name != "train")


@pytest.mark.parametrize("kind", ["series", "channels", "several"])
def test_a_file_is_split_in_time_or_by_trajectory(tmp_path: Path, kind: str) -> None:
    """Of a ramp, slightly bent: a value says when it was taken."""
    shape = {"series": (400,), "channels": (400, 2), "several": (20, 100, 2)}[kind]
    values = np.arange(np.prod(shape), dtype=float).reshape(shape)
    np.save(tmp_path / "x.npy", values + 0.1 * np.sin(values))
    track = Dynamics(
        streams(),
        file=str(tmp_path / "x.npy"),
        observed=1,
        **(FEW | {"train": 1000, "validation": 100, "test": 100}),
    )
    whole = values.reshape(-1, *shape[-2:]) if kind != "series" else values[None, :, None]
    bounds = {"train": (0, 280), "validation": (280, 340), "test": (340, 400)}
    read = {}
    for name, (begin, end) in bounds.items():
        states = track.splits[name].inputs.double().numpy() * track.spread + track.middle
        index = np.rint(states[..., 0] / whole.shape[-1]).astype(int)  # of the sample, over all
        assert (np.diff(index, axis=1) == 1).all()
        scale = 5 if kind == "several" else 1  # 20 trajectories of 100
        assert index.min() >= begin * scale
        assert index.max() < end * scale
        if kind == "several":
            assert (index // 100 == index[:, :1] // 100).all()
        read[name] = set(index.ravel().tolist())
        if name != "train":
            assert len(read[name]) == index.size
    assert not read["train"] & read["test"]
    assert len(track.train) == (1000 if kind == "several" else 280 - 9)
    assert track.metrics["valid_time"].bounds == (0.0, 7.0)  # in samples


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"context": 1}, "context is 1"),
        ({"horizon": 0}, "horizon 0"),
        ({"observed": 0}, "observed 0"),
        ({"test": 0}, "test 0"),
        ({"close": 0.0}, "close is 0.0"),
        ({"exponent": -1.0}, "exponent -1.0"),
        ({"test_share": 0.9}, "sum below 1"),
        ({"validation_share": float("nan")}, "validation_share is nan"),
        ({"file": "/no/such.npy"}, "/no/such.npy: no such file"),
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Dynamics(streams(), **(FEW | wrong))


def test_every_channel_of_a_file_is_seen_and_of_a_system_one_in_some(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(10, 50, 5)))
    assert Dynamics(streams(), file=str(tmp_path / "x.npy"), **FEW).train.inputs.shape[-1] == 5
    assert Dynamics(streams(), **FEW).train.inputs.shape[-1] == 1
    seen = Dynamics(streams(), "kuramoto_sivashinsky", **FEW).train.inputs
    assert seen.shape[-1] == 32 // 4


def test_files_that_are_too_short_or_still_are_refused(tmp_path: Path) -> None:
    file, noise = tmp_path / "x.npy", np.random.default_rng(0).normal(size=(10, 50))
    for values, said in (
        (np.arange(60.0), "validation gets 1 trajectories of 9 samples.*context . horizon = 16"),
        (np.ones((2, 50, 2)), "test gets 0 trajectories of 50 samples, of 2 trajectories"),
        (np.ones((10, 50, 2)), "channel 1 of .*x.npy is constant in training"),
        (np.stack([noise, np.full_like(noise, 0.1)], -1), "channel 2 of .*x.npy is constant"),
        (np.arange(400.0), "channel 1 of .*x.npy changes by the same at every sample"),
        (
            np.where(np.arange(50) < 49, noise, -1e9)[..., None],
            "channel 1 of .* a value in train that is 7e.08 spreads",
        ),
    ):
        np.save(file, values)
        with pytest.raises(ValueError, match=said):
            Dynamics(streams(), file=str(file), observed=1, **FEW)
