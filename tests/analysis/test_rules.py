"""What a person decides on the command line: validated, obeyed, and never hidden."""

import json

import numpy as np
import pytest

import analyze
from analysis.read.gather import gather
from analysis.read.rules import judged_by
from records.record import Metric
from tests.analysis.builder import (
    analysed,
    can_tie,
    diverge,
    grid,
    pick,
    record,
    write_examples,
    write_sweep,
)


def run(*arguments):
    return analyze.main([str(each) for each in arguments])


def report(sweep):
    return json.loads((sweep / "report" / "report.json").read_text())


def comparisons(sweep):
    return [each["bench_report"]["comparison"] for each in report(sweep)["comparisons"]]


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--alpha", "0", "at most 0.5"),
        ("--margin-pct", "-1", "above 0"),
        ("--margin-pct", "inf", "above 0"),
        ("--margin-pct", "x", "above 0"),
        ("--family", "arm", "choose from"),
        (
            "--metric",
            "accuracy",
            "--metric accuracy: 48 of 48 runs have no such score; there are mae, mse",
        ),
        ("--metric", "persistence_mse", "no such score"),  # a reference has no better end
        ("--tuning-seeds", "3-1", "a range must rise"),
        ("--tuning-seeds", "1-", "expected such as 0-3,7"),
        ("--tuning-seeds", "a", "expected such as 0-3,7"),
        ("--tuning-seeds", "-1", "expected"),
        ("--tuning-seeds", "0-99999999", "at most 10000 seeds"),
        ("--alpha", "5e-324", "no level"),
        ("--out", "", "the path is empty"),
        ("--tuning-seeds", "0,9", "no run has seed 9"),
        ("--tuning-seeds", "0-7", "no seed is left to report on"),
        ("--only", "nonesuch", "no such idea or track; there are sequence, idea"),
        ("--baseline", "nonesuch", "nonesuch is not there"),
        ("--effect-pct", "2", "belongs to --plan"),
        ("--comparisons", "2", "belongs to --plan"),
        ("--comparisons", "0", "whole number from 1"),
    ],
)
def test_a_wrong_value_is_one_line(tmp_path, capsys, option, value, told):
    sweep = write_sweep(tmp_path / "sweep", grid())
    assert run(sweep, option, value) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert not (sweep / "report").exists()


def test_metric_decides_by_a_secondary_score(tmp_path):
    records = grid()
    for each in records:  # the other way round than the primary one, and better when higher
        scores = {split: -score for split, score in each["scores"].items()}
        each["secondary"]["accuracy"] = {"scores": scores, "direction": "max"}
    for each in pick(records, "idea", lr=0.006):
        each["secondary"]["accuracy"]["scores"]["validation"] = 9.0
    sweep = write_sweep(tmp_path, records)
    assert run(sweep, "--metric", "accuracy") == 0
    bench = report(sweep)["bench_report"]
    assert bench["metric_direction"] == "higher is better"
    assert bench["comparison"]["metric"] == "accuracy"
    assert bench["idea"]["best_cfg"]["lr"] == 0.006  # chosen by it, too
    expect = [-each["scores"]["test"] for each in pick(records, "idea", lr=0.006)]
    assert bench["idea"]["per_seed"] == expect
    assert "rules_changed" in [each["code"] for each in bench["audits"]]
    assert run(sweep, "--metric", "mse") == 0  # the primary one
    assert "rules_changed" not in [e["code"] for e in report(sweep)["bench_report"]["audits"]]


def test_metric_is_judged_by_its_own_bounds_and_examples(tmp_path):
    """Two arms that are one by mae and not by mse; and the other way round."""
    losses = np.linspace(0.25, 0.75, 10)  # of mean 0.5
    for judged, other in (("mae", "mse"), ("mse", "mae")):
        records = grid(lrs=[0.003], test=0.5)
        for each in records:
            each["secondary"]["mae"]["scores"]["test"] = 0.5
        sweep = write_sweep(tmp_path / judged, records, examples=False)
        for folder in sweep.glob("0*"):
            turned = losses[::-1] if "idea" in folder.name else losses
            write_examples(folder, **{f"test/{judged}": losses, f"test/{other}": turned})
        assert run(sweep, "--metric", judged) == 0
        assert comparisons(sweep)[0]["inert_ulps"] == 0
        assert run(sweep, "--metric", other) == 0
        assert comparisons(sweep)[0]["inert_ulps"] > 1000


