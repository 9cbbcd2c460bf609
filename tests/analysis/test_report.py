"""report.json: its schema, the earlier reports' shape, their numbers, and the sentences."""

import copy
import json
import math
import re
from itertools import combinations, count, product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from jsonschema import Draft202012Validator, ValidationError
from scipy import stats

import analyze
from analysis.judge.audits.audit import Audit
from analysis.judge.verdict import PracticalVerdict, SystemVerdict, Verdict
from analysis.tell.report import build, mean_of, write
from records.record import Cost
from records.signature import OPERATORS
from tests.analysis.builder import (
    analysed,
    as_older,
    conclusion,
    diverge,
    grid,
    pick,
    record,
    write_sweep,
)

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "analysis" / "tell" / "report.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
DATA = Path(__file__).parent / "data"
EARLIER = {
    name: json.loads((DATA / f"earlier_report_{name}.json").read_text())
    for name in ("lag_bias", "tensor_mixer")
}
QUOTED = [
    path
    for path in sorted((ROOT / "results").glob("*.json"))
    if "comparisons" in json.loads(path.read_text())
]
LEFT_OUT = {"predicted_factor_bound"}  # a constant, no observation
GONE = object()  # in place of a value: the key is taken out


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
            run["signature"] |= as_observed_today(bench["mechanism_signature"])
            records.append(run)
    return records


def as_observed_today(then):
    """What an earlier report's mechanism_signature observed, in the terms of a record."""
    if "factor_largest_singular_values" not in then:
        names = [name for name in then if name.startswith("observed_")]
        return {"observed": {name.removeprefix("observed_"): then[name] for name in names}}
    largest = then["factor_largest_singular_values"]
    ratio = then["probe_norm_ratio_after_mixing"]
    return {
        "observed": {"max_singular_value": max(largest), "mixing_norm_ratio": ratio},
        "blocks": [{"max_singular_value": each, "mixing_norm_ratio": ratio} for each in largest],
    }


LATER = {"by_split", "length", "expected", "mlp_width"}  # which older reports lack


def read(path):
    """A report that keeps to its schema; a NaN would be no JSON."""
    report = json.loads(path.read_text(), parse_constant=pytest.fail)
    wrong = [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(report)]
    assert wrong == []
    return report


def report_of(sweep, *options):
    assert analyze.main([str(sweep), *options]) == 0
    return read(sweep / "report" / "report.json")


def changed(report, path, value):
    """A copy of a report, with another value at `path`: keys and positions between dots."""
    report = copy.deepcopy(report)
    *above, last = (int(key) if key.isdecimal() else key for key in path.split("."))
    inner = report
    for key in above:
        inner = inner[key]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return report


