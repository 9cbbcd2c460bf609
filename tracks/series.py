"""Forecasting one real series, split in time."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np

from tracks.dlinear import DLinear
from tracks.forecasting import Forecasting
from tracks.lengths import longer
from tracks.read.csv import Decimal, Missing, read_csv
from tracks.track import SPLITS

PERIODS = {"co2": 52, "elnino": 12, "sunspots": 11}  # samples in a season: weeks or months in a
# year, years in a cycle
CONSTANT = 1e-12  # of its largest value: what a series varies by less is rounding
FARTHEST = 1e3  # spreads from the training median, as the middle half has it; farther is an error
Name = str | int | float  # of a column: a YAML reads 2020 as a number


def load(name: str) -> np.ndarray:
    """A series that comes with statsmodels, in the public domain, float64 (T,).

    co2: weekly CO₂ at Mauna Loa, 1958–2001, ppm (Keeling & Whorf 2004); its 59 missing weeks are
    interpolated linearly. elnino: monthly sea surface temperature off Peru and Ecuador (Niño 1+2),
    1950–2010, °C (NOAA, ERSST.V3B). sunspots: yearly mean sunspot number, 1700–2008 (SIDC).
    """
    from statsmodels import datasets

    if name == "co2":
        frame = datasets.co2.load_pandas().data["co2"].interpolate()
    elif name == "elnino":
        frame = datasets.elnino.load_pandas().data.drop(columns="YEAR")  # a row per year
    else:
        frame = datasets.sunspots.load_pandas().data["SUNACTIVITY"]
    return np.asarray(frame, dtype=np.float64).ravel()


class Series(Forecasting):
    """All windows of one series, split by time: train, then validation, then test.

    Targets of a split lie in its stretch of the series, and unless `reach_back` contexts too, so
    that no value stands in two splits. Values are divided by the training stretch's standard
    deviation, each column by its own, and each window is taken relative to its last context value,
    so that a trend does not leave the range that was trained on (NLinear; Zeng et al. 2022,
    arXiv 2205.13504). Scores are those of values standardised by the training stretch.

    References: `persistence_mse` repeats the last value; `seasonal_naive_mse` repeats the value one
    period before, counted in whole periods so that it lies at or before the last context step.
    Fitted: `dlinear_mse`.

    Args:
        name: `co2`, `elnino` or `sunspots`, unless `csv` is given.
        csv, columns: a file with a header, and the column to forecast, or several: its channels.
        separator, decimal, comment, encoding, time, missing: how it is read; see `read_csv`. What
            is interpolated looks ahead: a context that ends in a gap has a hint of its other side.
        context, horizon: steps read and predicted.
        split: sizes of train, validation and test, from the start of the series, as shares of it or
            in rows; what is left over is not used.
        reach_back: whether contexts of validation and test may begin in the stretch before theirs,
            which is known at the time of the forecast, as in published splits.
        test_lengths: multiples of the context that are tested on too. `test@64` has the targets of
            `test`, after longer contexts, which begin before the test stretch.
        period: samples in a season, `auto` for the built-in series' own, None for no such score.
    Raises:
        ValueError: a file, column or cell that cannot be used, a split too short for a window, or
            a longer context that begins before the series.
    """

    def __init__(
        self,
        name: Literal["co2", "elnino", "sunspots"] = "co2",
        csv: str | None = None,
        columns: Name | list[Name] | None = None,
        separator: str = ",",
        decimal: Decimal = ".",
        comment: str | None = None,
        encoding: str = "utf-8",
        time: Name | None = None,
        missing: Missing = "refuse",
        context: int = 32,
        horizon: int = 8,
        split: tuple[float, float, float] = (0.65, 0.15, 0.2),
        reach_back: bool = False,
        test_lengths: tuple[int, ...] = (),
        period: int | Literal["auto"] | None = "auto",
    ) -> None:
        if context < 2 or horizon < 1:
            raise ValueError(
                f"context is {context}, horizon {horizon}: must be whole numbers, context ≥ 2 and "
                f"horizon ≥ 1"
            )
        if period == "auto":
            period = PERIODS[name] if csv is None else None
        if period is not None and period < 1:
            raise ValueError(f"period is {period}, must be a whole number ≥ 1, auto or null")
        if csv is None:
            for key, value in (("columns", columns), ("time", time)):
                if value is not None:
                    raise ValueError(
                        f"{key} is {value}, but csv is not given: give both or neither"
                    )
            series = load(name)[:, None]
        else:
            asked = columns if isinstance(columns, list) else [columns]
            chosen = [each for each in asked if each is not None]
            if not chosen or len({*map(str, chosen)}) < len(chosen):
                raise ValueError(
                    f"columns is {columns}, must be the name of a column of {csv}, or a list of "
                    f"some, each once"
                )
            series = read_csv(
                csv,
                [str(each) for each in chosen],
                separator=separator,
                decimal=decimal,
                comment=comment,
                encoding=encoding,
                time=None if time is None else str(time),
                missing=missing,
            )

        bounds = _stretches(len(series), split)
        lengths = dict.fromkeys(bounds, context)
        firsts = {  # where the targets of each window begin
            part: _firsts(
                part, begin, end, 0 if reach_back and part != "train" else context, horizon
            )
            for part, (begin, end) in bounds.items()
        }
        for part, tokens in longer(context, test_lengths).items():
            lengths[part], firsts[part] = tokens, firsts["test"]
            if firsts["test"][0] < tokens:
                raise ValueError(
                    f"test_lengths asks for {part}, and {firsts['test'][0]} values stand before "
                    f"the first target of the test part: take smaller multiples or a smaller "
                    f"context, or give a longer series"
                )
        scaled = series / _scale(series, bounds["train"][1])

        def windows(part: str) -> np.ndarray:
            """(n, context + horizon, C), relative to the last context value."""
            tokens = lengths[part]
            found = scaled[firsts[part][:, None] + np.arange(-tokens, horizon)]
            return found - found[:, tokens - 1 : tokens]

        def repeated(part: str, lag: int) -> float:
            """MSE of repeating the `lag` values that end each context."""
            ahead = np.arange(horizon)
            source = firsts[part][:, None] - lag + ahead % lag
            kept = source.min(1) >= 0  # the season before the series began is not known
            error = scaled[(firsts[part][:, None] + ahead)[kept]] - scaled[source[kept]]
            return float(np.square(error).mean()) if kept.any() else float("nan")

        parts = {part: windows(part) for part in lengths}
        scored = [part for part in parts if part != "train"]
        references = {"persistence_mse": {part: repeated(part, 1) for part in scored}}
        if period is not None:
            references["seasonal_naive_mse"] = {part: repeated(part, period) for part in scored}
        linear = DLinear(parts["train"], parts["validation"], context)
        # one fit for every length: it reads the last steps of a longer context
        fitted = {"dlinear_mse": {part: linear.mse(parts[part]) for part in scored}}
        super().__init__(parts, horizon, references, fitted)

    @property
    def overlap(self) -> int:
        """A window begins at every value: all that begin before one ends share values with it."""
        return self.axes[0] + self.horizon - 1


def _stretches(length: int, split: tuple[float, float, float]) -> dict[str, tuple[int, int]]:
    """Where train, validation and test begin and end, in rows."""
    shares, rows = max(split) < 1, all(size >= 1 and size == int(size) for size in split)
    if not (min(split) > 0 and (rows or (shares and sum(split) <= 1 + 1e-9))):
        raise ValueError(
            f"split is {list(split)}, must be the sizes of train, validation and test: shares > 0 "
            f"with a sum of at most 1, or whole numbers of rows"
        )
    ends = [round(sum(split[:i]) * (length if shares else 1)) for i in range(4)]
    if ends[3] > length:
        raise ValueError(f"split is {ends[3]} rows in all, and the series has {length}")
    return dict(zip(SPLITS, pairwise(ends), strict=True))


def _firsts(part: str, begin: int, end: int, before: int, horizon: int) -> np.ndarray:
    """Where targets of a stretch begin, with so many steps of their context in it, or more."""
    if end - begin < before + horizon:
        raise ValueError(
            f"the {part} part has {end - begin} values, a window needs {before} of its context and "
            f"the horizon's {horizon}: give a longer series, a smaller context or horizon, or "
            f"another split"
        )
    return np.arange(begin + before, end - horizon + 1)


def _scale(series: np.ndarray, end: int) -> np.ndarray:
    """The standard deviation of each channel (T, C) → (C,) up to the training stretch's end."""
    train = series[:end]
    for i, channel in enumerate(train.T):
        if np.ptp(channel) <= CONSTANT * np.abs(channel).max():
            raise ValueError(
                f"the training part of column {i + 1} is constant, {channel[0]:g}: its standard "
                f"deviation must be > 0 to forecast anything"
            )
    scale: np.ndarray = train.std(0)
    low, median, high = np.percentile(train, [25, 50, 75], axis=0)
    # an outlier does not widen the middle half; where that is one value, only sd is left
    middle = np.where(high - low > CONSTANT * np.abs(train).max(0), high - low, scale)
    off = np.abs(series - median) / middle
    if off.max() > FARTHEST:
        row, column = np.unravel_index(off.argmax(), off.shape)
        raise ValueError(
            f"value {row + 1} of column {column + 1} is {series[row, column]:g}, "
            f"{off[row, column]:.1g} spreads of the training part from its median: that is "
            f"an error, or says that there is no value: mend it"
        )
    return scale