def test_a_metric_that_decides_brings_what_was_said_of_it(tmp_path):
    records = grid(seeds=range(2), lrs=[0.003])
    said = {"direction": "max", "bounds": [-1, 2], "can_tie": True}
    for each in records:
        each["secondary"]["mae"] |= said
    found = judged_by(gather([write_sweep(tmp_path, records)]).runs, "mae")
    expected = Metric(name="mae", direction="max", bounds=(-1, 2), can_tie=True)
    assert [run.metric for run in found] == [expected] * 4


def test_examples_of_another_number_are_not_compared_one_by_one(tmp_path):
    sweep = write_sweep(tmp_path, grid(lrs=[0.003], seeds=range(2), test=0.5), examples=False)
    for folder in sweep.glob("0*"):
        count = 3 if folder.name.endswith("idea-1") else 5
        write_examples(folder, **{"test/mse": np.full(count, 0.5)})
    [judged] = analysed(sweep)
    assert judged.effect.inert_ulps == 0  # of that pair, the scores are


def test_a_metric_that_can_tie_never_makes_arms_inert(tmp_path):
    """A solved task: the loss tells the arms apart, or nothing does."""
    records = grid(lrs=[0.003])
    for each in records:
        can_tie(each)
        each["secondary"]["hits"] = {
            "scores": {"validation": 1.0, "test": 1.0},
            "direction": "max", "bounds": [0, 1], "can_tie": True,
        }  # fmt: skip
    sweep = write_sweep(tmp_path / "loss", records)
    for metric in ("accuracy", "hits", "loss"):
        assert run(sweep, "--metric", metric) == 0
        assert comparisons(sweep)[0]["inert_ulps"] > 1000, metric
        codes = [each["code"] for each in report(sweep)["bench_report"]["audits"]]
        assert codes.count("saturated") == 2  # by the loss too: all hits are perfect
    for path in sweep.glob("*/examples.npz"):
        path.unlink()
    assert run(sweep) == 0
    assert comparisons(sweep)[0]["inert_ulps"] > 1000  # by the mean loss
    for each in records:
        del each["secondary"]["loss"]
    sweep = write_sweep(tmp_path / "none", records, examples=False)
    assert run(sweep) == 0
    assert comparisons(sweep)[0]["inert_ulps"] is None
    for each in pick(records, "baseline"):  # of one arm alone
        can_tie(each, 1.0, 0.25)
    [judged] = analysed(write_sweep(tmp_path / "one", records, examples=False))
    assert judged.effect.inert_ulps is None
    for each in records:
        can_tie(each, 1.0, 0.25)
    sweep = write_sweep(tmp_path / "equal", records, examples=False)
    assert run(sweep) == 0
    assert comparisons(sweep)[0]["inert_ulps"] == 0  # also the loss is one


def test_a_metric_that_a_diverged_run_lacks(tmp_path):
    """Divergence is a result: its secondary scores are not there, and not asked for."""
    records = grid()
    lost = pick(records, "idea", seed=3, lr=0.006)[0]
    diverge(lost)
    lost["secondary"] = {"persistence_mse": {"scores": {"validation": 0.8, "test": 0.9}}}
    sweep = write_sweep(tmp_path, records)
    assert run(sweep, "--metric", "mae") == 0
    codes = {each["code"]: each["severity"] for each in report(sweep)["bench_report"]["audits"]}
    assert codes["diverged_run"] == "warning"


def test_margin(tmp_path):
    d = [0.0004, -0.0003, 0.0002, -0.0005, 0.0001, 0.0003, -0.0002, 0.0]
    records = [
        record(arm, seed, test=1 + (d[seed] if arm == "idea" else 0))
        for arm in ("baseline", "idea")
        for seed in range(8)
    ]
    sweep = write_sweep(tmp_path, records)
    assert run(sweep) == 0
    assert comparisons(sweep)[0]["verdict"] == "equivalent"
    assert run(sweep, "--margin-pct", "0.01") == 0
    [comparison] = comparisons(sweep)
    assert comparison["verdict"] == "inconclusive"
    assert comparison["margin"] == pytest.approx(1e-4, rel=0.01)
    assert "0.01 % of the baseline's mean" in report(sweep)["verdict"]