def paired(baseline, *ideas):
    """Records of arms with these test scores, one configuration each."""
    names = ("baseline", "idea", "other")
    return [
        record(name, seed, test=score, validation=0.5)
        for name, scores in zip(names, (baseline, *ideas), strict=False)
        for seed, score in enumerate(scores)
    ]


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


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", QUOTED, ids=lambda path: path.stem)
def test_quoted_reports_keep_to_the_schema(path):
    read(path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A report with nothing wrong in it."""
    return report_of(write_sweep(tmp_path_factory.mktemp("sound"), grid()))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("comparisons", GONE),
        ("comparisons", []),
        ("comparisons.0.worked", GONE),
        ("limitations", GONE),
        ("metrics.paired_comparison.p_value", GONE),
        ("bench_report.track_choice", GONE),
        ("bench_report.comparison.pairing_rho", GONE),
        ("bench_report.baseline.full.std", GONE),
        ("bench_report.idea.cost.saved_bytes", GONE),
        ("bench_report.mechanism_signature.confirmed", GONE),
        ("comparisons.0.bench_report.audits.0.advice", GONE),
        ("unheard_of", 1),
        ("comparisons.0.unheard_of", 1),
        ("comparisons.0.comparisons", []),
        ("metrics.unheard_of", "better"),
        ("bench_report.comparison.p_values", 0.01),
        ("bench_report.idea.full", {}),
        ("bench_report.idea_sweep.0.median", 0.3),
        ("bench_report.mechanism_signature.seen_slope", 0.1),
        ("worked", "true"),
        ("confidence", None),
        ("confidence", 11),
        ("confidence", -1),
        ("confidence", 7.5),
        ("mechanism_ok", 2),
        ("bench_report.bench_version", 1),
        ("bench_report.idea.name", None),
        ("bench_report.idea.std", -0.1),
        ("bench_report.idea.per_seed.3", "NaN"),
        ("bench_report.idea.best_cfg.lr", None),
        ("bench_report.idea.cost.parameters", None),
        ("bench_report.baseline.sweep", []),
        ("bench_report.comparison.delta_mean", "NaN"),
        ("bench_report.comparison.delta_mean", "-0.05"),
        ("bench_report.comparison.idea_wins", -1),
        ("bench_report.comparison.n_pairs", None),
        ("bench_report.comparison.seeds", [0, 0]),
        ("bench_report.comparison.p_value", "< 0.01"),
        ("bench_report.comparison.p_holm", 1.1),
        ("bench_report.comparison.p_holm", -0.1),
        ("bench_report.comparison.p_min", None),
        ("bench_report.comparison.p_min", 1.1),
        ("bench_report.comparison.family_size", 0),
        ("bench_report.comparison.alpha", 0),
        ("bench_report.comparison.alpha", 1),
        ("bench_report.comparison.ci", [-0.1]),
        ("bench_report.comparison.ci", [-0.1, 0.0, 0.1]),
        ("bench_report.comparison.ci", [-0.1, None]),
        ("bench_report.comparison.prob_improvement_ci", [-0.1, 0.9]),
        ("bench_report.comparison.prob_improvement", 1.1),
        ("bench_report.comparison.pairing_rho", -1.1),
        ("bench_report.comparison.margin_pct", -1),
        ("bench_report.comparison.seeds_needed", 7.5),
        ("bench_report.comparison.seeds_needed", 1),
        ("bench_report.comparison.family", "metric"),
        ("bench_report.comparison.verdict", "no measurable effect"),
        ("bench_report.comparison.verdict", "equivalent, negligible"),
        ("metrics.paired_comparison.verdict", "idea better"),
        ("system_verdict", "incomplete"),
        ("practical_verdict", "equivalent"),
        ("bench_report.metric_direction", "min"),
        ("bench_report.mechanism_signature.criteria.0.op", "=="),
        ("bench_report.mechanism_signature.observed_bias_max_first_difference", "NaN"),
        ("bench_report.mechanism_signature.per_model.rate_distance_from_start", 0.2),
        ("bench_report.mechanism_signature.factor_largest_singular_values", 0.2),
        ("bench_report.mechanism_signature.probe_norm_ratio_after_mixing", [0.2]),
        ("bench_report.mechanism_signature.blocks.0", {}),
        ("comparisons.0.bench_report.audits.0.severity", "error"),
        ("comparisons.0.bench_report.audits.0.code", "Few seeds"),
    ],
)
def test_the_schema_refuses(sound, path, value):
    with pytest.raises(ValidationError):
        VALIDATOR.validate(changed(sound, path, value))


def places(value, above=""):
    """The path of everything in a report; of a list, its first element stands for all."""
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value[:1])
        for key, each in inner:
            yield f"{above}{key}"
            yield from places(each, f"{above}{key}.")


def test_the_schema_knows_the_type_of_everything(sound):
    one = sound["comparisons"][0]
    validator = Draft202012Validator({**SCHEMA["$defs"]["comparison"], "$defs": SCHEMA["$defs"]})
    validator.validate(one)
    for path, wrong in product(places(one), ([True], {"unheard_of": True})):
        assert not validator.is_valid(changed(one, path, wrong)), path


def test_the_schema_leaves_what_runs_name_free(sound):
    for path, value in (
        ("bench_report.idea.best_cfg.momentum", 0.9),
        ("bench_report.idea.cost.joules", None),
        ("bench_report.idea.secondary.rmse", {"validation": None, "test": 0.5}),
        ("bench_report.mechanism_signature.observed_slope", None),
        ("bench_report.mechanism_signature.per_model.slope", [None, 0.1]),
        ("bench_report.mechanism_signature.by_construction.slope", "why"),
    ):
        VALIDATOR.validate(changed(sound, path, value))


def test_the_schema_is_closed():
    """Wherever it lists keys, all are required, and no other is let in but into a cost."""
    closed = {"additionalProperties", "unevaluatedProperties"}

    def walk(node):
        if isinstance(node, dict):
            if isinstance(node.get("properties"), dict):
                optional = LATER & set(node["properties"])
                assert node["required"] == [k for k in node["properties"] if k not in optional]
                is_open = node in (SCHEMA["$defs"]["comparison"], SCHEMA["$defs"]["cost"])
                assert is_open or any(node.get(key) is False for key in closed)
            node = list(node.values())
        if isinstance(node, list):
            for each in node:
                walk(each)

    walk(SCHEMA)
    assert list(SCHEMA["$defs"]["cost"]["properties"]) == list(Cost.__struct_fields__)


def test_the_schema_knows_the_words_of_the_code():
    top, defs = SCHEMA["$defs"]["comparison"]["properties"], SCHEMA["$defs"]
    assert top["system_verdict"]["enum"] == list(get_args(SystemVerdict))
    assert top["practical_verdict"]["enum"] == list(get_args(PracticalVerdict))
    criteria = defs["mechanism_signature"]["properties"]["criteria"]["items"]["properties"]
    assert criteria["op"]["enum"] == list(OPERATORS)
    void = [[Audit(code, "void", "", "")] for code in ("data_mismatch", "missing_run")]
    possible = {
        conclusion(*audits, delta_mean=delta, inert_ulps=ulps, p_holm=p,
                   p_equivalence_holm=equivalent, p_min=p_min).verdict
        for audits, delta, ulps, p, equivalent, p_min in product(
            [[], *void], [-0.1, 0.1], [0.0, 1e6], [0.01, 0.5], [0.01, 0.5], [0.01, 0.5])
    }  # fmt: skip
    enum = defs["effect"]["properties"]["verdict"]["enum"]
    assert set(enum) == possible == set(Verdict)
    assert len(enum) == len(possible)


def all_tie(records):
    for run in records:
        run["scores"]["test"] = 0.5


def one_seed(records):
    records[:] = pick(records, "baseline", seed=0) + pick(records, "idea", seed=0)


def nothing_paired(records):
    records[:] = [
        *(run for run in pick(records, "baseline") if run["seed"] < 4),
        *(run for run in pick(records, "idea") if run["seed"] >= 4),
    ]


def other_data(records):
    pick(records, "idea", seed=0)[0]["hashes"]["data"] = "other"


def all_diverge(records):
    for run in records:
        diverge(run)


def nothing_measured(records):
    for run in records:
        run["signature"] = run["analysis"] = None
        run["secondary"], run["environment"] = {}, {}
        run["probes"] = dict.fromkeys(run["probes"])
        run["cost"] |= dict.fromkeys(
            ("flops_per_example", "saved_bytes", "peak_bytes", "train_seconds")
        )


def higher_is_better(records):
    for run in records:
        run["metric"] = {"name": "accuracy", "direction": "max"}


@pytest.mark.parametrize(
    ("change", "verdict", "absent"),
    [
        (all_tie, "inert", {"ci", "dz", "mde_rel_pct", "seeds_needed", "prob_improvement_ci"}),
        (one_seed, "underpowered", {"ci", "hedges_g", "pairing_rho", "p_equivalence"}),
        (nothing_paired, "invalid", {"delta_mean", "prob_improvement", "margin", "p_holm"}),
        (other_data, "invalid", {"p_value", "p_holm", "p_selection_aware", "p_equivalence"}),
        (all_diverge, "invalid", {"delta_mean", "ci_signflip", "pairing_rho", "inert_ulps"}),
        (nothing_measured, "idea better (significant)", {"why"}),
        (higher_is_better, "idea worse (significant)", {"why"}),
    ],
)
def test_unusual_reports_keep_to_the_schema(tmp_path, change, verdict, absent):
    records = grid()
    change(records)
    report = report_of(write_sweep(tmp_path, records, examples=False))
    comparison = report["bench_report"]["comparison"]
    assert comparison["verdict"] == verdict
    assert {key for key in absent if comparison[key] is not None} == set()


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
    signature, then = bench["mechanism_signature"], was["mechanism_signature"]
    for key in then.keys() - {"prediction", "confirmed", *LEFT_OUT}:
        assert signature[key] == pytest.approx(then[key], rel=1e-12), key
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
    assert not [
        key
        for key, value in comparison.items()
        if value is None and key not in ("why", "looks", "expected")
    ]


def power(dz, pairs, alpha):
    """Of a two-sided paired t-test, from the non-central t distribution."""
    critical, shift = stats.t.ppf(1 - alpha / 2, pairs - 1), dz * math.sqrt(pairs)
    t = stats.nct(pairs - 1, shift)
    return t.sf(critical) + t.cdf(-critical)


def test_numbers_by_other_means(tmp_path):
    """Two ideas of equal scores: five wins, a tie and two losses each."""
    baseline = np.array([0.50, 0.52, 0.54, 0.56, 0.58, 0.60, 0.62, 0.64])
    shift = np.array([-0.010, -0.020, 0.005, -0.015, 0.0, -0.012, 0.004, -0.008])
    idea = baseline + shift
    report = report_of(write_sweep(tmp_path, paired(baseline, idea, idea), examples=False))
    bench = report["bench_report"]
    comparison = bench["comparison"]
    d = idea - baseline
    sd, n = d.std(ddof=1), 8
    wins = tuple(comparison[key] for key in ("idea_wins", "ties", "idea_losses"))
    assert wins == (5, 1, 2)
    assert comparison["hedges_g"] == pytest.approx(d.mean() / sd * 8 / 9)  # 1 − 3/(4·7 − 1)
    assert comparison["prob_improvement"] == 5.5 / 8
    assert comparison["prob_improvement_ci"] == pytest.approx(
        [stats.beta.ppf(0.025, 5, 3), stats.beta.ppf(0.975, 6, 2)]
    )
    assert comparison["pairing_rho"] == pytest.approx(np.corrcoef(baseline, idea)[0, 1])
    means = sorted(np.mean(some) for k in range(1, n + 1) for some in combinations(d, k))
    assert comparison["ci_signflip"] == pytest.approx([means[5], means[-6]])  # ⌊0.05·2⁸/2⌋ = 6
    assert comparison["ci_signflip_family"] == pytest.approx([means[2], means[-3]])  # half of it
    student = stats.ttest_1samp(d, 0)
    assert comparison["ci"] == pytest.approx(list(student.confidence_interval(0.95)))
    for text, ends in (("95 % sign-flip interval [", 6), ("97.5 %, for a family of 2: [", 3)):
        assert f"{text}{means[ends - 1]:.4g}, {means[-ends]:.4g}]" in report["verdict"]
    # one configuration each: there is no selection to redo
    assert comparison["p_selection_aware"] == comparison["p_value"]
    assert comparison["p_min"] == 2 / 2**7
    assert comparison["p_holm"] == 2 * comparison["p_value"]
    assert power(comparison["mde"] / sd, n, 0.05 / 2) == pytest.approx(0.8, abs=1e-4)
    assert comparison["margin"] == pytest.approx(0.0057)
    assert comparison["seeds_needed"] == next(
        pairs for pairs in count(2) if power(0.0057 / sd, pairs, 0.05 / 2) >= 0.8
    )
    assert (comparison["margin_pct"], comparison["alpha"]) == (1.0, 0.05)
    assert (comparison["family"], comparison["family_size"]) == ("all", 2)
    assert comparison["tuning_seeds"] == []
    assert "(-1.23 % of the baseline's mean)" in report["verdict"]  # −0.007 of 0.57
    assert bench["track_choice"] == "sequence: the track that these runs were trained on"
    assert bench["parameterization"] == (
        "idea: mixer._target_ models.attention.Attention, mixer.bias.kind idea, frozen False, "
        "initial_stream initialisation; 33280 parameters in its mixers"
    )


@pytest.mark.parametrize(("alpha", "k"), [(0.05, 6), (0.1, 12), (0.02, 2)])
def test_intervals_are_at_the_level_that_is_judged_by(tmp_path, capsys, alpha, k):
    """k = ⌊α·2⁸/2⌋; p and the interval beside it say the same."""
    d = np.array([-0.010, -0.020, 0.003, -0.015, -0.002, -0.012, 0.004, -0.008])
    sweep = write_sweep(tmp_path, paired(np.full(8, 0.5), 0.5 + d), examples=False)
    report = report_of(sweep, "--alpha", str(alpha))
    comparison = report["bench_report"]["comparison"]
    d = np.array(comparison["per_seed_diffs"])
    means = sorted(np.mean(some) for k in range(1, 9) for some in combinations(d, k))
    assert comparison["ci_signflip"] == pytest.approx([means[k - 1], means[-k]])
    assert comparison["ci_signflip_family"] is None
    low, high = comparison["ci"]
    student = stats.ttest_1samp(d, 0).confidence_interval(1 - alpha)
    assert (low, high) == pytest.approx(tuple(student))
    assert comparison["ci_half_width"] == pytest.approx((high - low) / 2)
    holds = comparison["ci_signflip"][0] <= 0 <= comparison["ci_signflip"][1]
    assert holds == (comparison["p_value"] > alpha) == (alpha <= 0.05)
    shown = f"{100 * (1 - alpha):g} % sign-flip interval [{means[k - 1]:.4g}, {means[-k]:.4g}]"
    assert shown in report["verdict"]
    assert shown in " ".join(capsys.readouterr().out.split())


def test_five_pairs_show_the_t_interval_by_its_name(tmp_path, capsys):
    """All five are better: p = .0625, and a t interval without 0, which must not pass for p's."""
    report = report_of(write_sweep(tmp_path, grid(seeds=range(5))))
    comparison = report["bench_report"]["comparison"]
    low, high = comparison["ci"]
    assert high < 0
    assert comparison["p_value"] == 2 / 32
    assert comparison["ci_signflip"] is comparison["ci_signflip_family"] is None
    shown = f"95 % t interval [{low:.4g}, {high:.4g}] (no sign-flip interval from 5 pairs)"
    assert shown in report["verdict"]
    assert shown in " ".join(capsys.readouterr().out.split())
    assert "no outcome could have been significant. Run at least 6 seeds." in report["verdict"]


def test_scores_that_cannot_tell_the_arms_apart(tmp_path):
    records = paired([0.5] * 8, [0.5] * 8)  # their examples differ
    report = report_of(write_sweep(tmp_path, records))
    comparison = report["bench_report"]["comparison"]
    assert (comparison["verdict"], comparison["p_equivalence"]) == ("equivalent", None)
    assert (
        "same on every seed, to the last digit: mse could not tell them apart" in report["verdict"]
    )
    assert report["practical_verdict"] == "no_effect"


def test_better_without_its_signature_has_not_worked(tmp_path):
    records = grid()
    pick(records, "idea", seed=3)[0]["signature"]["observed"]["rate_distance_from_start"] = 0.0
    report = report_of(write_sweep(tmp_path, records))
    assert report["system_verdict"] == "partial"
    assert report["practical_verdict"] == "helps"
    assert report["worked"] is report["bench_report"]["comparison"]["system_worked"] is False
    assert report["system_judged"] is True
    assert report["mechanism_ok"] == 0


def test_seeds_that_tune_are_not_reported(tmp_path):
    records = grid()
    for run in pick(records, "baseline", lr=0.006) + pick(records, "idea", lr=0.006):
        run["scores"]["test"] = 0.5
    sweep = write_sweep(tmp_path, records)
    together = report_of(sweep)["bench_report"]
    # one lr is best for both arms on every seed: no flip selects another, where the arms tie
    assert together["comparison"]["p_selection_aware"] == 2 / 256
    apart = report_of(sweep, "--tuning-seeds", "0-2")["bench_report"]
    comparison = apart["comparison"]
    assert (comparison["tuning_seeds"], comparison["seeds"]) == ([0, 1, 2], [3, 4, 5, 6, 7])
    assert (comparison["n_pairs"], apart["idea"]["n"], apart["idea_sweep"][0]["n"]) == (5, 5, 3)
    assert apart["idea"]["per_seed"] == together["idea"]["per_seed"][3:]
    assert comparison["p_selection_aware"] is comparison["ci_signflip"] is None
    assert comparison["p_value"] == 2 / 32
    assert comparison["verdict"] == "underpowered"
    assert "idea over 3 configurations on seed 0–2" in apart["protocol_notes"]


def test_a_selection_that_cannot_be_redone(tmp_path):
    records = [run for run in grid() if run["variant"] == "baseline" or run["hyper"]["lr"] > 0.002]
    comparison = report_of(write_sweep(tmp_path, records))["bench_report"]["comparison"]
    assert comparison["p_selection_aware"] is None
    assert comparison["p_value"] == 2 / 256


def test_family_and_margin_that_are_asked_for(tmp_path):
    sweep = write_sweep(tmp_path, grid() + grid(track="series"))
    report = report_of(sweep)
    assert len(report["comparisons"]) == 2
    comparison = report["bench_report"]["comparison"]
    assert (comparison["family_size"], comparison["p_holm"]) == (2, 4 / 256)
    assert "Holm over 2 (all comparisons)" in report["bench_report"]["protocol_notes"]

    report = report_of(sweep, "--family", "track", "--margin-pct", "50")
    bench = report["bench_report"]
    comparison, notes = bench["comparison"], bench["protocol_notes"]
    assert (comparison["family"], comparison["family_size"]) == ("track", 1)
    assert comparison["p_holm"] == 2 / 256
    assert comparison["margin_pct"] == 50
    assert comparison["margin"] == pytest.approx(bench["baseline"]["full"]["mean"] / 2)
    assert comparison["verdict"] == "idea better (significant), negligible"
    assert report["practical_verdict"] == "no_effect"
    assert "Holm over 1 (those of this track)" in notes
    assert "within 50 % of the baseline's mean" in notes
    assert report["verdict"].endswith("It is weakened by rules_changed: see the audits.")


def test_arms_costs_secondary_scores_and_signature(tmp_path):
    records = grid()
    for run in records:
        run["secondary"]["persistence_mse"] = {"scores": {"validation": 0.8, "test": 0.9}}
    for run in pick(records, "idea"):
        run["cost"]["train_seconds"] = float(run["seed"])
        run["signature"]["observed"]["rate_distance_from_start"] = run["seed"] / 10
    pick(records, "idea", seed=2)[0]["signature"]["observed"]["bias_max_first_difference"] = None
    for run in pick(records, "idea", lr=0.006):
        run["cost"]["train_seconds"] = 1e9  # not selected
    bench = report_of(write_sweep(tmp_path, records))["bench_report"]
    assert bench["idea"]["cost"]["train_seconds"] == 3.5
    assert bench["idea"]["cost"]["parameters"] == 101832
    assert bench["baseline"]["secondary"]["persistence_mse"] == {"validation": 0.8, "test": 0.9}
    signature = bench["mechanism_signature"]
    assert signature["at_start"] == {
        "rate_distance_from_start": 0.0,
        "bias_max_first_difference": pytest.approx(-0.06),
    }
    assert signature["per_model_at_start"]["bias_max_first_difference"] == [-0.06] * 8
    assert signature["blocks"] == [records[0]["signature"]["blocks"]] * 8
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


def test_what_older_records_lack_is_null(tmp_path):
    records = grid(lrs=[0.003])
    ideas = pick(records, "idea")
    for run in ideas:
        singular = [{"max_singular_value": value} for value in (0.25 + run["seed"], 0.5)]
        run["signature"] |= {"observed": {"max_singular_value": 0.5}, "blocks": singular}
        run["signature"]["observed_at_start"] = {"max_singular_value": 0.125}
    whole = report_of(write_sweep(tmp_path / "whole", records))
    signature = whole["bench_report"]["mechanism_signature"]
    assert signature["factor_largest_singular_values"] == [3.75, 0.5]  # seeds 0 … 7 in the mean
    assert signature["observed_max_factor_singular"] == 0.5
    assert "probe_norm_ratio_after_mixing" not in signature  # was not observed
    as_older(ideas[2])
    ideas[4]["signature"] = None
    mixed = report_of(write_sweep(tmp_path / "mixed", records))
    signature = mixed["bench_report"]["mechanism_signature"]
    assert signature["at_start"] == {"max_singular_value": None}
    start = [0.125, 0.125, None, 0.125, None, 0.125, 0.125, 0.125]
    assert signature["per_model_at_start"] == {"max_singular_value": start}
    assert [each is None for each in signature["blocks"]] == [each is None for each in start]
    assert signature["factor_largest_singular_values"] is None


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
    assert "Judged on sequence by mse" in report["limitations"]


def test_the_verdict_says_what_weakens_it(tmp_path):
    records = grid()
    report = report_of(write_sweep(tmp_path / "sound", records))
    assert report["verdict"].endswith("No warning was raised.")
    assert report["bench_report"]["audits"]  # a note weakens nothing
    for run in records:
        if run["hyper"]["lr"] == 0.006:
            run["scores"]["validation"] = 0.0
    pick(records, "idea", seed=3, lr=0.006)[0]["signature"]["observed"] = {}
    report = report_of(write_sweep(tmp_path / "doubtful", records))
    assert report["verdict"].endswith(
        "It is weakened by grid_edge × 2, unconfirmed_signature: see the audits."
    )
    assert "confirmed in 7 of 8 models" in report["verdict"]
    for audit in report["bench_report"]["audits"]:
        assert audit["message"] in report["limitations"]


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("reach", "Whether the loss depends on parameters of idea alone was not measured."),
        ("ablation", "What idea loses without its mechanism was not measured."),
        ("causal", "Causality was not probed."),
        ("split_overlap", "Split overlap was not counted."),
        ("flops_per_example", "FLOPs were not counted."),
        ("saved_bytes", "Saved memory was not measured."),
        ("peak_bytes", "Peak memory was not measured."),
    ],
)
def test_limitations_name_each_thing_that_was_not_measured(sound, tmp_path, key, sentence):
    records = grid()
    for run in records:
        run["cost" if key in run["cost"] else "probes"][key] = None
    report = report_of(write_sweep(tmp_path, records))
    assert sentence in report["limitations"]
    assert report["limitations"].replace(f"{sentence} ", "") == sound["limitations"]


