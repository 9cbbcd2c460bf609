"""The real series: splits in time, scaled by training alone, and a user's own file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from statsmodels import datasets
from torch import nn

from tests.conftest import here
from tracks.dlinear import DLinear
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


def test_elnino_is_read_month_by_month() -> None:
    table = datasets.elnino.load_pandas().data
    series = load("elnino")
    assert len(series) == 61 * 12
    for month in (0, 13, 731):
        row = table.iloc[month // 12]
        assert row["YEAR"] == 1950 + month // 12
        assert series[month] == row.iloc[1 + month % 12]


def test_splits_are_consecutive_and_share_no_value(tmp_path: Path) -> None:
    """A series of distinct, steadily growing steps tells from a window where it came from."""
    values = np.cumsum(np.arange(400.0))
    track = Series(csv=write(tmp_path / "s.csv", values), columns="y", context=4, horizon=2)
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
    make = {"columns": "y", "context": 4, "horizon": 2}
    one = Series(csv=write(tmp_path / "a.csv", values), **make)
    two = Series(csv=write(tmp_path / "b.csv", wild), **make)
    assert one.train.inputs.equal(two.train.inputs)
    np.testing.assert_allclose(two.test.inputs, 1000 * one.test.inputs, rtol=1e-3, atol=1e-2)


def test_references_by_hand(tmp_path: Path) -> None:
    ramp = np.arange(300.0)
    track = Series(csv=write(tmp_path / "r.csv", ramp), columns="y", context=12, horizon=3)
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
    track = Series(csv=path, columns="y", context=12, horizon=8, period=5)
    assert track.references["seasonal_naive_mse"] == {"validation": 0.0, "test": 0.0}
    assert track.references["persistence_mse"]["test"] > 0.1


def test_persistence_is_the_score_of_predicting_no_change() -> None:
    track = Series(name="sunspots")
    score = track.test.targets.double().square().mean().item()
    assert track.references["persistence_mse"]["test"] == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("name", ["co2", "elnino", "sunspots"])
def test_seed_does_not_touch_the_data(composed: Callable[..., DictConfig], name: str) -> None:
    arguments = ("track=series", f"track.name={name}")
    one, two = (build_track(validated(composed(*arguments, f"seed={s}"))) for s in (0, 1))
    assert one.test.inputs.equal(two.test.inputs)
    assert one.train.targets.equal(two.train.targets)


def test_a_users_mistakes_are_named(tmp_path: Path) -> None:
    good = write(tmp_path / "g.csv", np.sin(np.arange(200.0)))
    noise = np.random.default_rng(0).normal(size=300)
    far, spent = noise.copy(), noise.copy()
    far[290], spent[17] = 1e30, 1e60
    mistakes = {
        "no such file": {"csv": str(tmp_path / "none.csv"), "columns": "y"},
        "columns is None, must be the name of a column of": {"csv": good},
        "columns is .*, must be the name of a column of.*": {"csv": good, "columns": []},
        r"columns is \['y', 'y'\], .* each once": {"csv": good, "columns": ["y", "y"]},
        "columns is y, but csv is not given": {"columns": "y"},
        "time is t, but csv is not given": {"time": "t"},
        "validation part has 15 values, .* 32 of its context and the horizon's 8": {
            "csv": write(tmp_path / "t.csv", np.arange(100.0)),
            "columns": "y",
        },
        "column 1 is constant, 0.1": {
            "csv": write(tmp_path / "c.csv", 0.1 + 1e-16 * (np.arange(300) % 2)),
            "columns": "y",
        },
        r"value 291 of column 1 is 1e\+30, 8e\+29 spreads of the training part": {
            "csv": write(tmp_path / "f.csv", far),
            "columns": "y",
        },
        r"line 19, column y: expected a number, of at most 3.4e\+38, found '1e\+60'": {
            "csv": write(tmp_path / "i.csv", spent),
            "columns": "y",
        },
        "context is 1, .*context ≥ 2": {"context": 1},
        r"split is \[0.6, 0.2, 0.6\], must be": {"split": (0.6, 0.2, 0.6)},
        r"split is \[0.8, 0.2, 0.0\], must be": {"split": (0.8, 0.2, 0.0)},
        r"split is \[100.5, 50.0, 50.0\], must be": {"split": (100.5, 50.0, 50.0)},
        r"split is \[100.0, 50.0, 0.5\], must be": {"split": (100.0, 50.0, 0.5)},
        "split is 2500 rows in all, and the series has 2284": {"split": (2000.0, 300.0, 200.0)},
        "test_lengths asks for test@2080, and 1859 values stand before the first target": {
            "test_lengths": (65,)
        },
        "test_lengths is .* must name each once": {"test_lengths": (2, 2)},
    }
    for message, arguments in mistakes.items():
        with pytest.raises(ValueError, match=message) as error:
            Series(**arguments)
        assert "\n" not in str(error.value)


def test_a_season_longer_than_the_series_has_no_score(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", np.sin(np.arange(300.0)))
    track = Series(csv=path, columns="y", context=12, horizon=3, period=10_000)
    assert np.isnan(track.references["seasonal_naive_mse"]["test"])


def test_windows_that_follow_share_values_up_to_the_overlap(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", np.random.default_rng(0).normal(size=300))
    track = Series(csv=path, columns="y", context=5, horizon=3)
    windows = np.concatenate([track.test.inputs[..., 0], track.test.targets], axis=1)
    steps = np.diff(windows).round(5)  # each window is taken relative to a value of its own
    alike = [bool(set(steps[0]) & set(each)) for each in steps]
    assert sum(alike) == track.overlap  # two values that are shared make one step
    assert alike[: track.overlap] == [True] * track.overlap


def stamped(path: Path, count: int = 400) -> str:
    """Two columns whose values tell their rows: row² and, in another scale, −7·row²."""
    rows = "".join(f"{i},{i * i},{-7 * i * i}\n" for i in range(count))
    path.write_text("t,a,b\n" + rows)
    return str(path)


def rows_of(windows: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """The row of each value of `ahead`, of windows of row² relative to one value, in one scale.

    Two steps of a window are 2r + 1 and 2r + 3 in an unknown scale, r its first row.
    """
    one, two = windows[:, 1] - windows[:, 0], windows[:, 2] - windows[:, 1]
    scale = (two - one) / 2
    first = (one / scale - 1) / 2
    value = (ahead - windows[:, :1]) / scale[:, None] + first[:, None] ** 2
    return np.sqrt(value).round().astype(int)


def test_columns_are_channels_each_in_its_own_scale(tmp_path: Path) -> None:
    path = stamped(tmp_path / "two.csv")
    make = {"csv": path, "context": 6, "horizon": 2}
    track = Series(columns=["b", "a"], **make)
    assert track.train.inputs.shape[1:] == (6, 2)
    assert track.train.targets.shape[1:] == (4,)
    for channel, (name, sign) in enumerate([("b", -1), ("a", 1)]):
        alone = Series(columns=name, **make)
        for split in ("train", "validation", "test"):
            both, one = track.splits[split], alone.splits[split]
            assert both.inputs[..., channel].equal(one.inputs[..., 0])
            assert both.targets[:, channel::2].equal(one.targets)
        # −7·row² and row² differ in sign alone, in units of their spread
        flipped = Series(columns="a", **make).test.inputs[..., 0] * sign
        torch.testing.assert_close(track.test.inputs[..., channel], flipped)
    network = nn.Sequential(track.encoder(5), track.head(5))
    predictions = track.readout(network(track.test.inputs))
    assert predictions.shape == track.test.targets.shape
    scores = track.scores(predictions, track.test.targets)
    error = (predictions - track.test.targets)[3]
    assert scores["mse"][3].item() == pytest.approx(sum(e.item() ** 2 for e in error) / 4)


@pytest.mark.parametrize("reach_back", [False, True])
def test_a_split_in_rows_leaves_the_rest_unused(tmp_path: Path, reach_back: bool) -> None:
    path = stamped(tmp_path / "rows.csv")
    sizes = {"split": (100, 60, 50), "reach_back": reach_back}
    track = Series(csv=path, columns="a", context=6, horizon=2, **sizes)
    for name, begin, end in (("train", 0, 100), ("validation", 100, 160), ("test", 160, 210)):
        split = track.splits[name]
        inputs, targets = split.inputs[..., 0].double().numpy(), split.targets.double().numpy()
        own = 0 if reach_back and name != "train" else 6
        rows = rows_of(inputs, targets)
        np.testing.assert_array_equal(rows[:, 0], np.arange(begin + own, end - 1))
        np.testing.assert_array_equal(rows[:, 1], rows[:, 0] + 1)
        np.testing.assert_array_equal(rows_of(inputs, inputs)[:, -1], rows[:, 0] - 1)
    # standardised by the training stretch: one step of row² there
    scale = np.square(np.arange(100.0)).std()
    step = (track.train.inputs[0, 1, 0] - track.train.inputs[0, 0, 0]).item()
    assert step == pytest.approx(1 / scale, rel=1e-5)


def test_longer_contexts_end_before_the_same_targets(tmp_path: Path) -> None:
    path = stamped(tmp_path / "long.csv")
    track = Series(csv=path, columns="a", context=6, horizon=2, test_lengths=(1, 3))
    assert list(track.tests) == ["test", "test@18"]
    test, longer = track.test, track.splits["test@18"]
    assert longer.targets.equal(test.targets)
    assert longer.inputs.shape[1] == 18
    torch.testing.assert_close(longer.inputs[:, -6:], test.inputs)
    inputs = longer.inputs[..., 0].double().numpy()
    rows = rows_of(inputs, inputs)
    np.testing.assert_array_equal(rows[:, 0], np.arange(320 + 6 - 18, 320 + 6 - 18 + len(longer)))
    np.testing.assert_array_equal(np.diff(rows, axis=1), 1)
    for scores in (*track.references.values(), *track.fitted.values()):
        assert scores["test@18"] == pytest.approx(scores["test"])


def test_dlinear_finds_a_linear_map_and_no_more(tmp_path: Path) -> None:
    """A sinusoid follows from its past by a linear map; fresh noise does not."""
    t = np.arange(600.0)
    noise = np.random.default_rng(0).normal(size=600)
    smooth = Series(csv=write(tmp_path / "s.csv", np.sin(t / 3)), columns="y")
    fresh = Series(csv=write(tmp_path / "n.csv", noise), columns="y")
    assert smooth.fitted["dlinear_mse"]["test"] < 1e-3
    assert smooth.references["persistence_mse"]["test"] > 0.5
    variance = fresh.test.inputs.var().item() / 2  # relative to a value that is noise as well
    assert fresh.fitted["dlinear_mse"]["test"] == pytest.approx(variance, rel=0.15)
    assert fresh.references["persistence_mse"]["test"] == pytest.approx(2 * variance, rel=0.15)


def test_dlinear_is_shared_by_the_channels() -> None:
    rng = np.random.default_rng(1)
    windows = rng.normal(size=(50, 12, 2))
    both = DLinear(windows, windows, 9)
    stacked = np.concatenate([windows[..., :1], windows[..., 1:]])
    assert both.mse(windows) == pytest.approx(DLinear(stacked, stacked, 9).mse(stacked))


def test_a_column_called_2020_can_be_asked_for(
    composed: Callable[..., DictConfig], tmp_path: Path
) -> None:
    path = tmp_path / "years.csv"
    values = np.random.default_rng(0).normal(size=(300, 2)).round(6)
    rows = "".join(f"{i},{a},{b}\n" for i, (a, b) in enumerate(values.tolist()))
    path.write_text("day,2019,2020\n" + rows)
    given = ("track=series", f"track.csv={path}", "track.time=day")
    for asked in ("2020", "'2020'", "[2020]"):  # the first and the last are read as numbers
        track = build_track(validated(composed(*given, f"track.columns={asked}")))
        scale = values[:195, 1].std()
        expected = (values[1, 1] - values[0, 1]) / scale
        found = (track.train.inputs[0, 1, 0] - track.train.inputs[0, 0, 0]).item()
        assert found == pytest.approx(expected, rel=1e-5)
    both = build_track(validated(composed(*given, "track.columns=[2019,2020]")))
    assert both.train.inputs.shape[2] == 2


def test_what_a_file_does_not_say_is_one_line_of_the_bench(
    tmp_path: Path,
) -> None:
    path = tmp_path / "loads.csv"
    path.write_text("day;load\n" + "".join(f"{i};{i % 7},5\n" for i in range(300)))
    command = ["train.py", "track=series", f"track.csv={path}", "track.columns=load"]
    command += ["training.epochs=1", f"hydra.run.dir={tmp_path}/run"]
    said = (
        "expected fields between ',', found ';': \"track.separator=';'\" reads them",
        "line 2, column load: expected a number, of at most 3.4e+38, found '0,5': "
        "\"track.decimal=','\" reads a decimal ','",
    )
    for message, way in zip(said, ("track.separator=';'", "track.decimal=','"), strict=True):
        done = here(*command)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert message in done.stderr
        command.append(way)
    assert here(*command).returncode == 0
