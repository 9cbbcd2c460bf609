"""report.json: the earlier reports' shape, their numbers, and nothing that JSON cannot hold."""

import json
from pathlib import Path

import numpy as np
import pytest

import analyze
from analysis.report import build, mean_of, write
from tests.analysis.builder import analysed, diverge, grid, pick, record, write_sweep

DATA = Path(__file__).parent / "data"
EARLIER = {
    name: json.loads((DATA / f"earlier_report_{name}.json").read_text())
    for name in ("lag_bias", "tensor_mixer")
}
# read by hand off single models then; now every observed value stands under its own name
LEFT_OUT = {
    "track_choice",
    "parameterization",
    "factor_largest_singular_values",
    "predicted_factor_bound",
    "observed_max_factor_singular",
    "probe_norm_ratio_after_mixing",
}


def as_records(report):
    """The arms' scores of an earlier report, with what it observed."""
    bench = report["bench_report"]
    records = []
    for arm, scores, config in (
        ("baseline", bench["baseline"]["full"]["per_seed"], bench["baseline"]["best_cfg"]),
        ("idea", bench["idea"]["per_seed"], bench["baseline"]["best_cfg"]),
    ):
        for seed, score in enumerate(scores):
            run = record(arm, seed, test=score, validation=0.5)
            run["hyper"] = config
            run["signature"]["observed"] = {
                key.removeprefix("observed_"): value
                for key, value in bench["mechanism_signature"].items()
                if key.startswith("observed_")
            }
            records.append(run)
    return records


def report_of(sweep):
    assert analyze.main([str(sweep)]) == 0
    return json.loads((sweep / "report" / "report.json").read_text())


def assert_same_shape(earlier, now, where="report"):
    if isinstance(earlier, dict):
        for key, value in earlier.items():
            if key not in LEFT_OUT:
                assert key in now, f"{where}.{key}"
                assert_same_shape(value, now[key], f"{where}.{key}")
    elif isinstance(earlier, list):
        assert isinstance(now, list), where
        assert now, where
        assert_same_shape(earlier[0], now[0], f"{where}[0]")
    elif now is not None or "mde" not in where:
        assert type(now) is type(earlier), where


@pytest.mark.parametrize(
    ("name", "p", "verdict"),
    [("lag_bias", 0.5, "inert"), ("tensor_mixer", 0.0078125, "idea better (significant)")],
)
def test_earlier_reports_come_back(tmp_path, name, p, verdict):
    earlier = EARLIER[name]
    now = report_of(write_sweep(tmp_path, as_records(earlier), examples=False))
    assert_same_shape(earlier, now)
    bench, was = now["bench_report"], earlier["bench_report"]
    for key in ("mean", "std", "per_seed", "n"):
        expect = pytest.approx(was["baseline"]["full"][key], rel=1e-12)
        assert bench["baseline"]["full"][key] == expect
        assert bench["idea"][key] == pytest.approx(was["idea"][key], rel=1e-12)
    comparison = bench["comparison"]
    assert comparison["per_seed_diffs"] == was["comparison"]["per_seed_diffs"]
    assert comparison["delta_mean"] == pytest.approx(was["comparison"]["delta_mean"], rel=1e-12)
    for key in ("idea_wins", "n_pairs"):
        assert comparison[key] == was["comparison"][key]
    # what was called mde is the half-width of the interval; its t quantile had four digits
    assert comparison["ci_half_width"] == pytest.approx(was["comparison"]["mde"], rel=2e-4)
    assert comparison["p_value"] == p
    assert comparison["verdict"] == verdict


def test_every_number_of_a_comparison(tmp_path):
    report = report_of(write_sweep(tmp_path, grid(["baseline", "idea", "other"])))
    assert [each["bench_report"]["comparison"]["idea"] for each in report["comparisons"]] == [
        "idea",
        "other",
    ]
    first = report["comparisons"][0]
    assert {key: value for key, value in report.items() if key != "comparisons"} == first
    assert all(each.keys() == first.keys() for each in report["comparisons"])
    comparison = report["bench_report"]["comparison"]
    d = np.array(comparison["per_seed_diffs"])
    assert comparison["delta_mean"] == pytest.approx(d.mean())
    assert comparison["dz"] == pytest.approx(d.mean() / d.std(ddof=1))
    low, high = comparison["ci"]
    assert comparison["ci_half_width"] == pytest.approx((high - low) / 2)
    assert comparison["p_holm"] == 2 * comparison["p_value"] == 4 / 256
    assert (comparison["idea_wins"], comparison["ties"], comparison["idea_losses"]) == (8, 0, 0)
    full = report["bench_report"]["baseline"]["full"]
    assert comparison["margin"] == pytest.approx(full["mean"] / 100)
    assert comparison["mde_rel_pct"] == pytest.approx(100 * comparison["mde"] / full["mean"])
    assert not [key for key, value in comparison.items() if value is None and key != "why"]


