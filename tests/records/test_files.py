"""Files that are whole or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from records.files import file_hash, finite, whole, write_json


def test_a_file_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def sync(descriptor: int) -> None:
        assert not (tmp_path / "file").exists()
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", sync)
    with whole(tmp_path / "file") as file:
        file.write(b"twelve bytes")
    assert synced == [12]
    assert (tmp_path / "file").read_bytes() == b"twelve bytes"
    assert os.listdir(tmp_path) == ["file"]


def test_what_fails_under_way_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before")

    def fail() -> None:
        with whole(tmp_path / "file") as file:
            file.write(b"half")
            raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        fail()
    assert (tmp_path / "file").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_not_finite_is_null_however_deep(tmp_path: Path) -> None:
    value = {"a": [1.5, float("nan"), {"b": float("-inf")}], "c": 2, "d": "inf", "e": None}
    write_json(tmp_path / "x.json", value)
    expected = {"a": [1.5, None, {"b": None}], "c": 2, "d": "inf", "e": None}
    assert json.loads((tmp_path / "x.json").read_text()) == expected == finite(value)


def test_hashes_tell_bytes_apart_and_nothing_from_something(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a")
    two.write_bytes(b"b")
    # SHA-256 of the letter a
    assert file_hash(one) == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert file_hash(one) != file_hash(two)
    assert file_hash(tmp_path / "three") == ""
