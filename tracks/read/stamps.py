"""Time stamps: what cells say of when, and how many steps lie between one and the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

DATES = ("%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y")
HOURS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
FORMATS = ("ISO8601", *(date + hour for date, hour in product(DATES, HOURS)))
DIGITS = {6: ("%Y%m",), 8: ("%Y%m%d",)}  # of cells of so many digits alone; others are numbers
SUCH_AS = "2020-01-31, 2020-01-31 23:00 or 31.01.2020, or a number"
LARGEST = 1e15  # a number that still tells one step from the next
JITTER = 0.05  # of a step, that numbers may be off: in years, 1958.21 and 1958.29 are months


class UnclearStamps(ValueError):
    """Two formats read them all, as different times."""


def read_stamps(cells: Sequence[str]) -> np.ndarray | None:
    """When each cell is: datetime64[us] (T,) or float64 (T,), None where no one format reads all.

    Where several do, such as day first and month first, it is the one by which all stamps are one
    step apart: that does not happen by chance.

    Raises:
        UnclearStamps: there is none such, and the formats differ.
    """
    dates = list(_dates(cells))
    try:
        numbers = [np.array([float(cell) for cell in cells])]
    except ValueError:
        numbers = []
    numbers = [each for each in numbers if np.abs(each).max() <= LARGEST]  # NaN is no number
    read = [stamps for stamps in (*dates, *numbers) if np.isfinite(stamps).all()]
    for stamps in read:
        if (steps(np.sort(stamps)) == 1).all():
            return stamps
    if any(not np.array_equal(dates[0], other) for other in dates):
        raise UnclearStamps
    return read[0] if read else None


def _dates(cells: Sequence[str]) -> Iterator[np.ndarray]:
    """What each format that reads every cell makes of them, datetime64[us] (T,)."""
    lengths = {len(cell) for cell in cells} if all(map(str.isdecimal, cells)) else set()
    formats = FORMATS if not lengths else DIGITS.get(max(lengths), ()) if len(lengths) == 1 else ()
    for form in formats:
        for some in (cells[:1], cells):  # most formats fail at once
            text = pd.Series(some, dtype=str)
            read = pd.to_datetime(text, format=form, utc=True, errors="coerce")
            if read.isna().any():
                break
        else:
            yield read.dt.tz_localize(None).to_numpy("datetime64[us]")


def steps(stamps: np.ndarray) -> np.ndarray:
    """Of stamps in order, how many steps each lies after the one before it, float64 (T − 1,).

    A step is what most are apart: a span of time, a number of months (on one day of them, or their
    last), or a day from Monday to Friday. Whole numbers, unless some lie between two steps.
    """
    apart = np.zeros(0)
    for numbers, jitter in _grids(stamps):
        apart = np.diff(numbers).astype(np.float64)
        if not len(apart) or _middle(apart) <= 0:
            continue
        apart /= _middle(apart)
        whole = np.rint(apart)
        if (np.abs(apart - whole) <= jitter).all():
            return whole
    return apart


def _grids(stamps: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """Stamps as numbers on each grid that they may lie on, and how far off they may be."""
    if stamps.dtype.kind != "M":
        yield stamps, JITTER
        return
    day = np.timedelta64(1, "D")
    step = _middle(np.diff(stamps)) if len(stamps) > 1 else day
    if step >= 28 * day:
        for shifted in (stamps, stamps + day):  # the day after a month's last begins another
            months = shifted.astype("datetime64[M]")
            if len(np.unique(shifted - months)) == 1:
                yield months.astype(np.int64), 0.0
    days = stamps.astype("datetime64[D]")
    if step == day and np.is_busday(days).all() and len(np.unique(stamps - days)) == 1:
        yield np.busday_count(days[0], days), 0.0
    yield stamps.astype(np.int64), 0.0


def _middle(values: np.ndarray) -> Any:
    """The median, and of two the lower: one of the values."""
    return np.sort(values)[(len(values) - 1) // 2]
