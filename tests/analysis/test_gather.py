"""What is found below a directory, and what the user is told when it is not."""

import copy
import json
import os

import msgspec
import pytest

from analysis.errors import AnalysisError
from analysis.read.gather import gather, newest_sweep
from records.record import Record
from tests.analysis.builder import grid, record, write_run, write_sweep


def seeds(found):
    return [run.record.seed for run in found.runs]


def test_runs_lie_anywhere_below(tmp_path):
    write_run(tmp_path / "2", record("idea", 2))
    write_run(tmp_path / "1" / "deep" / "er", record("idea", 1))
    write_run(tmp_path / "1" / "report", record("report", 3))  # a variant may be called so
    (tmp_path / "unfinished").mkdir()
    assert seeds(gather([tmp_path])) == [1, 3, 2]  # in path order


def test_overlapping_paths_are_gathered_once(tmp_path):
    write_sweep(tmp_path / "day" / "a", [record("idea", 0)])
    write_sweep(tmp_path / "day" / "b", [record("idea", 1)])
    day = tmp_path / "day"
    found = gather([day / "b", day, day / "a", tmp_path / "day" / ".." / "day"])
    assert seeds(found) == [0, 1]
    assert [run.seed for run in found.planned] == [0, 1]
    (tmp_path / "0").symlink_to(day / "b")
    for last in (day / "b", tmp_path / "0"):  # however they were named
        assert seeds(gather([last, day / "a"])) == [0, 1]


def test_what_is_hidden_or_superseded_is_not_read(tmp_path):
    sweep = write_sweep(tmp_path / "sweep", [record("idea", 0)])
    write_run(sweep / "superseded" / "0000", record("idea", 1))  # was done anew
    write_run(sweep / ".hidden", record("idea", 2))
    write_run(tmp_path / "superseded", record("idea", 3))  # beside no plan it is a name
    write_run(sweep / "deep" / "superseded", record("idea", 4))
    assert sorted(seeds(gather([tmp_path]))) == [0, 3, 4]
    assert seeds(gather([sweep / "superseded"])) == [1]  # named, it is read
    for folder in ("superseded", ".hidden"):
        write_sweep(tmp_path / "other" / folder, [record("idea", 5)])
    assert sorted(run.seed for run in gather([tmp_path]).planned) == [0, 5]


def test_a_sweep_that_is_linked_is_read_as_one_that_lies_there(tmp_path):
    day = tmp_path / "day"
    write_sweep(day / "a", [record("idea", 0)])
    write_sweep(tmp_path / "elsewhere", [record("idea", 1)])
    (day / "b").symlink_to(tmp_path / "elsewhere")
    found = gather([day])
    assert seeds(found) == [0, 1]
    assert [run.seed for run in found.planned] == [0, 1]
    assert found.unreadable == []
    os.utime(tmp_path / "elsewhere" / "plan.json", (2**32, 2**32))
    assert newest_sweep(day) == day / "b"


def links_to_itself(day):
    (day / "a" / "same").symlink_to(day / "a")
    (day / "a" / "loop").symlink_to(day)
    (day / "back").symlink_to("..", target_is_directory=True)  # named beside it


def links_twice(day):
    (day / "0").symlink_to(day / "a")  # before what it leads to, in path order
    (day / "z").symlink_to(day / "a" / "0000-idea-0")
    (day / "zz").symlink_to(day / "z")


@pytest.mark.parametrize("link", [links_to_itself, links_twice])
@pytest.mark.parametrize("named", [["."], [".", "day"], ["day", "day/a", "."]])
def test_nothing_is_read_twice_whatever_leads_to_it(tmp_path, link, named):
    sweep = write_sweep(tmp_path / "day" / "a", [record("idea", 0), record("idea", 1)])
    (sweep / "report").mkdir()
    link(tmp_path / "day")
    found = gather([tmp_path / name for name in named])
    assert sorted(seeds(found)) == [0, 1]
    assert len(found.planned) == 2
    assert found.unreadable == []


