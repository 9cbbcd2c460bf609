"""Columns of numbers from CSV files as they are in the wild: read right, or refused in one line."""

from __future__ import annotations

import bisect
import csv
import difflib
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracks.read.stamps import SUCH_AS, UnclearStamps, read_stamps, steps
from tracks.read.unpack import unpack

ABSENT = {"", "nan", "na", "n/a", "#n/a", "<na>", "null", "none"}  # cells that say: no value
LARGEST = float(np.finfo(np.float32).max)  # what is learned on is float32
SEPARATORS = (",", ";", "\t", "|", " ")
Decimal = Literal[".", ","]
Missing = Literal["refuse", "interpolate"]


@dataclass(frozen=True)
class Row:
    """The cells of one line, without blanks around them."""

    line: int
    cells: list[str]


def read_csv(
    path: str,
    columns: Sequence[str],
    *,
    separator: str = ",",
    decimal: Decimal = ".",
    comment: str | None = None,
    encoding: str = "utf-8",
    time: str | None = None,
    missing: Missing = "refuse",
) -> np.ndarray:
    """Some columns of a CSV file with a header, float64 (T, columns); the same in every locale.

    Args:
        path: of the file, which may be packed (.gz, .bz2, .xz, .zip).
        columns: their names in the header.
        separator: the character between fields; several blanks count as one.
        decimal: the decimal point, or comma. Thousands separators are never read.
        comment: lines that begin so are left out.
        encoding: of the text, by its name in Python.
        time: the column of time stamps, by which rows are put in order. They must be whole steps
            apart: of a span of time, of months, or from Monday to Friday.
        missing: cells without a value and, where `time` shows it, rows that are not there: refused,
            or interpolated linearly between the values around them.
    Raises:
        ValueError: whatever cannot be read for sure, by file, line and column, with what was
            expected and found, and the key that would read it.
    """
    separator = "\t" if separator == "\\t" else separator
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(f"separator is {separator!r}, must be one character, and no quote")
    if comment is not None and not comment.strip():
        raise ValueError(f"comment is {comment!r}, must be what such lines begin with, or null")
    table = _Table(path, _text(path, encoding), separator, comment)
    places = [table.place(name) for name in columns]
    when = None if time is None else table.place(time)
    table.check_widths()
    table.check_blank(timed=when is not None)
    values = np.stack([table.numbers(at, decimal) for at in places], axis=1)
    if when is not None:
        values = table.in_time(when, values, missing)
    return table.filled(places, values, missing)