def test_limitations_of_a_sound_sweep(sound):
    for part in (
        "Judged on sequence by mse, on 8 seeds, on cpu. Not measured: any other track, other "
        "sizes of model, longer contexts than those trained on and longer training.",
        "Not tuned: gamma = 1.",  # lr was
        "skewed differences of mean zero are rejected",
    ):
        assert part in sound["limitations"]
    assert "no plan" not in sound["limitations"]


def test_limitations_name_tracks_lengths_and_budgets_that_are_there(tmp_path):
    records = grid() + grid(track="series") + grid(["other"], track="third")
    for run in records:
        run["scores"] |= {"test@64": 0.5, "test@128": 0.6}
    records += [record(arm, 0, budget=2) for arm in ("baseline", "idea")]
    report = report_of(write_sweep(tmp_path, records))
    by_track = {
        each["bench_report"]["track"]: each["limitations"] for each in report["comparisons"]
    }
    assert (
        "The arms are compared on series too, on further test splits (test@128 and test@64) and at "
        "2 times the training budget. Not measured: tracks beside these and other sizes of model."
    ) in by_track["sequence"]
    assert "on sequence too" in by_track["series"]
    assert "and longer training." in by_track["series"]


def test_a_key_that_acts_in_no_arm_is_not_called_untuned(tmp_path):
    records = grid()
    for run in records:
        run["acting"] = ["lr", "gamma"] if run["variant"] == "idea" else ["lr"]
    in_one = report_of(write_sweep(tmp_path / "one", records))
    assert "Not tuned: gamma = 1." in in_one["limitations"]
    for run in records:
        run["acting"] = ["lr"]
    assert "Not tuned" not in report_of(write_sweep(tmp_path / "none", records))["limitations"]