def test_arms_costs_secondary_scores_and_signature(tmp_path):
    records = grid()
    for run in records:
        run["secondary"]["persistence_mse"] = {"validation": 0.8, "test": 0.9}
    for run in pick(records, "idea"):
        run["cost"]["train_seconds"] = float(run["seed"])
        run["signature"]["observed"]["rate_distance_from_start"] = run["seed"] / 10
        run["signature"]["confirmed"] = run["seed"] > 0
    pick(records, "idea", seed=2)[0]["signature"]["observed"]["bias_max_first_difference"] = None
    for run in pick(records, "idea", lr=0.006):
        run["cost"]["train_seconds"] = 1e9  # not selected
    bench = report_of(write_sweep(tmp_path, records))["bench_report"]
    assert bench["idea"]["cost"]["train_seconds"] == 3.5
    assert bench["idea"]["cost"]["parameters"] == 101832
    assert bench["baseline"]["secondary"]["persistence_mse"] == {"validation": 0.8, "test": 0.9}
    signature = bench["mechanism_signature"]
    assert signature["observed_rate_distance_from_start"] == pytest.approx(0.35)
    assert signature["observed_bias_max_first_difference"] is None
    assert signature["per_model"]["rate_distance_from_start"][7] == 0.7
    assert signature["by_construction"] == {"bias_max_first_difference": "a mixture only decays"}
    assert (signature["n_confirmed"], signature["n_models"]) == (7, 8)
    assert signature["confirmed"] is False
    assert bench["search_space"]["idea_grid"][0] == {"lr": 0.0015, "gamma": 1.0}
    assert bench["idea_config"] == {"lr": 0.003, "gamma": 1.0}
    entry = bench["idea_sweep"][1]
    test = [run["scores"]["test"] for run in pick(records, "idea")]
    assert entry["mean"] == pytest.approx(np.mean(test))
    assert entry["validation_mean"] == pytest.approx(np.mean(test) + 0.01)
    assert (entry["n"], entry["n_runs"], entry["n_diverged"]) == (8, 8, 0)


def test_diverged_pairs_are_null_and_void(tmp_path):
    records = grid()
    for run in pick(records, "idea", seed=2, lr=None):
        diverge(run)
    report = report_of(write_sweep(tmp_path, records))
    bench = report["bench_report"]
    assert bench["idea"]["per_seed"][2] is None
    assert bench["idea"]["mean"] is None
    assert bench["comparison"]["per_seed_diffs"][2] is None
    for key in ("delta_mean", "p_value", "p_holm", "ci", "mde", "p_equivalence", "inert_ulps"):
        assert bench["comparison"][key] is None
    assert bench["comparison"]["verdict"] == "invalid"
    assert "idea seed=2" in bench["comparison"]["why"]
    assert bench["idea_sweep"][0]["n_diverged"] == 1
    assert (report["worked"], report["confidence"], report["mechanism_ok"]) == (False, 0, 1)
    assert (report["system_verdict"], report["system_judged"]) == ("failed", True)
    assert report["practical_verdict"] == "unknown"


def test_incomplete_shows_effects_without_p(tmp_path):
    records = grid()
    report = report_of(write_sweep(tmp_path, records[:-1], plan=records))
    comparison = report["bench_report"]["comparison"]
    assert comparison["verdict"] == "incomplete"
    assert comparison["p_value"] is comparison["p_holm"] is comparison["p_equivalence"] is None
    assert comparison["delta_mean"] < 0
    assert comparison["ci"]
    assert (report["system_verdict"], report["system_judged"]) == ("invalid", False)
    assert "no p-value is given" in report["verdict"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: None, "8 wins, 0 ties, 0 losses"),
        (lambda run: run["scores"].update(test=0.5), "numerically one"),
        (lambda run: run["scores"].update(test=run["seed"] * 0.1), "MDE"),
    ],
)
def test_sentences_are_composed_from_the_numbers(tmp_path, change, said):
    records = grid()
    for run in records:
        change(run)
    report = report_of(write_sweep(tmp_path, records, examples=False))
    texts = report["verdict"] + report["bench_report"]["protocol_notes"]
    assert said in texts
    assert "one metric (mse)" in report["limitations"]


def test_limitations_name_what_was_found_and_what_was_not_measured(tmp_path):
    records = grid()
    for run in records:
        run["signature"] = run["probes"]["reach"] = None
    records += grid(["baseline"], seeds=[8])
    report = report_of(write_sweep(tmp_path, records, planned=False))
    for part in ("seed 8", "predicts no signature", "of idea alone", "There is no plan"):
        assert part in report["limitations"]
    assert report["bench_report"]["mechanism_signature"]["prediction"] is None
    assert "not tested" in report["verdict"]


def test_written_whole_or_not_at_all(tmp_path):
    judged = analysed(write_sweep(tmp_path / "sweep", grid()))
    report = build(judged, [], "python analyze.py")
    report["confidence"] = float("inf")
    path = write(report, tmp_path / "out")
    assert json.loads(path.read_text())["confidence"] is None
    before = path.read_text()
    with pytest.raises(TypeError):
        write({"unwritable": object()}, tmp_path / "out")
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == ["report.json"]


def test_a_mean_over_something_missing_is_none():
    assert mean_of([1, 2]) == 1.5
    assert mean_of([1, None]) is None
    assert mean_of([]) is None
