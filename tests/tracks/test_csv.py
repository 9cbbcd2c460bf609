"""CSV files as users have them: read right, or refused in one line that helps."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import ROOT
from tracks.read.csv import read_csv

LOAD = [5.5, -3.25, 1e3, 0.125, 7.0]
PLAIN = "day,load,price\n" + "".join(f"{i},{x},{10 + i}\n" for i, x in enumerate(LOAD))


def read(path: Path, content: str | bytes, columns: str = "load", **keys: Any) -> np.ndarray:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_csv(str(path), columns.split("+"), **keys)


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """What is said of a file that is refused: one line, without the folder."""

    def told(content: str | bytes, columns: str = "load", name: str = "f.csv", **keys: Any) -> str:
        with pytest.raises(ValueError) as error:  # noqa: PT011
            read(tmp_path / name, content, columns, **keys)
        assert type(error.value) is ValueError
        assert "\n" not in str(error.value)
        return str(error.value).replace(f"{tmp_path}/", "")

    return told


READ_RIGHT: dict[str, tuple[str | bytes, dict[str, Any]]] = {
    "plain": (PLAIN, {}),
    "CRLF": (PLAIN.replace("\n", "\r\n"), {}),
    "CR": (PLAIN.replace("\n", "\r"), {}),
    "no newline at the end": (PLAIN.rstrip("\n"), {}),
    "blank lines at both ends": (f"\n  \n{PLAIN}\n\n", {}),
    "a mark of UTF-8": (
        b"\xef\xbb\xbf" + ("load\n" + "".join(f"{x}\n" for x in LOAD)).encode(),
        {},
    ),
    "quoted": ('"day","load","price"\n' + "\n".join(f'0,"{x}",1' for x in LOAD), {}),
    "quoted after a space": (
        '"day", "load"\n' + "".join(f'"1,{i}", "{x}"\n' for i, x in enumerate(LOAD)),
        {},
    ),
    "spaces after the comma": (PLAIN.replace(",", ", "), {}),
    "spaces around all": (PLAIN.replace(",", "  ,\t"), {}),
    "a delimiter ends each data line": (PLAIN.replace("\n", ",\n").replace("price,", "price"), {}),
    "a delimiter ends each line": (PLAIN.replace("\n", ",\n"), {}),
    "semicolons": (PLAIN.replace(",", ";"), {"separator": ";"}),
    "tabs": (PLAIN.replace(",", "\t"), {"separator": "\t"}),
    "tabs, as typed": (PLAIN.replace(",", "\t"), {"separator": "\\t"}),
    "aligned by spaces": (PLAIN.replace(",", "    ").replace("\n", "  \n "), {"separator": " "}),
    "decimal commas": (
        PLAIN.replace(",", ";").replace(".", ","),
        {"separator": ";", "decimal": ","},
    ),
    "decimal commas, quoted": (
        "load,price\n" + "".join(f'"{str(x).replace(".", ",")}",1\n' for x in LOAD),
        {"decimal": ","},
    ),
    "comments on top and between": (
        "# made by hand, load\n#\n" + PLAIN.replace("\n2,", "\n  # note\n2,"),
        {"comment": "#"},
    ),
    "UTF-16": (PLAIN.encode("utf-16"), {"encoding": "utf-16"}),
    "UTF-16 without a mark": (PLAIN.encode("utf-16-le"), {"encoding": "utf-16-le"}),
    "cp1252": (PLAIN.replace("day", "Tag für").encode("cp1252"), {"encoding": "cp1252"}),
    "gzip": (gzip.compress(PLAIN.encode()), {"name": "f.csv.gz"}),
    "bzip2": (bz2.compress(PLAIN.encode()), {"name": "f.csv.bz2"}),
    "xz": (lzma.compress(PLAIN.encode()), {"name": "f.csv.xz"}),
    "another column twice": (PLAIN.replace("day", "price", 1), {}),
    "a column without a name": (PLAIN.replace("day", "", 1), {}),
    "words in another column": (PLAIN.replace("\n2,", "\ntwo,"), {}),
    "a line break in a quoted cell": (PLAIN.replace("\n2,", '\n"2\n",'), {}),
}


@pytest.mark.parametrize("kind", READ_RIGHT)
def test_what_is_read_right(tmp_path: Path, kind: str) -> None:
    content, keys = READ_RIGHT[kind]
    keys = dict(keys)
    found = read(tmp_path / keys.pop("name", "f.csv"), content, **keys)
    np.testing.assert_array_equal(found, np.array(LOAD)[:, None])


def test_several_columns_in_the_order_asked_for(tmp_path: Path) -> None:
    found = read(tmp_path / "f.csv", PLAIN, "price+load")
    np.testing.assert_array_equal(found, np.stack([np.arange(10.0, 15), LOAD], axis=1))


REFUSED: dict[str, tuple[str | bytes, dict[str, Any], str]] = {
    # silently wrong before
    "decimal commas in one column": (
        "load,price\n5,5,1\n5,25,2\n",
        {},
        "f.csv, line 2: expected 2 fields, as in the header, found 3: a comma within a number must "
        "be quoted; \"track.separator=';'\" and the like name another separator",
    ),
    "thousands separators": (
        "load,price\n5,1\n1,234,2\n",
        {},
        "f.csv, line 3: expected 2 fields, as in the header, found 3: a comma within a number",
    ),
    "thousands separators, quoted": (
        'load,price\n5,1\n"1,234",2\n',
        {},
        "f.csv, line 3, column load: expected a number, of at most 3.4e+38, found '1,234': "
        "\"track.decimal=','\" reads a decimal ','; thousands separators must be taken out",
    ),
    "thousands points with a decimal comma": (
        "load;price\n5,5;1\n1.234;2\n",
        {"separator": ";", "decimal": ","},
        "f.csv, line 3, column load: expected a number, of at most 3.4e+38, found '1.234'",
    ),
    "delimiters at the end of some lines": (
        "load,price\n5,1,\n6,1\n",
        {},
        "f.csv, line 2: expected 2 fields, as in the header, found 3",
    ),
    "an index without a name": (
        "load,price\n0,5,1\n1,6,1\n",
        {},
        "f.csv, line 2: expected 2 fields, as in the header, found 3",
    ),
    "a column too few": (
        "load,price\n5,1\n6\n7,2\n",
        {},
        "f.csv, line 3: expected 2 fields, as in the header, found 1",
    ),
    "a blank line in the middle": (
        PLAIN.replace("\n2,", "\n\n\n2,"),
        {},
        "f.csv, line 4: expected 3 fields, found a blank line (2 in all): take it out or, if it "
        "stands for a row, name the column of time stamps (track.time=NAME)",
    ),
    "a blank line, to be filled": (
        PLAIN.replace("\n2,", "\n\n2,"),
        {"missing": "interpolate"},
        "f.csv, line 4: expected 3 fields, found a blank line (1 in all)",
    ),
    "a line of blanks": (PLAIN.replace("\n2,", "\n  \n2,"), {}, "f.csv, line 4: expected 3 fields"),
    "the column twice": (
        PLAIN.replace("price", " load"),
        {},
        "f.csv, line 1: expected one column load, found it in fields 2 and 3",
    ),
    "beyond float32": (
        PLAIN.replace("7.0", "1e60"),
        {},
        "f.csv, line 6, column load: expected a number, of at most 3.4e+38, found '1e60'",
    ),
    "infinity": (PLAIN.replace("7.0", "inf"), {}, "line 6, column load: expected a number"),
    "infinity, to be filled": (
        PLAIN.replace("0.125", "-inf"),
        {"missing": "interpolate"},
        "f.csv, line 5, column load: expected a number, of at most 3.4e+38, found '-inf'",
    ),
    "words": (PLAIN.replace("7.0", "many"), {}, "column load: expected a number, of at most"),
    "words, to be filled": (
        PLAIN.replace("0.125", "many"),
        {"missing": "interpolate"},
        "f.csv, line 5, column load: expected a number, of at most 3.4e+38, found 'many'",
    ),
    "underscores": (PLAIN.replace("7.0", "7_0"), {}, "line 6, column load: expected a number"),
    # what helped nobody
    "comments on top": (
        "# made by hand\n# load of a day\n" + PLAIN,
        {},
        "f.csv, line 1: expected the header, found '# made by hand', and load in line 3: "
        "\"track.comment='#'\" leaves such lines out",
    ),
    "a title on top": (
        f"Loads of 2020\n\n{PLAIN}",
        {},
        "f.csv, line 1: expected the header, found 'Loads of 2020', and load in line 3: take out "
        "what stands above it",
    ),
    "semicolons": (
        PLAIN.replace(",", ";"),
        {},
        "f.csv, line 1: expected fields between ',', found ';': \"track.separator=';'\" reads them",
    ),
    "tabs": (
        PLAIN.replace(",", "\t"),
        {},
        "f.csv, line 1: expected fields between ',', found '\\t': \"track.separator='\\t'\" reads",
    ),
    "UTF-16": (
        PLAIN.encode("utf-16"),
        {},
        "f.csv: expected UTF-8, found UTF-16: track.encoding=utf-16 reads it",
    ),
    "UTF-16 without a mark": (
        PLAIN.encode("utf-16-le"),
        {},
        "f.csv, line 1: expected text, found a NUL: track.encoding=utf-16-le (or -be) reads UTF-16",
    ),
    "not UTF-8": (
        PLAIN.replace("\n2,", "\nzwölf,").encode("latin-1"),
        {},
        "f.csv, line 4: expected text in utf-8, found the byte 0xf6: name its own, as "
        "track.encoding=cp1252",
    ),
    "no such encoding": (
        PLAIN,
        {"encoding": "utf-9"},
        "encoding is utf-9, must be one that Python knows",
    ),
    "no text encoding": (PLAIN, {"encoding": "hex"}, "encoding is hex, must be one that Python"),
    "another column": (
        PLAIN,
        {"columns": "laod"},
        "f.csv, line 1: expected a column laod, found day, load, price; did you mean load?",
    ),
    "many columns": (
        ",".join(f"c{i}" for i in range(500)) + "\n" + "1," * 499 + "1\n",
        {},
        "c19 and 480 more",
    ),
    "a quote that does not close": (
        PLAIN.replace("\n2,", '\n"2,'),
        {},
        "expected fields between ',', quoted whole or not at all, found something else",
    ),
    "a separator of two": (PLAIN, {"separator": ";;"}, "separator is ';;', must be one character"),
    "a comment of nothing": (PLAIN, {"comment": " "}, "comment is ' ', must be what such lines"),
    "nothing": ("", {}, "f.csv: expected a header and rows, found nothing"),
    "blanks": (" \n\n", {}, "f.csv: expected a header and rows, found nothing"),
    "a header alone": (
        "\nload\n",
        {},
        "f.csv: expected a header and rows, found none below line 2",
    ),
    # cells without a value
    "an empty cell": (
        PLAIN.replace("0.125", ""),
        {},
        "f.csv, line 5, column load: expected a number, found '' (1 cells without a value): "
        "track.missing=interpolate fills these",
    ),
    "NaN": (
        PLAIN.replace("5.5", "NaN"),
        {},
        "f.csv, line 2, column load: expected a number, found",
    ),
    "an empty cell at the start": (
        PLAIN.replace("5.5", ""),
        {"missing": "interpolate"},
        "f.csv, line 2, column load: expected a number, found '' (1 cells without a value): take "
        "out such rows at the ends of the file",
    ),
    "an empty cell at the end": (
        PLAIN.replace("7.0", "NA"),
        {"missing": "interpolate"},
        "f.csv, line 6, column load: expected a number, found 'NA'",
    ),
    "nothing but empty cells": (
        "load,price\n,1\n,2\n",
        {"missing": "interpolate"},
        "f.csv, column load: 2 of 2 cells have no value, too many to be interpolated",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_says_where_and_what_would_read_it(
    refused: Callable[..., str], kind: str
) -> None:
    content, keys, message = REFUSED[kind]
    assert message in refused(content, **keys)


def zipped(path: Path, **inside: str) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in inside.items():
            archive.writestr(name.replace("_", "."), text)
    return path.read_bytes()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize("name", [*PACKED, "zip"])
def test_damaged_archives_are_one_line(
    refused: Callable[..., str], tmp_path: Path, name: str
) -> None:
    text = PLAIN * 200
    whole = PACKED[name](text.encode()) if name in PACKED else zipped(tmp_path / "z", f_csv=text)
    damage = {
        "cut short": whole[: len(whole) * 2 // 3],
        "the first bytes alone": whole[:12],
        "corrupt": whole[:40] + bytes(8) + whole[48:],
    }
    for kind, content in damage.items():
        assert "is damaged, cut short or locked" in refused(content, name=f"{kind}.{name}")
    assert f"f.csv.{name} must be" in refused(PLAIN, name=f"f.csv.{name}")
    assert "f.csv must be not packed, as its name ends, and is" in refused(whole)


def test_archives_of_one_file(refused: Callable[..., str], tmp_path: Path) -> None:
    good = zipped(tmp_path / "z", f_csv=PLAIN)
    found = read(tmp_path / "f.zip", good)
    np.testing.assert_array_equal(found[:, 0], LOAD)
    two = zipped(tmp_path / "z", a_csv=PLAIN, b_csv=PLAIN)
    assert "must hold one file, and holds 2: unpack the one" in refused(two, name="two.zip")
    for name in ("f.tar", "f.tar.gz", "f.csv.zst", "f.tgz"):
        assert "unpack it" in refused(PLAIN, name=name)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.csv: no such file"):
        read_csv(str(tmp_path / "none.csv"), ["load"])
    with pytest.raises(ValueError, match=r"cannot be read: .*directory"):
        read_csv(str(tmp_path), ["load"])


def test_cells_without_a_value_are_filled_where_that_is_said(tmp_path: Path) -> None:
    text = "load,price\n1,1\n,2\nNaN,3\n4,4\n6,null\n6,8\n"
    found = read(tmp_path / "f.csv", text, "load+price", missing="interpolate")
    np.testing.assert_allclose(found[:, 0], [1, 2, 3, 4, 6, 6])
    np.testing.assert_allclose(found[:, 1], [1, 2, 3, 4, 6, 8])


def test_blank_lines_of_one_column_are_its_empty_cells(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    assert "f.csv, line 3, column load: expected a number, found ''" in refused("load\n1\n\n3\n")
    found = read(tmp_path / "f.csv", "load\n1\n\n3\n", missing="interpolate")
    np.testing.assert_allclose(found[:, 0], [1, 2, 3])


# Time ------------------------------------------------------------------------------------------

REGULAR = {  # stamps that are a step apart, as people write them
    "hours": pd.date_range("2020-02-28 20:00", periods=40, freq="h").strftime("%Y-%m-%d %H:%M:%S"),
    "ISO with a zone": pd.date_range("2020-03-01", periods=40, freq="15min", tz="UTC").strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    ),
    "days": pd.date_range("2020-02-01", periods=40).strftime("%Y-%m-%d"),
    "days of the month first": pd.date_range("2020-01-01", periods=40).strftime("%d/%m/%Y"),
    "months first": pd.date_range("2020-01-01", periods=40).strftime("%m/%d/%Y"),
    "dots": pd.date_range("2020-01-01 12:30", periods=40).strftime("%d.%m.%Y %H:%M"),
    "half of the day": pd.date_range("2020-01-30", periods=40, freq="h").strftime(
        "%m/%d/%Y %I:%M %p"
    ),
    "digits": pd.date_range("2020-02-20", periods=40).strftime("%Y%m%d"),
    "months in digits": pd.date_range("2020-02-01", periods=40, freq="MS").strftime("%Y%m"),
    "Monday to Friday": pd.bdate_range("2020-01-01", periods=40).strftime("%Y-%m-%d"),
    "weeks": pd.date_range("2020-01-01", periods=40, freq="7D").strftime("%Y-%m-%d"),
    "months": pd.date_range("2018-01-01", periods=40, freq="MS").strftime("%Y-%m-%d"),
    "months, day first": pd.date_range("2018-01-01", periods=40, freq="MS").strftime("%d/%m/%Y"),
    "ends of months": pd.date_range("2018-01-31", periods=40, freq="ME").strftime("%Y-%m-%d"),
    "quarters": pd.date_range("2000-03-31", periods=40, freq="QE").strftime("%Y-%m-%d"),
    "years": pd.Index([str(year) for year in range(1790, 1830)]),
    "counts": pd.Index([str(i) for i in range(9980, 10020)]),
    "seconds since 1970": pd.Index([str(1_600_000_000 + 900 * i) for i in range(40)]),
    "parts of a year": pd.Index([f"{1958 + i / 12:.3f}" for i in range(40)]),
}


def timed(stamps: list[str], values: list[float]) -> str:
    return "when,load\n" + "".join(f"{s},{v}\n" for s, v in zip(stamps, values, strict=True))


@pytest.mark.parametrize("kind", REGULAR)
def test_stamps_a_step_apart_are_read_in_order(
    refused: Callable[..., str], tmp_path: Path, kind: str
) -> None:
    """In whatever order the lines are. Rows that are taken out are seen, and filled if asked."""
    stamps, values = list(REGULAR[kind]), [float(i * i) for i in range(40)]
    shuffled = np.random.default_rng(0).permutation(40).tolist()
    for order in (range(40), range(39, -1, -1), shuffled):
        text = timed([stamps[i] for i in order], [values[i] for i in order])
        found = read(tmp_path / "f.csv", text, time="when")
        np.testing.assert_array_equal(found[:, 0], values)

    kept = [i for i in range(40) if i not in (12, 31, 32)]
    text = timed([stamps[i] for i in kept], [values[i] for i in kept])
    if kind == "months, day first":  # or days of January that lie years apart
        assert "found '01/01/2018', in which day or month may come first" in refused(
            text, time="when"
        )
        return
    said = refused(text, time="when")
    assert "f.csv, line 14, column when: expected the next step" in said
    assert f"found {stamps[13]} after {stamps[11]} in line 13" in said
    assert "3 rows are missing in 2 gaps; track.missing=interpolate fills them linearly" in said
    found = read(tmp_path / "f.csv", text, time="when", missing="interpolate")
    np.testing.assert_array_equal(found[kept, 0], [values[i] for i in kept])
    assert found[12, 0] == (11**2 + 13**2) / 2
    assert len(found) == 40


def test_hours_go_on_where_the_clocks_change(tmp_path: Path) -> None:
    stamps = ["2020-10-25T01:00+02:00", "2020-10-25T02:00+02:00", "2020-10-25T02:00+01:00"]
    text = timed([*stamps, "2020-10-25T03:00+01:00"], [1, 2, 3, 4])
    np.testing.assert_array_equal(read(tmp_path / "f.csv", text, time="when")[:, 0], [1, 2, 3, 4])


def test_blank_lines_say_nothing_where_stamps_tell(tmp_path: Path) -> None:
    text = timed(["2020-01-01", "2020-01-02", "2020-01-03"], [1, 2, 3]).replace("\n", "\n\n")
    np.testing.assert_array_equal(read(tmp_path / "f.csv", text, time="when")[:, 0], [1, 2, 3])


WRONG_TIME = {
    "twice": (
        ["2020-01-01", "2020-01-03", "2020-01-02", "2020-01-03"],
        "f.csv, line 5, column when: expected each time once, found 2020-01-03 after 2020-01-03 in "
        "line 3: take out one of them",
    ),
    "between two steps": (
        ["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-03 07:00", "2020-01-04", "2020-01-05"],
        "f.csv, line 5, column when: expected whole steps between times, found 2020-01-03 07:00 "
        "after 2020-01-03 in line 4: resample the series first",
    ),
    "no stamp": (
        ["2020-01-01", "2020-01-02", "2020-01-03", "soon", "2020-01-05"],
        "f.csv, line 5, column when: expected a time stamp such as 2020-01-31, 2020-01-31 23:00 or "
        "31.01.2020, or a number, in one format all through, found 'soon'",
    ),
    "another format": (
        ["2020-01-01", "2020-01-02", "03.01.2020"],
        "f.csv, line 4, column when: expected a time stamp",
    ),
    "an empty one": (
        ["2020-01-01", "", "2020-01-03"],
        "line 3, column when: expected a time stamp",
    ),
    "not a number": (["1", "2", "nan"], "line 4, column when: expected a time stamp"),
    "the first": (["soon", "2020-01-02", "2020-01-03"], "line 2, column when: expected a time"),
}


@pytest.mark.parametrize("kind", WRONG_TIME)
@pytest.mark.parametrize("missing", ["refuse", "interpolate"])
def test_stamps_that_are_none_are_refused(
    refused: Callable[..., str], kind: str, missing: str
) -> None:
    stamps, message = WRONG_TIME[kind]
    text = timed(stamps, [float(i) for i in range(len(stamps))])
    assert message in refused(text, time="when", missing=missing)


def test_more_is_never_filled_than_there_is(refused: Callable[..., str]) -> None:
    days = ["2020-01-02", "2020-01-03", "2020-01-04", "2120-01-04"]
    said = refused(timed(days, [1, 2, 3, 4]), time="when", missing="interpolate")
    assert "36523 rows are missing in 1 gaps, more than there are: mend the file" in said


def test_a_column_of_time_that_is_not_there(refused: Callable[..., str]) -> None:
    assert "line 1: expected a column date, found day, load, price" in refused(PLAIN, time="date")


LOCALES = ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"})


@pytest.mark.parametrize("locale", LOCALES, ids=str)
def test_a_file_reads_the_same_in_every_locale(tmp_path: Path, locale: dict[str, str]) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes("Zeit,Größe\n2020-01-01,1.5\n2020-01-02,2.5\n".encode())
    code = (
        "import sys; from tracks.read.csv import read_csv; "
        "print(read_csv(sys.argv[1], ['Gr\\u00f6\\u00dfe'], time='Zeit').ravel().tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **locale},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[1.5, 2.5]\n", done.stderr