def test_every_arms_curve_over_further_splits_is_shown(tmp_path, capsys):
    records = grid()
    for run in records:
        run["scores"] |= {"test@128": 0.625, "test@64": 0.5}
    analyze.main([str(write_sweep(tmp_path, records))])
    out = capsys.readouterr().out
    [head] = re.findall(r"mse by test split +(.*\S) *\n", out)
    assert head.split() == ["test", "test@64", "test@128"]
    assert len(re.findall(r"(?:baseline|idea) +\S+ +0.5 +0.625 *\n", out)) == 2


def test_limitations_name_what_was_found_and_what_was_not_measured(tmp_path):
    records = grid()
    for run in records:
        run["signature"] = run["probes"]["reach"] = None
    records += grid(["baseline"], seeds=[8]) + grid(["idea"], track="series")
    report = report_of(write_sweep(tmp_path, records, planned=False))
    for part in (
        *("seed 8", "predicts no signature", "of idea alone", "There is no plan"),
        "idea on series has no baseline",
    ):
        assert part in report["limitations"]
    assert report["bench_report"]["mechanism_signature"]["prediction"] is None
    assert "not tested" in report["verdict"]


@pytest.mark.parametrize("metric", ["mse", "mae"])
def test_what_a_score_is_a_mean_over_is_said_where_it_was_recorded(tmp_path, metric):
    records = grid()

    def notes(name):
        judged = analysed(write_sweep(tmp_path / name, records), metric=metric)
        return build(judged, [], "")["bench_report"]["protocol_notes"]

    told = f"An example's {metric} is over the horizon's values. p: "
    assert told not in notes("without")
    for run in records:
        run["metric"]["mean_over"] = "the horizon's values"
    assert told in notes("with")