def test_a_link_and_what_it_leads_to_are_one(tmp_path):
    sweep = write_sweep(tmp_path / "sweep", [record("idea", 0)])
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "link").symlink_to(sweep)
    for named in ([sweep, tmp_path / "day"], [tmp_path / "day" / "link", sweep]):
        found = gather(named)
        assert (seeds(found), len(found.planned)) == ([0], 1)


def test_links_that_are_not_followed_are_named(tmp_path):
    write_sweep(tmp_path / "other", [record("idea", 1)])
    sweep = write_sweep(tmp_path / "day" / "sweep", [record("idea", 0)])
    (sweep / "up").symlink_to(tmp_path)  # would read what nobody named
    (sweep / "gone").symlink_to(tmp_path / "nowhere")
    (sweep / "round").symlink_to(sweep / "round")
    (sweep / ".gone").symlink_to(tmp_path / "nowhere")
    (sweep / "file").symlink_to(sweep / "plan.json")  # leads to no folder
    found = gather([sweep])
    assert seeds(found) == [0]
    assert found.unreadable == [
        f"{sweep / 'gone'}: a link that leads nowhere",
        f"{sweep / 'round'}: a link that leads nowhere",
        f"{sweep / 'up'}: a link to a folder around it: name that folder to have it read",
    ]
    assert seeds(gather([tmp_path])) == [0, 1]
    assert len(gather([tmp_path]).unreadable) == 2


def test_a_sweep_within_a_sweep_is_not_the_newest(tmp_path):
    inner = write_sweep(tmp_path / "sweep" / "inner", [record("idea", 0)])
    outer = write_sweep(tmp_path / "sweep", [record("idea", 0)])
    os.utime(outer / "plan.json", (1, 1))
    os.utime(inner / "plan.json", (9, 9))
    assert newest_sweep(tmp_path) == outer


def test_newest_sweep_is_the_last_one_planned(tmp_path):
    for at, name in ((1, "2026-11-30/12-00-00"), (3, "2026-11-29/09-00-00"), (2, "x")):
        sweep = write_sweep(tmp_path / name, [record("idea", 0)])
        os.utime(sweep / "plan.json", (at, at))
    assert newest_sweep(tmp_path) == tmp_path / "2026-11-29/09-00-00"


def test_fields_of_later_versions_are_ignored():
    run = record("idea", 0)
    run["later"] = {"x": 1}
    run["cost"]["joules"] = 3.0
    run["signature"]["observed"]["nothing"] = None
    assert msgspec.json.decode(json.dumps(run), type=Record).cost.parameters == 101832


def test_every_null_that_the_contract_allows():
    run = record("idea", 0, baseline=None)
    run["probes"] = dict.fromkeys(run["probes"])
    run["signature"] = None
    run["status"] = "diverged"
    run["scores"] = {"validation": 0.3, "test": None}
    run["secondary"]["mae"]["scores"]["test"] = None
    msgspec.json.decode(json.dumps(run), type=Record)


# What an older record may lack, and whatever may stand in a mapping that is open.
OPTIONAL = {
    ("budget_factor",), ("overlap",), ("cost", "evaluate_seconds"),
    ("metric", "bounds"), ("metric", "can_tie"),
    ("signature", "observed_at_start"), ("signature", "blocks"),
    ("signature", "by_construction"), ("config",),
    ("secondary", "mae", "direction"), ("secondary", "mae", "bounds"),
    ("secondary", "mae", "can_tie"),
}  # fmt: skip
OPEN = {"hyper", "probes", "scores", "observed", "code", "init", "environment"}


def every_field(part, path=()):
    for key, value in part.items():
        if isinstance(value, dict) and key not in OPEN and (*path, key) not in OPTIONAL:
            yield from every_field(value, (*path, key))
        else:
            yield (*path, key)


