"""Reports judged again, from the scores in them."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import analyze
from analysis.judge.earlier import rejudge
from analysis.read.earlier import read
from tests.analysis.builder import diverge, grid, pick, write_sweep

DATA = Path(__file__).parent / "data"
PATHS = {name: DATA / f"earlier_report_{name}.json" for name in ("lag_bias", "tensor_mixer")}


def rejudged(path):
    [one] = rejudge(read(path))
    return one


def severities(one):
    return {audit.code: audit.severity for audit in one.audits}


def test_lag_bias_was_inert():
    one = rejudged(PATHS["lag_bias"])
    assert one.verdict == "inert"
    assert (one.effect.inert_ulps, one.effect.p_value, one.effect.mde) == (1.0, 0.5, None)
    assert (one.system_verdict, one.mechanism_ok) == ("failed", True)
    assert severities(one) == {
        "inert": "warning",
        "grid_edge": "warning",
        "selected_on_test": "warning",
        "tuned_on_reported_seeds": "note",
        "observations_not_recorded": "note",
        "parity_not_recorded": "warning",
        "cost_not_recorded": "note",
        "hashes_not_recorded": "note",
        "mde_was_half_width": "note",
    }


def test_tensor_mixer_was_better_with_what_weakens_it():
    one = rejudged(PATHS["tensor_mixer"])
    assert one.verdict == "idea better (significant)"
    assert one.effect.p_value == 0.0078125
    assert one.effect.mde == pytest.approx(0.0558380, abs=5e-8)
    assert one.effect.mde_rel_pct == pytest.approx(19.5, abs=0.05)
    assert (one.system_verdict, one.mechanism_ok) == ("partial", False)
    assert severities(one) == {
        "grid_edge": "warning",
        "selected_on_test": "warning",
        "tuned_on_reported_seeds": "note",
        "signature_of_few_models": "warning",
        "parity_not_recorded": "warning",
        "cost_not_recorded": "note",
        "hashes_not_recorded": "note",
        "mde_was_half_width": "note",
    }
    messages = {audit.code: audit.message for audit in one.audits}
    assert "The best lr of baseline, 0.001, is the smallest" in messages["grid_edge"]
    assert "baseline on seed 0–3; idea on seed 0–3" in messages["tuned_on_reported_seeds"]
    assert "1 of 8 models" in messages["signature_of_few_models"]


def test_both_stand_side_by_side(capsys):
    assert analyze.main([str(PATHS["tensor_mixer"])]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.split()}
    assert rows["p_value"] == ["0.0081", "0.0078125"]
    assert rows["mde"] == ["0.040387311", "0.055838003"]
    assert rows["system_verdict"] == ["worked", "partial"]
    assert rows["idea_wins"] == ["8", "8"]
    assert rows["verdict"][-2:] == ["better", "(significant)"]
    assert "sequence: idea against baseline" in out
    assert "mde_was_half_width" in out


def test_what_is_said_then_and_now():
    one = rejudged(PATHS["tensor_mixer"])
    assert one.title == "sequence: idea against baseline"
    both = one.then_and_now
    better = "idea better (significant)"
    half = half_width(json.loads(PATHS["tensor_mixer"].read_text())["bench_report"])
    assert {key: both[key] for key in list(both)[:8]} == {
        "verdict": (better, better),
        "n_pairs": (8, 8),
        "idea_wins": (8, 8),
        "ties": (None, 0),
        "idea_losses": (None, 0),
        "p_value": (0.0081, 2 / 256),
        "p_holm": (None, 2 / 256),
        "ci_half_width": (None, pytest.approx(half)),
    }
    effect = {
        *("p_min", "delta_mean", "ci", "ci_signflip", "ci_signflip_family", "dz", "hedges_g"),
        *("prob_improvement", "prob_improvement_ci", "pairing_rho", "mde", "mde_rel_pct"),
        *("margin", "seeds_needed", "p_equivalence", "inert_ulps"),
    }
    assert set(list(both)[8:-3]) == effect
    assert {key: both[key] for key in list(both)[-3:]} == {
        "system_verdict": ("worked", "partial"),
        "practical_verdict": ("helps", "helps"),
        "confidence": (7, one.confidence),
    }


def test_a_bare_bench_report(tmp_path):
    bare = tmp_path / "bench.json"
    bare.write_text(json.dumps(json.loads(PATHS["lag_bias"].read_text())["bench_report"]))
    one = rejudged(bare)
    assert one.verdict == "inert"
    assert one.then_and_now["confidence"] == (None, one.confidence)


def planted(tmp_path, change, name="tensor_mixer"):
    report = json.loads(PATHS[name].read_text())
    change(report["bench_report"])
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    return path


def edge_inside(bench):
    for entry in bench["baseline"]["sweep"]:
        entry["cfg"]["lr"] /= 3
    bench["baseline"]["best_cfg"]["lr"] = 0.001
    bench["baseline"]["sweep"][1]["mean"] = bench["baseline"]["sweep"][0]["mean"]


def validated(bench):
    for arm in ("baseline", "idea"):
        for entry in bench[arm]["sweep"]:
            entry["validation_mean"] = 0.3


def other_seeds(bench):
    for arm in ("baseline", "idea"):
        for entry in bench[arm]["sweep"]:
            entry["mean"] += 0.01


def every_model(bench):
    bench["mechanism_signature"] |= {"n_models": 8, "per_model": {}}


def costs(bench):
    for arm in ("baseline", "idea"):
        bench[arm]["cost"] = {"parameters": 1.0}


MENDED = {  # what a better report has → the audits that it is rid of
    "edge": (edge_inside, {"grid_edge"}),
    "validation": (validated, {"selected_on_test"}),
    "seeds": (other_seeds, {"tuned_on_reported_seeds"}),
    "models": (every_model, {"signature_of_few_models"}),
    "costs": (costs, {"parity_not_recorded", "cost_not_recorded"}),
    "mde": (lambda bench: bench["comparison"].update(mde=0.0558), {"mde_was_half_width"}),
}


@pytest.mark.parametrize("arm", ["baseline", "idea"])
def test_a_grid_that_was_not_recorded_is_a_warning(tmp_path, arm):
    def without_grid(bench):
        bench[arm]["sweep"] = []

    judged = rejudged(planted(tmp_path, without_grid))
    [audit] = [each for each in judged.audits if each.code == "grid_not_recorded"]
    assert (audit.severity, audit.message) == ("warning", f"The grid of {arm} was not recorded.")


@pytest.mark.parametrize("case", MENDED)
def test_what_is_mended_is_no_longer_raised(tmp_path, case):
    change, gone = MENDED[case]
    before = severities(rejudged(PATHS["tensor_mixer"]))
    after = severities(rejudged(planted(tmp_path, change)))
    assert before.keys() - after.keys() == gone
    assert after.keys() <= before.keys()


def without(*path):
    """A change that removes a key of a bench_report."""

    def change(bench):
        for key in path[:-1]:
            bench = bench[key]
        del bench[path[-1]]

    return change


def set_to(value, *path):
    """A change that sets a key of a bench_report."""

    def change(bench):
        for key in path[:-1]:
            bench = bench[key]
        bench[path[-1]] = value

    return change


def diverged(bench):
    bench["idea"]["per_seed"][2] = bench["idea"]["mean"] = None
    bench["comparison"] = {}


RAISED = [  # report, what is changed, the audit: code, severity, how the message begins, the advice
    ("tensor_mixer", set_to(7, "comparison", "idea_wins"), "report_disagrees", "void",
     "The report contradicts its own scores: it reports 7 wins, the scores have 8.",
     "Judge the runs that it was made from."),
    ("tensor_mixer", diverged, "diverged_run", "void", "A score is missing", "Judge the runs."),
    ("lag_bias", None, "inert", "warning", "The arms agree to 1 float32 ulps", "Look for"),
    ("lag_bias", without("mechanism_signature"), "signature_not_recorded", "warning",
     "No signature was recorded.", "Train again with a prediction."),
    ("tensor_mixer", None, "signature_of_few_models", "warning",
     "The signature was read off 1 of 8 models", "Read it off every model."),
    ("lag_bias", None, "observations_not_recorded", "note",
     "What was observed in each of 8 models was not recorded", "Train again"),
    ("lag_bias", None, "parity_not_recorded", "warning", "Parameters and FLOPs", "Train again"),
    ("lag_bias", set_to({"parameters": 1.0}, "baseline", "cost"), "parity_not_recorded", "warning",
     "Parameters and FLOPs", "Train again"),
    ("lag_bias", set_to({"parameters": 1.0}, "idea", "cost"), "parity_not_recorded", "warning",
     "Parameters and FLOPs", "Train again"),
    ("lag_bias", None, "cost_not_recorded", "note", "Time and memory", "Train again"),
    ("lag_bias", None, "hashes_not_recorded", "note", "Whether the arms", "Train again"),
    ("lag_bias", None, "mde_was_half_width", "note",
     "What it calls MDE, 1.141e-08, is the half-width of the 95 % interval; no effect is",
     "Read mde"),
    ("tensor_mixer", None, "mde_was_half_width", "note",
     "What it calls MDE, 0.04039, is the half-width of the 95 % interval; an effect of 0.05584 is",
     "Read mde"),
    ("tensor_mixer", without("idea", "sweep"), "grid_not_recorded", "warning",
     "The grid of idea was not recorded.", "Tune both arms over one grid."),
    ("tensor_mixer", without("idea", "best_cfg"), "grid_not_recorded", "warning",
     "The grid of idea was not recorded.", "Tune both arms over one grid."),
    ("tensor_mixer", set_to([], "baseline", "sweep"), "grid_not_recorded", "warning",
     "The grid of baseline was not recorded.", "Tune both arms over one grid."),
    ("tensor_mixer", None, "grid_edge", "warning", "The best lr of baseline, 0.001,", "Extend"),
    ("tensor_mixer", None, "selected_on_test", "warning",
     "Chosen without validation scores, on scores of the kind that is reported: "
     "baseline (lr=0.001); idea (lr=0.003).", "Choose on validation scores."),
    ("tensor_mixer", None, "tuned_on_reported_seeds", "note",
     "The scores that chose are among those reported: baseline on seed 0–3; idea on seed 0–3.",
     "Choose on other seeds"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "code", "severity", "message", "advice"),
    RAISED,
    ids=[f"{each[2]}-{each[0]}" for each in RAISED],
)
def test_every_audit_of_a_report(tmp_path, name, change, code, severity, message, advice):
    one = rejudged(planted(tmp_path, change or (lambda bench: None), name))
    [audit] = [each for each in one.audits if each.code == code]
    assert audit.severity == severity
    assert audit.message.startswith(message)
    assert audit.advice.startswith(advice)


@pytest.mark.parametrize(("values", "raised"), [(1, 0), (2, 2)])
def test_a_grid_of_two_values_has_but_edges(tmp_path, values, raised):
    def change(bench):
        bench["baseline"]["sweep"] = bench["baseline"]["sweep"][:values]  # the best is the first
        bench["idea"]["sweep"] = bench["idea"]["sweep"][1 : 1 + values]

    codes = [each.code for each in rejudged(planted(tmp_path, change)).audits]
    assert codes.count("grid_edge") == raised


def some_validated(bench):
    bench["idea"]["sweep"][0]["validation_mean"] = 0.3


def half_width(bench):
    """Half of the 95 % interval of the mean, from scipy."""
    d = np.subtract(bench["idea"]["per_seed"], bench["baseline"]["full"]["per_seed"])
    low, high = stats.ttest_1samp(d, 0).confidence_interval(0.95)
    return (high - low) / 2


def test_one_validation_score_is_enough_to_have_chosen_by(tmp_path):
    [audit] = [
        each
        for each in rejudged(planted(tmp_path, some_validated)).audits
        if each.code == "selected_on_test"
    ]
    assert "baseline (" in audit.message
    assert "idea (" not in audit.message


@pytest.mark.parametrize(("off", "raised"), [(0.9e-3, True), (1.2e-3, False), (-1.2e-3, False)])
@pytest.mark.parametrize("alpha", [None, 0.01])
def test_an_mde_that_is_the_half_width_to_a_thousandth(tmp_path, off, raised, alpha):
    """Of the 95 % interval, whatever it is judged by."""

    def change(bench):
        bench["comparison"]["mde"] = half_width(bench) * (1 + off)

    [one] = rejudge(read(planted(tmp_path, change)), alpha=alpha)
    assert ("mde_was_half_width" in severities(one)) == raised


@pytest.mark.parametrize(("off", "raised"), [(0.5e-9, True), (2e-9, False)])
def test_scores_that_chose_have_the_mean_of_reported_ones(tmp_path, off, raised):
    def change(bench):
        for arm in (bench["baseline"], bench["idea"]):
            for entry in arm["sweep"]:
                entry["mean"] *= 1 + off

    assert ("tuned_on_reported_seeds" in severities(rejudged(planted(tmp_path, change)))) == raised


@pytest.mark.parametrize(("off", "void"), [(0.5e-6, False), (2e-6, True)])
@pytest.mark.parametrize("place", ["mean of baseline", "mean of idea", "delta_mean"])
def test_how_far_a_number_may_lie_from_its_scores(tmp_path, off, void, place):
    def change(bench):
        if place == "delta_mean":
            d = np.subtract(bench["idea"]["per_seed"], bench["baseline"]["full"]["per_seed"])
            bench["comparison"]["delta_mean"] = float(d.mean()) * (1 + off)
        else:
            arm = bench["baseline"]["full"] if "baseline" in place else bench["idea"]
            arm["mean"] = float(np.mean(arm["per_seed"])) * (1 + off)

    one = rejudged(planted(tmp_path, change))
    assert ("report_disagrees" in severities(one)) == void
    if void:
        [audit] = [each for each in one.audits if each.code == "report_disagrees"]
        assert place in audit.message


@pytest.mark.parametrize("key", ["p_value", "mde"])
def test_p_and_mde_of_a_report_of_this_bench_are_checked_too(tmp_path, key):
    path = own_report(tmp_path, grid())
    report = json.loads(path.read_text())
    for each in (report, *report["comparisons"]):
        each["bench_report"]["comparison"][key] *= 1 + 2e-6
    path.write_text(json.dumps(report))
    assert severities(rejudged(path))["report_disagrees"] == "void"


@pytest.mark.parametrize(
    ("baseline", "system"), [(None, "failed"), (3, "invalid")], ids=["idea", "both"]
)
def test_a_finding_about_the_idea_needs_a_whole_baseline(tmp_path, baseline, system):
    def change(bench):
        bench["idea"]["per_seed"][2] = bench["idea"]["mean"] = None
        bench["comparison"] = {}
        if baseline is not None:
            bench["baseline"]["full"]["per_seed"][baseline] = None
            bench["baseline"]["full"]["mean"] = None

    one = rejudged(planted(tmp_path, change))
    assert severities(one)["diverged_run"] == "void"
    assert (one.verdict, one.system_verdict) == ("invalid", system)


@pytest.mark.parametrize(
    ("signature", "ok"),
    [
        ({"confirmed": True, "n_models": 8}, True),
        ({"confirmed": True, "n_models": 8, "n_confirmed": 8}, True),
        ({"confirmed": True, "n_models": 8, "n_confirmed": 7}, False),
        ({"confirmed": True, "n_models": 7}, False),
        ({"confirmed": True}, False),
        ({"confirmed": 1, "n_models": 8}, False),
        ({"confirmed": True, "n_models": "8"}, False),
        (None, False),
    ],
)
def test_a_signature_counts_in_as_many_models_as_seeds(tmp_path, signature, ok):
    def change(bench):
        bench["mechanism_signature"] = signature

    one = rejudged(planted(tmp_path, change))
    assert one.mechanism_ok is ok
    assert ("signature_not_recorded" in severities(one)) == (signature is None)
    few = signature is not None and signature.get("n_models") not in (8,)
    assert ("signature_of_few_models" in severities(one)) == few
    if few:
        said = 7 if signature.get("n_models") == 7 else 1
        assert f"read off {said} of 8 models" in " ".join(each.message for each in one.audits)


def test_whether_the_arms_are_one_is_what_the_report_says_of_its_examples(tmp_path):
    """Scores of a metric that ties tell less."""

    def report(ulps):
        return planted(
            tmp_path, lambda bench: bench["comparison"].update(inert_ulps=ulps), "lag_bias"
        )

    assert rejudged(report(2.0)).verdict == "inert"
    assert rejudged(report(5.0)).verdict != "inert"
    assert rejudged(report(None)).verdict != "inert"
    assert "inert_ulps" not in rejudged(report(5.0)).then_and_now

    def equal(bench):
        bench["idea"] |= {key: bench["baseline"]["full"][key] for key in ("per_seed", "mean")}
        bench["comparison"] = {"inert_ulps": 500.0}

    one = rejudged(planted(tmp_path, equal))
    assert one.verdict == "equivalent"
    assert one.then_and_now["ci_half_width"] == (None, None)  # without spread


def tampered_score(bench):
    bench["idea"]["per_seed"][3] = 0.1


def tampered_mean(bench):
    bench["idea"]["mean"] = 0.19


def tampered_wins(bench):
    bench["comparison"]["idea_wins"] = 7


@pytest.mark.parametrize("change", [tampered_score, tampered_mean, tampered_wins])
def test_a_report_that_contradicts_its_scores_is_void(tmp_path, change):
    path = planted(tmp_path, change)
    one = rejudged(path)
    assert severities(one)["report_disagrees"] == "void"
    assert (one.verdict, one.system_verdict, one.p_holm) == ("invalid", "invalid", None)
    assert analyze.main([str(path), "--strict"]) == 1
    assert analyze.main([str(PATHS["tensor_mixer"]), "--strict"]) == 0


def test_higher_is_better(tmp_path):
    path = planted(tmp_path, lambda bench: bench.update(metric_direction="higher is better"))
    one = rejudged(path)
    assert one.verdict == "invalid"  # its 8 wins are none then
    path = planted(
        tmp_path,
        lambda bench: bench.update(
            metric_direction="higher is better", comparison={"idea_wins": 0}
        ),
    )
    assert rejudged(path).verdict == "idea worse (significant)"


def own_report(tmp_path, records, *options):
    sweep = write_sweep(tmp_path / "sweep", records)
    assert analyze.main([str(sweep), *options]) == 0
    return sweep / "report" / "report.json"


def test_a_report_of_this_bench_keeps_its_audits(tmp_path):
    records = grid(["baseline", "idea", "other"])
    pick(records, "other", seed=2)[0]["hashes"]["data"] = "other"
    path = own_report(tmp_path, records)
    idea, other = rejudge(read(path))
    assert (idea.verdict, other.verdict) == ("idea better (significant)", "invalid")
    assert severities(other)["data_mismatch"] == "void"
    assert severities(idea) == {"tuned_on_reported_seeds": "note"}
    then = json.loads(path.read_text())["comparisons"][0]["bench_report"]["comparison"]
    shared = (idea.then_and_now.keys() & then.keys()) - {"inert_ulps"}  # finer on the examples
    assert len(shared) > 20
    for key in shared:
        was, now = idea.then_and_now[key]
        if isinstance(now, tuple):
            now = list(now)
        assert now == (was if isinstance(was, str) else pytest.approx(was, rel=1e-12)), key


def test_parity_is_judged_anew_by_who_is_ahead_now(tmp_path):
    records = grid()
    for run in pick(records, "idea", lr=None):
        run["cost"]["parameters"] *= 2
    path = own_report(tmp_path, records)
    for alpha, severity in ((0.05, "warning"), (0.001, "note")):
        [one] = rejudge(read(path), alpha=alpha)
        found = [each for each in one.audits if each.code.endswith("_parity")]
        assert [(each.code, each.severity) for each in found] == [("parameter_parity", severity)]
    report = json.loads(path.read_text())
    for each in (report, *report["comparisons"]):
        bench = each["bench_report"]
        bench["idea"]["cost"]["parameters"] = bench["baseline"]["cost"]["parameters"]
    path.write_text(json.dumps(report))
    assert "parameter_parity" not in severities(rejudged(path))
    for each in (report, *report["comparisons"]):
        each["bench_report"]["idea"]["cost"] = None  # nothing to judge it by
    path.write_text(json.dumps(report))
    assert severities(rejudged(path))["parameter_parity"] == "warning"


def test_a_report_of_this_bench_is_judged_by_its_own_rules(tmp_path):
    records = grid(["baseline", "a", "b"]) + grid(["baseline", "a", "b"], track="series")
    for run in records:
        run["analysis"] |= {"alpha": 0.01, "margin_pct": 90.0, "family": "track"}
    reports = read(own_report(tmp_path, records))
    for one in rejudge(reports):
        assert one.p_holm == 4 / 256
        assert one.verdict == "equivalent"  # at α = 0.01, within 90 %
        assert "rules_changed" not in severities(one)
    for one in rejudge(reports, alpha=0.05):
        assert one.verdict == "idea better (significant), negligible"
        assert severities(one)["rules_changed"] == "warning"


def test_an_idea_that_diverged_stays_a_failure(tmp_path):
    records = grid()
    for run in pick(records, "idea", seed=2, lr=None):
        diverge(run)
    [one] = rejudge(read(own_report(tmp_path, records)))
    assert (one.verdict, one.system_verdict) == ("invalid", "failed")


def test_an_empty_list_of_audits_silences_none(tmp_path):
    before = severities(rejudged(PATHS["tensor_mixer"]))
    after = severities(rejudged(planted(tmp_path, lambda bench: bench.update(audits=[]))))
    assert before.keys() - after.keys() == {"hashes_not_recorded"}


DEEP = 900 * "[" + 900 * "]"
BROKEN = {
    "no JSON": ("{", "JSON"),
    "empty": ("", "JSON"),
    "a list": ("[]", "object"),
    "deep": ('{"a": ' + 9999 * "[", "nested too deeply"),
    "deep, and valid": (
        PATHS["lag_bias"]
        .read_text()
        .replace('"comparison": {', f'"comparison": {{"ties": {DEEP}, '),
        "nested too deeply",
    ),
    "another object": ('{"a": 1}', "required, and not there"),
    "NaN": (PATHS["lag_bias"].read_text().replace("0.22719556093215942", "NaN"), "JSON"),
    "a string": (PATHS["lag_bias"].read_text().replace("0.22719556093215942", '"0.2"'), "per_seed"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_no_report_is_one_line(tmp_path, capsys, case):
    text, told = BROKEN[case]
    path = tmp_path / "report.json"
    path.write_text(text)
    assert analyze.main([str(path)]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert str(path) in said
    assert said.count("\n") == 1


def test_arms_of_unlike_length_and_misplaced_options_are_one_line(tmp_path, capsys):
    def shorter(bench):
        bench["idea"]["per_seed"].pop()

    paths = {
        (planted(tmp_path, shorter),): "8 scores of baseline and 7 of idea",
        (PATHS["lag_bias"], PATHS["tensor_mixer"]): "by itself",
        (PATHS["lag_bias"], "--out", tmp_path): "--out needs the runs",
        (PATHS["lag_bias"], "--partial"): "--partial needs the runs themselves",
        (PATHS["lag_bias"], "--tuning-seeds", "0-3"): "--tuning-seeds needs the runs",
        (PATHS["lag_bias"], "--plan", "--effect-pct", "2"): "--plan needs the runs",
    }
    for arguments, told in paths.items():
        assert analyze.main([str(each) for each in arguments]) == 2
        said = capsys.readouterr().err
        assert told in said
        assert said.count("\n") == 1


def test_alpha_and_margin_are_obeyed():
    report = read(PATHS["tensor_mixer"])
    [strict] = rejudge(report, alpha=0.005)
    assert strict.verdict == "underpowered"
    [wide] = rejudge(report, margin_pct=90)
    assert wide.verdict == "idea better (significant), negligible"