def test_written_whole_or_not_at_all(tmp_path):
    judged = analysed(write_sweep(tmp_path / "sweep", grid()))
    report = build(judged, [], "python analyze.py")
    report["confidence"] = float("inf")
    path = write(report, tmp_path / "out")
    assert json.loads(path.read_text())["confidence"] is None
    before = path.read_text()
    with pytest.raises(TypeError, match="unsupported"):
        write({"unwritable": object()}, tmp_path / "out")
    assert path.read_text() == before
    assert [each.name for each in path.parent.iterdir()] == ["report.json"]


def test_a_mean_over_something_missing_is_none():
    assert mean_of([1, 2]) == 1.5
    assert mean_of([1, None]) is None
    assert mean_of([]) is None


def test_further_test_splits_are_compared_and_decide_nothing(tmp_path):
    records = grid()
    for run in records:  # the idea is worse there, as much on every seed
        worse = 0.25 if run["variant"] == "idea" else 0.0
        run["scores"] |= {"test@64": 0.5 + run["seed"] / 64 + worse, "test@128": 1.0}
    del pick(records, "idea", seed=2)[0]["scores"]["test@128"]
    report = report_of(write_sweep(tmp_path, records))
    said = report["bench_report"]["comparison"]
    [(split, found)] = said["further_splits"].items()
    assert split == "test@64"
    assert found["per_seed_diffs"] == [0.25] * 8
    assert (found["delta_mean"], found["p_value"]) == (0.25, 2 / 2**8)
    assert (found["idea_wins"], found["idea_losses"]) == (0, 8)
    assert said["verdict"] == "idea better (significant)"
    assert "longer contexts" not in report["limitations"]
    assert "longer contexts" in report_of(write_sweep(tmp_path / "one", grid()))["limitations"]
    pick(records, "idea", seed=2)[0]["hashes"]["data"] = "other"
    report = report_of(write_sweep(tmp_path / "void", records))
    [found] = report["bench_report"]["comparison"]["further_splits"].values()
    assert (found["delta_mean"], found["p_value"]) == (0.25, None)