def _text(path: str, encoding: str) -> str:
    """A file's text, without the mark that some put in front of it."""
    raw = unpack(path)
    utf_8 = encoding.lower().replace("-", "").replace("_", "") == "utf8"
    if utf_8 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{path}: expected UTF-8, found UTF-16: track.encoding=utf-16 reads it")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path}, line {line}: expected text in {encoding}, found the byte "
            f"0x{raw[error.start]:02x}: name its own, as track.encoding=cp1252, latin-1 or utf-16"
        ) from None
    except (LookupError, ValueError):
        raise ValueError(
            f"encoding is {encoding}, must be one that Python knows: utf-8, cp1252, utf-16, …"
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise ValueError(
            f"{path}, line {line}: expected text, found a NUL: track.encoding=utf-16-le (or -be) "
            f"reads UTF-16; a workbook or the like must be exported as CSV"
        )
    return text.removeprefix("\ufeff")


def _key(name: str, value: str) -> str:
    """An override as a shell takes it."""
    shown = value.replace("\t", "\\t")
    return f"\"track.{name}='{shown}'\""


class _Table:
    """A header and the rows below it, with the lines that they come from.

    Raises:
        ValueError: nothing in the file, or a quote that does not close.
    """

    def __init__(self, path: str, text: str, separator: str, comment: str | None) -> None:
        self.path, self.separator = path, separator
        rows = list(self._read(text, comment))
        while rows and not rows[-1].cells:
            rows.pop()
        if len(rows) < 2:
            found = "nothing" if not rows else f"none below line {rows[0].line}"
            raise ValueError(f"{path}: expected a header and rows, found {found}")
        self.header, self.rows = rows[0], rows[1:]

    def _read(self, text: str, comment: str | None) -> Iterator[Row]:
        """All rows from the header on, blank ones (no cells) among them."""
        line = 0

        def lines() -> Iterator[str]:
            nonlocal line
            for each in io.StringIO(text, newline=""):
                line += 1
                if not (comment and each.lstrip().startswith(comment)):
                    yield re.sub(" +", " ", each.strip(" ")) if self.separator == " " else each

        skip = self.separator != " "
        records = csv.reader(lines(), delimiter=self.separator, skipinitialspace=skip, strict=True)
        begun = False
        try:
            for record in records:
                cells = [cell.strip() for cell in record]
                begun = begun or any(cells)
                if begun:
                    yield Row(line, [] if cells == [""] else cells)
        except csv.Error as error:
            raise ValueError(
                f"{self.path}, line {line}: expected fields between {self.separator!r}, quoted "
                f"whole or not at all, found something else ({error})"
            ) from None

    def _at(self, row: Row, place: int | None = None) -> str:
        column = "" if place is None else f", column {self.header.cells[place]}"
        return f"{self.path}, line {row.line}{column}"

    def place(self, name: str) -> int:
        """Which field of the header a column is."""
        names = self.header.cells
        places = [i for i, each in enumerate(names) if each == name.strip()]
        if len(places) == 1:
            return places[0]
        where = self._at(self.header)
        if places:
            fields = " and ".join(str(i + 1) for i in places)
            raise ValueError(f"{where}: expected one column {name}, found it in fields {fields}")
        for other in SEPARATORS:
            if other != self.separator and name in self._split(self.header, other):
                raise ValueError(
                    f"{where}: expected fields between {self.separator!r}, found {other!r}: "
                    f"{_key('separator', other)} reads them"
                )
        mark = re.match(r"[^\w\s\"']+", names[0])
        for row in self.rows[:100]:
            begins_so = mark is not None and "".join(row.cells[:1]).startswith(mark[0])
            may_be_header = not begins_so if mark else len(row.cells) != len(names)
            if may_be_header and any(name in self._split(row, each) for each in SEPARATORS):
                way = "take out what stands above it"
                if mark:
                    way = f"{_key('comment', mark[0])} leaves such lines out"
                raise ValueError(
                    f"{where}: expected the header, found '{names[0]}', and {name} in line "
                    f"{row.line}: {way}"
                )
        close = difflib.get_close_matches(name, names, n=1)
        listed = ", ".join(names[:20]) + f" and {len(names) - 20} more" * (len(names) > 20)
        raise ValueError(
            f"{where}: expected a column {name}, found {listed}"
            + (f"; did you mean {close[0]}?" if close else "")
        )

    def _split(self, row: Row, separator: str) -> list[str]:
        """A row's line, split otherwise."""
        return [cell.strip(' "') for cell in self.separator.join(row.cells).split(separator)]

    def check_widths(self) -> None:
        """As many cells in each row as in the header, or in every row one more, which is empty.

        Raises:
            ValueError: else nobody knows which column a cell belongs to.
        """
        rows, width = [row for row in self.rows if row.cells], len(self.header.cells)
        if rows and all(len(row.cells) == width + 1 and not row.cells[-1] for row in rows):
            return
        for row in rows:
            if len(row.cells) != width:
                hint = f"{_key('separator', ';')} and the like name another separator"
                if self.separator == "," and len(row.cells) > width:
                    hint = f"a comma within a number must be quoted; {hint}"
                raise ValueError(
                    f"{self._at(row)}: expected {width} fields, as in the header, found "
                    f"{len(row.cells)}: {hint}"
                )

    def check_blank(self, timed: bool) -> None:
        """Blank lines say nothing where time stamps tell which rows are missing.

        In a file of one column they are its cells without a value.

        Raises:
            ValueError: a blank line that may stand for a row.
        """
        width = len(self.header.cells)
        if width == 1:
            self.rows = [Row(row.line, row.cells or [""]) for row in self.rows]
        blank = [row for row in self.rows if not row.cells]
        if blank and not timed:
            raise ValueError(
                f"{self._at(blank[0])}: expected {width} fields, found a blank line ({len(blank)} "
                f"in all): take it out or, if it stands for a row, name the column of time stamps "
                f"(track.time=NAME)"
            )
        self.rows = [row for row in self.rows if row.cells]

    def numbers(self, place: int, decimal: Decimal) -> np.ndarray:
        """A column, float64 (T,); NaN where a cell says that there is no value.

        Raises:
            ValueError: a cell that says neither, or a number too large to be learned on.
        """
        found = np.empty(len(self.rows))
        for i, row in enumerate(self.rows):
            cell = row.cells[place]
            found[i] = _number(cell, decimal)
            if not abs(found[i]) <= LARGEST and cell.lower() not in ABSENT:
                hint, other = "", "," if decimal == "." else "."
                if re.search(rf"\d[{other}]\d", cell):
                    hint = f": {_key('decimal', other)} reads a decimal {other!r}; thousands "
                    hint += "separators must be taken out"
                raise ValueError(
                    f"{self._at(row, place)}: expected a number, of at most {LARGEST:.1e}, found "
                    f"'{cell}'{hint}"
                )
        return found

    def in_time(self, place: int, values: np.ndarray, missing: Missing) -> np.ndarray:
        """Values (T, C) in the order of their time stamps, NaN in rows that are missing between.

        Raises:
            ValueError: stamps that cannot be read, stand twice, or are not whole steps apart; gaps
                that nobody said how to fill, or of more rows than there are.
        """
        stamps = self._stamps(place)
        order = np.argsort(stamps, kind="stable")
        stamps, values, self.rows = stamps[order], values[order], [self.rows[i] for i in order]
        apart = steps(stamps)

        def refuse(wrong: np.ndarray, expected: str, way: str) -> None:
            """Where anything is wrong between a stamp and the next, (T − 1,)."""
            for i in np.flatnonzero(wrong)[:1]:
                one, two = self.rows[i], self.rows[i + 1]
                found = f"{two.cells[place]} after {one.cells[place]} in line {one.line}"
                raise ValueError(
                    f"{self._at(two, place)}: expected {expected}, found {found}: {way}"
                )

        refuse(stamps[1:] == stamps[:-1], "each time once", "take out one of them")
        refuse(apart != np.rint(apart), "whole steps between times", "resample the series first")
        lacks = f"{int(apart.sum()) - len(apart)} rows are missing in {(apart > 1).sum()} gaps"
        if missing == "refuse":
            fill = "track.missing=interpolate fills them linearly"
            refuse(apart > 1, "the next step", f"{lacks}; {fill}")
        elif apart.sum() > 2 * len(stamps):
            refuse(apart > 1, "the next step", f"{lacks}, more than there are: mend the file")
        at = np.concatenate([[0], np.cumsum(apart)]).astype(int)
        found = np.full((at[-1] + 1, values.shape[1]), np.nan)
        found[at] = values
        return found

    def _stamps(self, place: int) -> np.ndarray:
        """A column of time stamps, datetime64 or float64 (T,)."""
        cells = [row.cells[place] for row in self.rows]
        try:
            stamps = read_stamps(cells)
        except UnclearStamps:
            raise ValueError(
                f"{self._at(self.rows[0], place)}: expected time stamps that are clear, found "
                f"'{cells[0]}', in which day or month may come first: write them as 2020-01-31"
            ) from None
        if stamps is None:
            raise ValueError(
                f"{self._at(self.rows[_unread(cells)], place)}: expected a time stamp such as "
                f"{SUCH_AS}, in one format all through, found '{cells[_unread(cells)]}'"
            )
        return stamps

    def filled(self, places: Sequence[int], values: np.ndarray, missing: Missing) -> np.ndarray:
        """Values (T, C) without NaN.

        Raises:
            ValueError: there are some and nobody said how to fill them, or they are at an end.
        """
        values = values.copy()
        for channel, place in zip(values.T, places, strict=True):
            absent = np.isnan(channel)
            ends = np.flatnonzero(absent[[0, -1]])
            if missing == "interpolate" and 2 * absent.sum() > len(channel):
                raise ValueError(
                    f"{self.path}, column {self.header.cells[place]}: {absent.sum()} of "
                    f"{len(channel)} cells have no value, too many to be interpolated: give a "
                    f"column that has more"
                )
            if missing == "interpolate" and absent.any() and not len(ends):
                known = np.flatnonzero(~absent)
                channel[absent] = np.interp(np.flatnonzero(absent), known, channel[known])
            elif absent.any():
                row, way = self.rows[np.argmax(absent)], "track.missing=interpolate fills these"
                if missing == "interpolate":
                    row, way = self.rows[-ends[0]], "take out such rows at the ends of the file"
                raise ValueError(
                    f"{self._at(row, place)}: expected a number, found '{row.cells[place]}' "
                    f"({absent.sum()} cells without a value): {way}"
                )
        return values


def _number(cell: str, decimal: Decimal) -> float:
    """What a cell says, NaN where that is no number."""
    if "_" in cell or (decimal == "," and "." in cell):
        return math.nan
    try:
        return float(cell.replace(decimal, "."))
    except ValueError:
        return math.nan


def _unread(cells: Sequence[str]) -> int:
    """Which is the first that is no time stamp in the format of those before it."""

    def reads(first: int) -> bool:
        try:
            return read_stamps(cells[:first]) is not None
        except UnclearStamps:
            return True

    return bisect.bisect_left(range(1, len(cells) + 1), True, key=lambda n: not reads(n))