def several(**fields):
    """Three ideas on two tracks: six comparisons."""
    arms = ["baseline", "a", "b", "c"]
    return grid(arms, track="sequence", **fields) + grid(arms, track="series", **fields)


def test_family_of_all_or_of_a_track(tmp_path):
    sweep = write_sweep(tmp_path, several())
    assert run(sweep) == 0
    assert [each["family_size"] for each in comparisons(sweep)] == [6] * 6
    assert comparisons(sweep)[0]["p_holm"] == 6 * 2 / 256
    assert run(sweep, "--family", "track") == 0
    assert [each["family_size"] for each in comparisons(sweep)] == [3] * 6
    assert comparisons(sweep)[0]["p_holm"] == 3 * 2 / 256


def test_a_void_comparison_weakens_its_own_family_alone(tmp_path):
    records = several()
    for each in records:
        if each["track"] == "series" and each["variant"] == "a" and each["seed"] == 0:
            diverge(each)
    sweep = write_sweep(tmp_path, records)
    assert run(sweep, "--family", "track") == 0
    found = comparisons(sweep)
    assert [each["verdict"] for each in found].count("invalid") == 1
    assert [each["p_holm"] for each in found] == [6 / 256] * 3 + [None] + [6 / 256] * 2


def test_only_hides_from_the_table_and_from_nothing_else(tmp_path, capsys):
    sweep = write_sweep(tmp_path, several())
    assert run(sweep) == 0
    whole = comparisons(sweep)
    out = capsys.readouterr().out
    assert out.index("sequence: 3 ideas against baseline") < out.index("series: 3 ideas")
    assert "all comparisons" in out
    assert run(sweep, "--only", "b") == 0
    assert comparisons(sweep) == whole
    out = capsys.readouterr().out
    assert "sequence: b against baseline" in out
    assert "series: b against baseline" in out
    assert "Holm over 6" in out
    assert "The report and the families hold 4 more comparisons." in out
    assert run(sweep, "--only", "series") == 0
    assert "3 more comparisons" in capsys.readouterr().out


def test_strict(tmp_path):
    records = grid()
    sweep = write_sweep(tmp_path / "clean", records)
    assert run(sweep, "--strict") == 0
    whole = write_sweep(tmp_path / "incomplete", records[:-1], plan=records)
    assert run(whole, "--strict") == 1
    assert run(whole, "--strict", "--partial") == 0
    absent = write_sweep(tmp_path / "absent", records, plan=records + grid(["late"]))
    assert run(absent, "--strict") == 1
    assert run(absent, "--strict", "--partial") == 0
    pick(records, "idea", seed=1)[0]["hashes"]["order"] = "other"
    void = write_sweep(tmp_path / "void", records)
    assert run(void) == 0
    assert run(void, "--strict") == 1
    assert (void / "report" / "report.json").exists()


def test_seeds_in_another_order_and_on_other_tracks_pair_all_the_same(tmp_path):
    records = grid()
    ordered = write_sweep(tmp_path / "ordered", records, examples=False)
    turned = pick(records, "baseline", lr=None) + pick(records, "idea", lr=None)[::-1]
    shuffled = write_sweep(tmp_path / "shuffled", turned, examples=False)
    assert run(ordered) == run(shuffled) == 0
    assert comparisons(ordered) == comparisons(shuffled)


def test_a_sweep_still_running_gets_no_p(tmp_path):
    """Whatever the order in which runs finish; a folder that is being written is no record."""
    records = grid()
    sweep = write_sweep(tmp_path, records[:30], plan=records)
    (sweep / "0031-idea-0").mkdir()
    (sweep / "0031-idea-0" / ".result.json.tmp").write_text("{")
    assert run(sweep) == 0
    [comparison] = comparisons(sweep)
    assert (comparison["verdict"], comparison["p_value"]) == ("incomplete", None)
    assert comparison["p_selection_aware"] is None
    assert comparison["delta_mean"] < 0
