"""Forecasting one real series, split in time."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from tracks.forecasting import Forecasting

PERIODS = {"co2": 52, "sunspots": 11}  # samples in a season: weeks in a year, years in a cycle


def load(name: str) -> np.ndarray:
    """A series that comes with statsmodels, without missing values, float64 (T,).

    co2: weekly CO₂ at Mauna Loa, 1958–2001, ppm (Keeling & Whorf 2004); its 59 missing weeks are
    interpolated linearly. sunspots: yearly mean sunspot number, 1700–2008 (SIDC).
    """
    from statsmodels import datasets

    if name == "co2":
        frame = datasets.co2.load_pandas().data["co2"].interpolate()
    else:
        frame = datasets.sunspots.load_pandas().data["SUNACTIVITY"]
    return np.asarray(frame, dtype=np.float64)


def read_csv(path: str, column: str | None) -> np.ndarray:
    """One column of a CSV file with a header, in the file's order, float64 (T,).

    Raises:
        ValueError: a missing file or column, or a cell that is not a finite number.
    """
    if not Path(path).is_file():
        raise ValueError(f"csv is {path}, no such file")
    try:
        frame = pd.read_csv(path)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"csv is {path}, not readable as CSV: {error}") from error
    if column is None or column not in frame:
        raise ValueError(f"column is {column}, must be one of {path}: {', '.join(frame.columns)}")
    values = pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(
            f"column {column} of {path} has {bad.size} cells that are not finite numbers, the "
            f"first in data row {bad[0] + 1}: '{frame[column].iloc[bad[0]]}'; fill them first"
        )
    return values


class Series(Forecasting):
    """All windows of one series, split by time: train, then validation, then test.

    No value stands in two splits: each gets its own stretch of the series, and windows lie inside
    their stretch. Values are divided by the training stretch's standard deviation, and each window
    is taken relative to its last context value, so that a trend does not leave the range that was
    trained on (NLinear; Zeng et al. 2022, arXiv 2205.13504).

    References: `persistence_mse` repeats the last value; `seasonal_naive_mse` repeats the value one
    period before, counted in whole periods so that it lies at or before the last context token.

    Args:
        name: `co2` or `sunspots`, unless `csv` is given.
        csv, column: a file with a header, and the column to forecast.
        context, horizon: values read and predicted.
        validation, test: shares of the series.
        period: samples in a season, `auto` for the built-in series' own, None for no such score.
    Raises:
        ValueError: a file, column or cell that cannot be used, or a split too short for a window.
    """

    def __init__(
        self,
        name: Literal["co2", "sunspots"] = "co2",
        csv: str | None = None,
        column: str | None = None,
        context: int = 32,
        horizon: int = 8,
        validation: float = 0.15,
        test: float = 0.2,
        period: int | Literal["auto"] | None = "auto",
    ) -> None:
        if csv is None and column is not None:
            raise ValueError(f"column is {column}, but csv is not given: give both or neither")
        if context < 2 or horizon < 1:
            raise ValueError(
                f"context is {context}, horizon {horizon}: must be whole numbers, context ≥ 2 and "
                f"horizon ≥ 1"
            )
        if not (validation > 0 and test > 0 and validation + test < 1):
            raise ValueError("validation and test must be shares > 0 with a sum below 1")
        if period == "auto":
            period = PERIODS[name] if csv is None else None
        if period is not None and period < 1:
            raise ValueError(f"period is {period}, must be a whole number ≥ 1, auto or null")

        series = load(name) if csv is None else read_csv(csv, column)
        first = round(len(series) * (1 - validation - test))
        second = round(len(series) * (1 - test))
        bounds = {
            "train": (0, first),
            "validation": (first, second),
            "test": (second, len(series)),
        }

        def starts(part: str, begin: int, end: int) -> np.ndarray:
            """Where the windows of a stretch begin; each holds a context and a horizon."""
            if end - begin < context + horizon:
                raise ValueError(
                    f"the {part} part has {end - begin} values, a window needs context + horizon "
                    f"= {context + horizon}: give a longer series or a smaller context"
                )
            return np.arange(begin, end - context - horizon + 1)

        def errors(begin: np.ndarray, lag: int) -> float:
            """MSE, in scaled units, of repeating the `lag` values that end each context."""
            steps = np.arange(horizon)
            target = begin[:, None] + context + steps
            source = begin[:, None] + context - lag + steps % lag
            kept = source.min(1) >= 0  # the season before the series began is not known
            difference = (series[target[kept]] - series[source[kept]]) / scale
            return float(np.square(difference).mean()) if kept.any() else float("nan")

        begins = {part: starts(part, *bound) for part, bound in bounds.items()}
        with np.errstate(over="ignore"):
            scale = series[:first].std()
        if not 0 < scale < np.inf:
            raise ValueError(
                f"the training part of the series has standard deviation {scale}, must be a "
                f"finite number > 0 to forecast anything"
            )
        parts: dict[str, np.ndarray] = {}
        references: dict[str, dict[str, float]] = {"persistence_mse": {}}
        if period is not None:
            references["seasonal_naive_mse"] = {}
        for part, begin in begins.items():
            windows = series[begin[:, None] + np.arange(context + horizon)] / scale
            parts[part] = windows - windows[:, context - 1 : context]
            if part != "train":
                references["persistence_mse"][part] = errors(begin, 1)
                if period is not None:
                    references["seasonal_naive_mse"][part] = errors(begin, period)
        super().__init__(parts, horizon, references)

    @property
    def overlap(self) -> int:
        """A window begins at every value: all that begin before one ends share values with it."""
        return self.axes[0] + self.horizon - 1