FIELDS = sorted(every_field(record("idea", 0)))


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
def test_which_fields_may_be_missing(tmp_path, path):
    run = copy.deepcopy(record("idea", 0))
    part = run
    for key in path[:-1]:
        part = part[key]
    del part[path[-1]]
    write_run(tmp_path / "lacks", run)
    write_run(tmp_path / "whole", record("idea", 1))
    found = gather([tmp_path])
    if path in OPTIONAL:
        assert seeds(found) == [0, 1]
        assert found.unreadable == []
        return
    assert seeds(found) == [1]
    [line] = found.unreadable
    where = ".".join("" if each in ("mae", "persistence_mse") else each for each in path)
    where = where.replace("..", ".")  # a secondary score is not named
    assert line.startswith(f"{tmp_path / 'lacks' / 'result.json'}: {where}:")


def told(paths):
    with pytest.raises(AnalysisError) as error:
        gather(paths)
    return str(error.value)


def test_directories_that_hold_nothing(tmp_path):
    assert "no such directory" in told([tmp_path / "nowhere"])
    (tmp_path / "file").write_text("")
    assert "not a directory" in told([tmp_path / "file"])
    (tmp_path / "empty").mkdir()
    assert "no record (result.json)" in told([tmp_path / "empty"])
    assert str(tmp_path / "empty") in told([tmp_path / "empty"])
    write_sweep(tmp_path / "dead", [], plan=grid())
    assert "the plans hold 48 runs" in told([tmp_path / "dead"])
    write_run(tmp_path / "bad", {"schema": 1})
    assert "schema" in told([tmp_path / "bad"])
    with pytest.raises(AnalysisError, match=r"no sweep \(a directory with plan.json\)"):
        newest_sweep(tmp_path / "empty")


@pytest.mark.parametrize(
    "text", ["", "{", '{"schema": 1, "runs": []}', '{"schema": 2, "runs": [{"track": "x"}]}']
)
def test_an_unreadable_plan_hides_no_run(tmp_path, text):
    sweep = write_sweep(tmp_path / "bad", [record("idea", 0)])
    write_sweep(tmp_path / "good", [record("idea", 1)])
    (sweep / "plan.json").write_text(text)
    found = gather([tmp_path])
    assert seeds(found) == [0, 1]
    assert [run.seed for run in found.planned] == [1]
    [line] = found.unreadable
    assert line.startswith(f"{sweep / 'plan.json'}: ")


def test_a_folder_that_cannot_be_listed_hides_no_run(tmp_path, monkeypatch):
    write_sweep(tmp_path, [record("idea", 0)])
    locked = tmp_path / "locked"
    locked.mkdir()
    scandir = os.scandir

    def refuse(path):
        if str(path) == str(locked):  # as for another user than root
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = gather([tmp_path])
    assert seeds(found) == [0]
    assert found.unreadable == [f"{locked}: Permission denied"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_what_is_no_file_is_told_and_not_waited_for(tmp_path):
    write_run(tmp_path / "good", record("idea", 0))
    for name, make in (("pipe", os.mkfifo), ("device", lambda path: path.symlink_to("/dev/zero"))):
        (tmp_path / name).mkdir()
        make(tmp_path / name / "result.json")
    found = gather([tmp_path])
    assert seeds(found) == [0]
    assert [line.split(": ")[1] for line in found.unreadable] == ["not a regular file"] * 2


def test_paths_that_lead_nowhere(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "symbolic links" in told([tmp_path / "loop"])
    assert "name too long" in told([tmp_path / ("x" * 5000)])


def test_a_plan_that_points_nowhere_hides_no_sweep(tmp_path):
    sweep = write_sweep(tmp_path / "good", [record("idea", 0)])
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "plan.json").symlink_to(tmp_path / "nowhere")
    os.utime(sweep / "plan.json", (2**32, 2**32))
    assert newest_sweep(tmp_path) == sweep