def shown(capsys):
    return capsys.readouterr().out.splitlines()


def test_the_terminal_shows_the_pairs(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    change = [0.12, -0.2, 0.0, 0.05, -0.01, 0.2]
    records = [
        record(arm, seed, test=0.5 + (d if arm != "baseline" else 0), validation=0.5)
        for arm in ("baseline", "an_idea_whose_name_takes_up_all_of_a_line")
        for seed, d in enumerate(change)
    ]
    report_of(write_sweep(tmp_path, records))
    lines = shown(capsys)
    assert all(len(line) <= 80 for line in lines if line[:7] != "report:")
    rows = [line.rstrip() for line in lines if re.search(r"^ +[0-5] +0\.5 ", line)]
    assert [row.split()[:4] for row in rows] == [
        [str(seed), "0.5", f"{0.5 + d:.4g}", f"{0.5 + d - 0.5:.4g}"]
        for seed, d in enumerate(change)
    ]
    zero = rows[0].index("|")
    marks = [row.index("o") - zero for row in rows]
    assert marks == [4, -7, 0, 2, 0, 7]
    assert all(row[zero] in "|o" for row in rows)


def test_of_many_pairs_the_terminal_shows_those_that_differ_most(tmp_path, capsys):
    records = [
        record(arm, seed, test=0.5 - (0.01 * (seed + 1) if arm == "idea" else 0), validation=0.5)
        for arm in ("baseline", "idea")
        for seed in range(23)
    ]
    report_of(write_sweep(tmp_path, records))
    out = capsys.readouterr().out
    rows = [int(seed) for seed in re.findall(r"(?m)^ +(\d+) +0\.5 ", out)]
    assert rows == list(range(3, 23))
    assert "3 more, nearer 0" in " ".join(out.split())


def test_a_pair_that_diverged_has_no_mark(tmp_path, capsys):
    records = grid()
    for run in pick(records, "idea", seed=3, lr=None):
        diverge(run)
    report_of(write_sweep(tmp_path, records))
    [row] = [line for line in shown(capsys) if re.search(r"^ +3 +0\.\d+ +– +– ", line)]
    assert "o" not in row


def test_the_spread_is_told(tmp_path, capsys):
    records = grid()
    report = report_of(write_sweep(tmp_path, records))
    noise = report["bench_report"]["comparison"]["noise"]
    told = " ".join(capsys.readouterr().out.split())
    low, high = noise["sd_interval"]
    assert f"noise sd {noise['sd']:.2g} (95 % {low:.2g}–{high:.2g}); of its variance 0 %" in told
    assert "is the test sample's 20 examples, the rest training" in told
    assert "retraining" not in report["verdict"]


def test_on_fixed_data_the_verdict_says_of_what_it_speaks(tmp_path, capsys):
    records = grid()
    for run in records:
        run["hashes"]["data"] = "one series"
    report = report_of(write_sweep(tmp_path, records))
    noise = report["bench_report"]["comparison"]["noise"]
    low, high = noise["examples_interval"]
    over = f"over its 20 test examples the difference is [{low:.4g}, {high:.4g}] (95 %)"
    said = "speak of retraining on these, not of new data"
    assert said in report["verdict"]
    assert over in report["verdict"]
    told = " ".join(capsys.readouterr().out.split())
    assert f"of retraining alone: the seeds share their data; {over}" in told
    for run in records:
        run["overlap"] = 3
    report = report_of(write_sweep(tmp_path / "blocks", records))
    assert "20 test examples in blocks of at least 4, as they overlap" in report["verdict"]
    for run in records:
        run["overlap"] = 4
    report = report_of(write_sweep(tmp_path / "few", records))
    assert "20 test examples, fewer than 5 blocks of 5" in report["verdict"]


def test_how_to_run_begins_with_the_sweeps_commands(tmp_path):
    for name, seeds in (("a", range(4)), ("b", range(4, 8))):
        path = write_sweep(tmp_path / name, grid(seeds=seeds)) / "plan.json"
        plan = json.loads(path.read_text())
        path.write_text(json.dumps(plan | {"commands": [f"python train.py -m {name}", "again"]}))
    how = report_of(tmp_path)["how_to_run"].split("\n")
    assert how == [
        "python train.py -m a", "again", "python train.py -m b", f"python analyze.py {tmp_path}",
    ]  # fmt: skip


def test_a_report_says_in_words_what_was_compared(tmp_path):
    records = grid()
    for run in records:
        run["config"]["track"]["about"] = "Two sinusoids and noise."
    bench = report_of(write_sweep(tmp_path / "words", records))["bench_report"]
    assert bench["model"] == "dim 64, heads 4, layers 2"
    assert bench["track_choice"] == "Two sinusoids and noise."
    assert "mixer.bias.kind idea" in bench["parameterization"]
    assert bench["protocol_notes"].startswith(
        "The arms share track, model, optimizer, training, and differ in "
        "variant.mixer.bias.kind (idea against baseline). Each arm's hyper"
    )
    for run in records:
        run["config"] = None
    bench = report_of(write_sweep(tmp_path / "hashes", records))["bench_report"]
    assert bench["model"] == "model-tiny"
    assert bench["track_choice"].startswith("sequence: ")
    assert bench["protocol_notes"].startswith("Each arm's hyper")
    assert bench["parameterization"] == (
        "idea (configuration variant-idea), 33280 parameters in its mixers"
    )
