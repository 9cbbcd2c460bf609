"""Judging more runs takes as much more work, and no more."""

from collections import Counter

import pytest

from analysis.judge import verdict
from benchmarks import scale
from records import reading
from tests.analysis.builder import analysed, grid, write_sweep

IDEAS = ("idea", "other", "third")


def test_every_file_is_read_once(tmp_path, monkeypatch):
    """A baseline's too, which every idea is compared with."""
    sweep = write_sweep(tmp_path, grid(("baseline", *IDEAS), seeds=range(6), lrs=(0.003,)))
    opened = Counter[str]()
    regular = reading.regular

    def counted(path):
        opened[path] += 1
        return regular(path)

    monkeypatch.setattr(reading, "regular", counted)
    assert len(analysed(sweep)) == 3
    files = [*sweep.rglob("*.json"), *sweep.rglob("*.npz")]
    assert opened == Counter(map(str, files))


@pytest.mark.parametrize(("family", "families"), [("all", 1), ("track", 2)])
def test_a_family_is_corrected_at_once(tmp_path, monkeypatch, family, families):
    for track in ("sequence", "series"):
        write_sweep(tmp_path / track, grid(("baseline", *IDEAS), lrs=(0.003,), track=track))
    sizes = []
    holm = verdict.holm
    monkeypatch.setattr(verdict, "holm", lambda p: sizes.append(len(p)) or holm(p))
    assert len(analysed(tmp_path, family=family)) == 6
    assert sizes == [6 // families] * families * 2  # of differences, and of equivalence


def test_a_folder_may_have_any_name(tmp_path):
    """Also one that is no text: audits name it, and the report holds them."""
    records = grid(("baseline", "idea"))
    write_sweep(tmp_path / "sweep", records)
    write_sweep(tmp_path / "again\udcff", records[:1], planned=False)
    [judged] = analysed(tmp_path)
    [raised] = [each for each in judged.audits if each.code == "duplicate_run"]
    assert r"again\udcff" in raised.message
    raised.message.encode()


@pytest.mark.slow
@pytest.mark.parametrize("shape", scale.SHAPES)
def test_time_is_linear_in_records(tmp_path, shape):
    scale.trained(tmp_path / "run")
    some, more = (scale.measured(shape, n, tmp_path / "run").processor for n in (2000, 8000))
    assert more / some < 6  # below 4 if linear, as both hold the imports; up to 16 if quadratic
