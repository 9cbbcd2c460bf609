"""The real series: splits in time, scaled by training alone, and a user's own file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omegaconf import DictConfig
from statsmodels import datasets

from tracks.series import Series, load
from training.build import build_track
from training.config import validated


def write(path: Path, values: np.ndarray, column: str = "y") -> str:
    path.write_text("t," + column + "\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)))
    return str(path)


def test_co2_interpolates_just_the_missing_weeks() -> None:
    raw = datasets.co2.load_pandas().data["co2"].to_numpy()
    filled = load("co2")
    missing = np.isnan(raw)
    assert missing.sum() == 59
    np.testing.assert_array_equal(filled[~missing], raw[~missing])
    i = int(np.flatnonzero(missing & ~np.roll(missing, 1) & ~np.roll(missing, -1))[0])
    assert filled[i] == pytest.approx((raw[i - 1] + raw[i + 1]) / 2)


def test_splits_are_consecutive_and_share_no_value(tmp_path: Path) -> None:
    """A series of distinct, steadily growing steps tells from a window where it came from."""
    values = np.cumsum(np.arange(400.0))
    track = Series(csv=write(tmp_path / "s.csv", values), column="y", context=4, horizon=2)
    scale = values[:260].std()  # 400 · (1 − 0.15 − 0.2)
    ends = []
    for split, first, last in [
        (track.train, 0, 260),
        (track.validation, 260, 320),
        (track.test, 320, 400),
    ]:
        assert len(split) == last - first - 4 - 2 + 1
        # the first step of a window of Σi is its first index + 1, in scaled units
        step = (split.inputs[:, 1, 0] - split.inputs[:, 0, 0]) * scale - 1
        np.testing.assert_allclose(step, np.arange(first, last - 5), atol=0.05)
        ends.append((first, last))
        np.testing.assert_array_equal(split.inputs[:, -1, 0], 0)  # relative to the last value
    np.testing.assert_allclose(track.test.targets[:, 0] * scale, np.arange(324, 399), rtol=1e-5)


def test_scale_comes_from_training_alone(tmp_path: Path) -> None:
    values = np.sin(np.arange(400.0))
    wild = values.copy()
    wild[260:] *= 1000
    make = {"column": "y", "context": 4, "horizon": 2}
    one = Series(csv=write(tmp_path / "a.csv", values), **make)
    two = Series(csv=write(tmp_path / "b.csv", wild), **make)
    assert one.train.inputs.equal(two.train.inputs)
    np.testing.assert_allclose(two.test.inputs, 1000 * one.test.inputs, rtol=1e-3, atol=1e-2)


def test_references_by_hand(tmp_path: Path) -> None:
    ramp = np.arange(300.0)
    track = Series(csv=write(tmp_path / "r.csv", ramp), column="y", context=12, horizon=3)
    variance = ramp[:195].var()
    expected = (1 + 4 + 9) / 3 / variance  # one, two, three steps ahead
    assert track.references == {
        "persistence_mse": {
            "validation": pytest.approx(expected),
            "test": pytest.approx(expected),
        }
    }
    season = np.tile(np.random.default_rng(1).normal(size=5), 60)
    path = write(tmp_path / "p.csv", season)
    track = Series(csv=path, column="y", context=12, horizon=8, period=5)
    assert track.references["seasonal_naive_mse"] == {"validation": 0.0, "test": 0.0}
    assert track.references["persistence_mse"]["test"] > 0.1


def test_persistence_is_the_score_of_predicting_no_change() -> None:
    track = Series(name="sunspots")
    score = track.test.targets.double().square().mean().item()
    assert track.references["persistence_mse"]["test"] == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("name", ["co2", "sunspots"])
def test_seed_does_not_touch_the_data(composed: Callable[..., DictConfig], name: str) -> None:
    arguments = ("track=series", f"track.name={name}")
    one, two = (build_track(validated(composed(*arguments, f"seed={s}"))) for s in (0, 1))
    assert one.test.inputs.equal(two.test.inputs)
    assert one.train.targets.equal(two.train.targets)


def test_a_users_mistakes_are_named(tmp_path: Path) -> None:
    good = write(tmp_path / "g.csv", np.sin(np.arange(200.0)))
    holes = np.sin(np.arange(200.0))
    holes[7] = np.nan
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("y\n")
    (tmp_path / "words.csv").write_text("y\n" + "1\n" * 100 + "many\n" + "2\n" * 100)
    mistakes = {
        "no such file": {"csv": str(tmp_path / "none.csv"), "column": "y"},
        "column is z, must be one of .*: t, y": {"csv": good, "column": "z"},
        "column is None": {"csv": good},
        "csv is not given": {"column": "y"},
        "data row 8: 'nan'": {"csv": write(tmp_path / "h.csv", holes), "column": "y"},
        "data row 101: 'many'": {"csv": str(tmp_path / "words.csv"), "column": "y"},
        "not readable as CSV": {"csv": str(tmp_path / "empty.csv"), "column": "y"},
        "validation part has 15 values": {
            "csv": write(tmp_path / "t.csv", np.arange(100.0)),
            "column": "y",
        },
        "train part has 0 values": {"csv": str(tmp_path / "header.csv"), "column": "y"},
        "standard deviation inf": {
            "csv": write(tmp_path / "b.csv", 1e300 * np.sin(np.arange(300.0))),
            "column": "y",
        },
        "standard deviation 0": {"csv": write(tmp_path / "c.csv", np.ones(300)), "column": "y"},
        "context is 1, .*context ≥ 2": {"context": 1},
        "sum below 1": {"validation": 0.6, "test": 0.6},
    }
    for message, arguments in mistakes.items():
        with pytest.raises(ValueError, match=message):
            Series(**arguments)


def test_a_season_longer_than_the_series_has_no_score(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", np.sin(np.arange(300.0)))
    track = Series(csv=path, column="y", context=12, horizon=3, period=10_000)
    assert np.isnan(track.references["seasonal_naive_mse"]["test"])


def test_windows_that_follow_share_values_up_to_the_overlap(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", np.random.default_rng(0).normal(size=300))
    track = Series(csv=path, column="y", context=5, horizon=3)
    windows = np.concatenate([track.test.inputs[..., 0], track.test.targets], axis=1)
    steps = np.diff(windows).round(5)  # each window is taken relative to a value of its own
    alike = [bool(set(steps[0]) & set(each)) for each in steps]
    assert sum(alike) == track.overlap  # two values that are shared make one step
    assert alike[: track.overlap] == [True] * track.overlap
