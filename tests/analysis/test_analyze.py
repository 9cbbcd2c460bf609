"""`python analyze.py` as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import analyze
from analysis.judge import sweep as judging
from tests.analysis.builder import as_schema_2, grid, pick, record, write_sweep

ROOT = Path(__file__).parents[2]
FOREIGN = ("torch", "hydra", "omegaconf", "models", "tracks", "training")


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, ROOT / "analyze.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def comparisons(path):
    report = json.loads((path / "report.json").read_text())
    return [
        tuple(each["bench_report"]["comparison"][key] for key in ("baseline", "idea", "n_pairs"))
        for each in report["comparisons"]
    ]


def refused(capsys, *arguments):
    """The one line that is said when `arguments` cannot be analysed."""
    assert analyze.main([str(each) for each in arguments]) == 2
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert err.count("\n") == 1
    return out, err


def test_one_sweep(tmp_path):
    records = grid()
    for run in records:
        run["secondary"]["persistence_mse"] = {"scores": {"validation": 0.8, "test": 0.8125}}
    for run in pick(records, "idea", lr=0.006):
        run["scores"]["validation"] = 0.0
    sweep = write_sweep(tmp_path / "sweep", records)
    done = command(sweep)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads((sweep / "report" / "report.json").read_text())
    comparison = report["bench_report"]["comparison"]
    for part in (
        "idea against baseline",
        "lr=0.006",
        f"{comparison['delta_mean']:.4g}",
        "95 % sign-flip interval "
        f"[{comparison['ci_signflip'][0]:.4g}, {comparison['ci_signflip'][1]:.4g}]",
        "weakened by       1 warning: grid_edge; 1 note: tuned_on_reported_seeds",
        f"{comparison['p_value']:.4g}",
        "8/0/0",
        f"{comparison['mde']:.4g}",
        "confirmed in 8 of 8 models",
        "idea better (significant)",
        "persistence_mse",
        "0.8125",
        "grid_edge",
        "Extend both arms' grids",
        "report.json",
    ):
        assert part in done.stdout, part
    assert report["how_to_run"] == f"python analyze.py {sweep}"
    assert report["files"] == ["report.json"]


@pytest.mark.parametrize("first", [2, 3])
def test_records_of_both_schemas_are_one_sweep(tmp_path, first):
    """Half of the seeds were trained before an update, half after it."""
    records = grid()
    whole = write_sweep(tmp_path / "whole", records)
    for run in records:
        if (run["seed"] < 4) == (first == 2):
            as_schema_2(run)
    mixed = write_sweep(tmp_path / "mixed", records)
    assert [run["schema"] for run in records].count(2) == 24
    benches = []
    for sweep in (whole, mixed):
        assert analyze.main([str(sweep)]) == 0
        benches.append(json.loads((sweep / "report/report.json").read_text())["bench_report"])
    told = ("protocol_notes", "parameterization", "model")  # the configuration, where it is known
    assert benches[0]["comparison"]["verdict"] == "idea better (significant)"
    assert [benches[1][key] for key in told] == [benches[0][key] for key in told]
    assert benches[1] == benches[0]

    run = next(each for each in pick(records, "idea") if each["schema"] == 2)
    run["probes"]["reach"] = 1e-8
    where = write_sweep(tmp_path / "dead", records)
    [judged] = judging.judge_sweep([where])
    for one in (where, str(where), [str(where)]):  # one path, however it is given
        assert [each.verdict for each in judging.judge_sweep(one)] == [judged.verdict]
    [void] = [each for each in judged.audits if each.severity == "void"]
    assert f"in 1 of 8 models (seed {run['seed']})" in void.message


def test_newest_sweep_when_none_is_named(tmp_path):
    for at, day in enumerate(("2026-11-29", "2026-11-30")):
        sweep = write_sweep(tmp_path / "multirun" / day / "12-00-00", grid())
        os.utime(sweep / "plan.json", (at, at))
    assert command(cwd=tmp_path).returncode == 0
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("report.json")] == [
        "multirun/2026-11-30/12-00-00/report/report.json"
    ]
    [report] = tmp_path.rglob("report.json")
    assert "multirun/2026-11-30/12-00-00" in json.loads(report.read_text())["how_to_run"]


def test_several_sweeps_and_a_day(tmp_path):
    day = tmp_path / "day"
    one = write_sweep(day / "a" / "x", grid(seeds=range(4)))
    two = write_sweep(day / "b", grid(seeds=range(4, 8)))
    assert analyze.main([str(one), str(two)]) == 0
    assert comparisons(day / "report") == [("baseline", "idea", 8)]
    (day / "report" / "report.json").unlink()
    assert analyze.main([str(day)]) == 0
    assert comparisons(day / "report") == [("baseline", "idea", 8)]
    assert analyze.main([str(day), "--out", str(tmp_path / "elsewhere")]) == 0
    assert comparisons(tmp_path / "elsewhere") == [("baseline", "idea", 8)]


def test_sweeps_of_a_day_that_name_different_baselines(tmp_path):
    write_sweep(tmp_path / "a", grid(["table", "mixture"], baseline="table"))
    write_sweep(tmp_path / "b", grid(["attention", "mixer"], baseline="attention"))
    write_sweep(tmp_path / "c", grid(["table", "mixture"], baseline="table", track="series"))
    assert analyze.main([str(tmp_path)]) == 0
    assert comparisons(tmp_path / "report") == [
        ("attention", "mixer", 8),
        ("table", "mixture", 8),
        ("table", "mixture", 8),  # on series
    ]


def test_baseline_by_name(tmp_path, capsys):
    sweep = write_sweep(tmp_path, grid(["a", "b", "c"], baseline=None))
    assert "--baseline" in refused(capsys, sweep)[1]
    assert analyze.main([str(sweep), "--baseline", "b"]) == 0
    assert comparisons(sweep / "report") == [("b", "a", 8), ("b", "c", 8)]


def test_partial_and_alpha(tmp_path):
    records = grid()
    sweep = write_sweep(tmp_path, records[:-1], plan=records)

    def verdict(*options):
        assert analyze.main([str(sweep), *options]) == 0
        report = json.loads((sweep / "report" / "report.json").read_text())
        return report["bench_report"]["comparison"]["verdict"]

    assert verdict() == "incomplete"
    assert verdict("--partial") == "idea better (significant)"
    assert verdict("--partial", "--alpha", "0.001") == "underpowered"


def test_one_arm_only(tmp_path, capsys):
    records = grid()
    sweep = write_sweep(tmp_path / "idea", pick(records, "idea", lr=None), plan=records)
    out, err = refused(capsys, sweep)
    assert "arms found" in out
    assert "lr=0.003" in out
    for part in ("idea on sequence", "baseline", "24 planned runs", "--baseline"):
        assert part in err
    assert not (sweep / "report").exists()

    out, err = refused(capsys, write_sweep(tmp_path / "both", records), "--baseline", "none")
    assert "none is not there" in err


def test_an_arm_that_left_nothing_is_told_beside_the_others(tmp_path, capsys):
    sweep = write_sweep(tmp_path, grid(), plan=grid(["baseline", "idea", "dead"]))
    assert analyze.main([str(sweep)]) == 0
    sentence = "dead on sequence left no record of 24 planned runs."
    assert sentence in capsys.readouterr().out
    report = json.loads((sweep / "report" / "report.json").read_text())
    assert sentence in report["limitations"]


def test_a_users_mistakes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "nowhere: no such directory" in refused(capsys, "nowhere")[1]
    assert "multirun: no such directory" in refused(capsys)[1]
    (tmp_path / "multirun").mkdir()
    assert "no sweep" in refused(capsys)[1]
    assert "no record" in refused(capsys, "multirun")[1]
    sweep = write_sweep(tmp_path / "sweep", grid())
    (tmp_path / "file").write_text("")
    assert "--out" in refused(capsys, sweep, "--out", "file")[1]


def test_exit_status_of_a_mistake(tmp_path):
    done = command(tmp_path / "nowhere")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("alpha", ["0", "0.6", "-1", "nan", "x"])
def test_alpha_must_be_a_level(alpha, capsys):
    assert analyze.main(["--alpha", alpha]) == 2
    said = capsys.readouterr().err
    assert "at most 0.5" in said
    assert said.count("\n") == 1


def test_names_from_files_are_shown_as_they_stand(tmp_path, capsys):
    name = "[bold]x[/nonsense]\x1b[2J\n"
    write_sweep(tmp_path / "both", grid(["baseline", name]))
    assert analyze.main([str(tmp_path / "both")]) == 0
    out = capsys.readouterr().out
    assert "[bold]x[/nonsense]\\x1b[2J\\n" in out.replace("\n", "")
    assert "\x1b[2J" not in out
    _, err = refused(capsys, write_sweep(tmp_path / "one", [record(name, 0)]))
    assert "[bold]x[/nonsense]\\x1b[2J\\n" in err


def test_a_reader_that_leaves_early(tmp_path):
    sweep = write_sweep(tmp_path, grid())
    with subprocess.Popen(
        [sys.executable, ROOT / "analyze.py", sweep], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert (sweep / "report" / "report.json").exists()


def test_interrupt_is_quiet(tmp_path, monkeypatch, capsys):
    def interrupt(paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(judging, "gather", interrupt)
    assert analyze.main([str(tmp_path)]) == 130
    assert capsys.readouterr() == ("", "")


def test_needs_nothing_that_trains(tmp_path):
    sweep = write_sweep(tmp_path, grid())
    script = (
        "import sys, analyze; status = analyze.main(sys.argv[1:]); "
        f"print([name for name in {FOREIGN} if name in sys.modules], status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, sweep], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_a_terminal_that_knows_ascii_alone(tmp_path):
    sweep = write_sweep(tmp_path, grid())
    done = command(sweep, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "idea better (significant)" in done.stdout


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parameters", 10**400),
        ("train_seconds", -1.0),
        ("mixer_parameters", -1),
    ],
)
def test_a_record_with_an_impossible_cost_hides_no_other(tmp_path, field, value):
    records = grid()
    records[5]["cost"][field] = value
    assert analyze.main([str(write_sweep(tmp_path, records)), "--partial"]) == 0
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    [audit] = [a for a in report["bench_report"]["audits"] if a["code"] == "unreadable_record"]
    assert f"cost.{field}" in audit["message"]


@pytest.mark.parametrize("by", ["seed", "variant", "lr"])
def test_a_sweep_split_over_machines_gives_the_same_report(tmp_path, monkeypatch, by):
    monkeypatch.chdir(tmp_path)
    records = grid(variants=("baseline", "idea", "other"))
    write_sweep(tmp_path / "whole", records, examples=False)
    parts = {}
    for run in records:
        parts.setdefault(run["hyper"]["lr"] if by == "lr" else run[by], []).append(run)
    names = [f"machine-{i}" for i in range(len(parts))]
    for name, part in zip(reversed(names), parts.values(), strict=True):
        write_sweep(tmp_path / name, part, examples=False)
    assert len(names) >= 3
    reports = []
    for sweeps in (["whole"], names):
        assert analyze.main([*sweeps, "--out", "judged"]) == 0
        report = (tmp_path / "judged/report.json").read_text()
        reports.append(report.replace(" ".join(sweeps), "SWEEPS"))
    assert reports[0] == reports[1]
    assert len(json.loads(reports[0])["comparisons"]) == 2
