"""Do the tests see a fault? Plants faults one by one and counts those that no test notices.

    make mutants                     a sample of 400
    make mutants N=100 SEED=1        another
    make mutants FULL=1 WORKERS=2    all of them
    make mutants FILES=analysis/judge/select.py,analysis/judge/verdict.py

Every mutant (see benchmarks/mutate.py) lives in a temporary copy of the repository and is tried by
the fast tests that stand beside its file, in a process forked from this one, which has imported
the heavy libraries. One that hangs, or takes too much memory, counts as killed. Outcomes are kept
in .cache/mutants/, by the mutated file and its tests, and never found out twice. What survives
and changes nothing is listed in tests/mutants_equivalent.txt. Linux and macOS only: forks.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import gc
import hashlib
import importlib
import json
import os
import py_compile
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutate import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("records", "analysis", "training", "models", "tracks", "sweeping")
PURE = {"sweeping/arguments.py", "sweeping/declared.py"}  # the rest of it starts processes
WORDING = {  # what they print is read by people
    "analysis/arguments.py",
    "analysis/text.py",
    *(f"analysis/tell/{name}.py" for name in ("prose", "report", "terminal")),
}
REFERENCE = "tests/training/test_reference.py"
VARIANTS = "tests/models/test_variants.py"
LENGTHS = "tests/training/test_lengths.py"
# A file's tests are those of its own name, then these: of the file, or else of the nearest folder.
ALSO = {
    "analysis/judge/statistics.py": ("tests/analysis/test_properties.py",),
    "analysis/judge/verdict.py": (
        "tests/analysis/test_properties.py",
        "tests/analysis/test_audits.py",
    ),
    "analysis/judge/planning.py": (),
    "analysis/judge/sequential.py": ("tests/analysis/test_design.py",),
    "analysis/judge/design.py": (),
    "analysis/judge/budgets.py": ("tests/analysis/test_audits.py",),
    "analysis/judge/noise.py": ("tests/analysis/test_planning.py",),
    "analysis/judge/earlier.py": (),
    "analysis/read/earlier.py": (),
    "analysis/read/gather.py": (),
    "analysis/read/recorded.py": ("tests/analysis/test_audits.py",),
    "analysis/judge/compare.py": (
        "tests/analysis/test_properties.py",
        "tests/analysis/test_verdict.py",
        "tests/analysis/test_audits.py",
        "tests/analysis/test_report.py",
    ),
    "analysis": ("tests/analysis/test_audits.py", "tests/analysis/test_rules.py"),
    "models/attention.py": (REFERENCE, VARIANTS, LENGTHS),
    "models/tensor_mixer.py": (REFERENCE, VARIANTS),
    "models/lag_bias.py": (REFERENCE, LENGTHS),
    "models/lag_table.py": (
        *("tests/models/test_lag_bias.py", "tests/models/test_attention.py"),
        *("tests/models/test_nearest_mixture.py", REFERENCE, VARIANTS),
    ),
    "models/nearest_mixture.py": ("tests/models/test_nearest_mixture.py",),
    "models/base_conv.py": ("tests/models/test_base_conv.py", VARIANTS, LENGTHS),
    "models/exp_mixture.py": ("tests/models/test_lag_bias.py", REFERENCE, VARIANTS),
    "models/mixer.py": (
        *("tests/models/test_initialise.py", "tests/training/test_trains.py"),
        *("tests/training/test_check.py", "tests/training/test_probes.py", REFERENCE),
    ),
    "models/rotation.py": ("tests/models/test_attention.py", REFERENCE, VARIANTS),
    "models/mlp.py": ("tests/models/test_network.py", REFERENCE),
    "models/network.py": ("tests/models/test_initialise.py", REFERENCE, LENGTHS, VARIANTS),
    "models": (REFERENCE, VARIANTS, LENGTHS),
    "records/record.py": ("tests/analysis/test_gather.py", "tests/analysis/test_audits.py"),
    "records/settings.py": ("tests/analysis/test_audits.py",),
    "records/design.py": ("tests/analysis/test_design.py",),
    "records/probes.py": ("tests/records/test_record.py", "tests/analysis/test_audits.py"),
    "records": (
        *("tests/records/test_record.py", "tests/records/test_earlier.py"),
        "tests/analysis/test_gather.py",
    ),
    "training/config.py": (),
    "training/step.py": (),
    "training/errors.py": (),
    "training/check.py": ("tests/training/test_config.py",),
    "training/factory.py": ("tests/training/test_config.py", "tests/training/test_check.py"),
    "training/place.py": ("tests/training/test_check.py",),
    "training/questions.py": ("tests/training/test_check.py",),
    "training/build.py": (
        *("tests/training/test_trains.py", REFERENCE),
        *("tests/training/test_fit.py", "tests/training/test_config.py"),
        "tests/training/test_check.py",
    ),
    "training/observe.py": (
        *("tests/training/test_probes.py", REFERENCE),
        *(VARIANTS, "tests/training/test_check.py"),
    ),
    "training/probes": ("tests/training/test_probes.py", REFERENCE),
    "training/record.py": (
        "tests/training/test_code.py",
        *(REFERENCE, "tests/training/test_config.py"),
    ),
    "training/summary.py": (),
    "training/run.py": (REFERENCE, "tests/training/test_config.py", "tests/training/test_check.py"),
    "training": (REFERENCE, "tests/training/test_fit.py"),
    "sweeping/arguments.py": ("tests/sweep/test_arguments.py",),
    "sweeping/declared.py": ("tests/sweep/test_declared.py",),
    "tracks/track.py": (
        "tests/tracks/test_sequence.py",
        "tests/training/test_probes.py",
        REFERENCE,
    ),
    "tracks": ("tests/tracks/test_sequence.py", "tests/tracks/test_series.py", REFERENCE, VARIANTS),
}
PRELOADED = (
    *("numpy", "scipy.stats", "scipy.optimize", "pandas", "statsmodels.stats.power", "torch"),
    *("hydra", "pydantic", "msgspec", "rich.table", "jsonschema", "hypothesis", "pytest"),
)
KILLED = ("killed", "timeout")
MEMORY = 4 << 30  # bytes that a mutant may take beyond what is imported


def files(root: Path) -> list[str]:
    """The source files that are looked at."""
    found = (path.relative_to(root) for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    sources = {str(path) for path in found} - WORDING
    return sorted(name for name in sources if name in PURE or not name.startswith("sweeping/"))


def beside(root: Path, file: str) -> tuple[str, ...]:
    """The tests of a source file, the nearest first."""
    path = Path(file)
    own = Path("tests", path.parts[0], f"test_{path.stem}.py")
    places = (file, *(str(folder) for folder in path.parents))
    also = next(ALSO[place] for place in places if place in ALSO)
    tests = dict.fromkeys([str(own)] * (root / own).exists() + list(also))
    for test in tests:
        if not (root / test).exists():
            raise SystemExit(f"{test}, a test of {file} in benchmarks/mutants.py, does not exist")
    return tuple(tests)


def sample(found: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """So many of the mutants, of each file in proportion. A larger sample holds a smaller one's."""
    by_file = defaultdict(list)
    for mutant in found:
        by_file[mutant.file].append(mutant)
    chosen: list[Mutant] = []
    before = 0
    for of_file in by_file.values():
        share = [round(size * n / len(found)) for n in (before, before + len(of_file))]
        before += len(of_file)
        of_file.sort(key=lambda mutant: _hash(str(seed), mutant.name))
        chosen += of_file[: share[1] - share[0]]
    return chosen


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def known(path: Path) -> dict[str, str]:
    """Outcomes by key, of all runs so far; a line that a kill has torn is left out."""
    outcomes = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            outcome = json.loads(line)
        except ValueError:
            continue
        outcomes[outcome["key"]] = outcome["outcome"]
    return outcomes


def copy(root: Path, tree: Path) -> None:
    """The repository without what git ignores, compiled so that a change is always seen."""
    ignored = [line.strip().rstrip("/") for line in (root / ".gitignore").read_text().splitlines()]
    shutil.copytree(root, tree, ignore=shutil.ignore_patterns(".git", "shared", *ignored))
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(str(tree), quiet=2, invalidation_mode=mode)


def preload() -> None:
    """Import what every test needs, and nothing of the project."""
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    for name in PRELOADED:
        importlib.import_module(name)
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)  # one failure is enough: it need not be small
    settings.register_profile("mutants", derandomize=True, database=None, phases=phases)
    settings.load_profile("mutants")
    gc.freeze()  # so that a fork shares the memory of what is imported


def start(tree: Path, tests: tuple[str, ...], seconds: float) -> int:
    """Run tests in a copy of the repository, in a process of their own; its number."""
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            code = _test(tree, tests, seconds)
        finally:
            sys.stdout.flush()
            os._exit(code)
    return pid


def _test(tree: Path, tests: tuple[str, ...], seconds: float) -> int:
    os.setsid()
    signal.alarm(max(1, round(seconds)))  # ends the process, even when this one's parent is gone
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    log = os.open(f"{tree}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(tree)
    sys.dont_write_bytecode = True
    sys.path[:] = [str(tree), *(path for path in sys.path if Path(path).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]
    import pytest

    options = ["-x", "-q", "-m", "not slow", "--assert=plain", f"--basetemp={tree}.tmp"]
    return int(pytest.main([*options, "-p", "no:cacheprovider", *tests]))


def finish() -> tuple[int, str]:
    """Wait for the next process to end: its number, and what became of its tests."""
    pid, status = os.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what its tests have started
    if os.WIFSIGNALED(status):
        stopped = os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGKILL)
        return pid, "timeout" if stopped else "killed"
    return pid, "killed" if os.WEXITSTATUS(status) else "survived"


@dataclass(frozen=True)
class Job:
    """Tests to be run, with one fault or none."""

    tests: tuple[str, ...]
    limit: float  # seconds
    key: str = ""
    mutant: Mutant | None = None


def listing(tree: Path) -> dict[str, int]:
    """The sizes of a tree's files by path, without what Python has compiled."""
    found = (path for path in tree.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(tree)): path.stat().st_size for path in found}


def restore(whole: Path, tree: Path, file: str) -> None:
    """Take the fault out of a copy, and whatever else the fault did to it."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(whole / file, tree / file)
    if listing(tree) != listing(whole):  # some mutants remove or write what they should not
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(whole, tree)


def tried(
    jobs: Iterable[Job], whole: Path, trees: list[Path]
) -> Iterator[tuple[Job, str, float, Path]]:
    """Run jobs, as many at once as there are trees: each with its outcome, seconds and log."""
    queue, free = list(jobs), list(trees)
    busy: dict[int, tuple[Path, Job, float]] = {}  # by process, with when it began
    try:
        while queue or busy:
            if queue and free:
                tree, job = free.pop(), queue.pop(0)
                if job.mutant:
                    (tree / job.mutant.file).write_text(job.mutant.source)
                busy[start(tree, job.tests, job.limit)] = tree, job, time.monotonic()
                continue
            pid, outcome = finish()
            tree, job, began = busy.pop(pid)
            if job.mutant:
                restore(whole, tree, job.mutant.file)
            yield job, outcome, time.monotonic() - began, Path(f"{tree}.log")
            free.append(tree)
    finally:
        for pid in busy:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def unmutated(
    wanted: Iterable[tuple[str, ...]], whole: Path, trees: list[Path]
) -> dict[tuple[str, ...], float]:
    """Seconds that tests take without a fault; ends where they fail."""
    seconds = {}
    jobs = [Job(tests, limit=1800) for tests in dict.fromkeys(wanted)]
    print(f"first {len(jobs)} sets of tests without a fault", file=sys.stderr)
    for job, outcome, taken, log in tried(jobs, whole, trees):
        if outcome != "survived":
            print(log.read_text()[-3000:], file=sys.stderr)
            raise SystemExit(f"without a mutant these tests fail already: {' '.join(job.tests)}")
        seconds[job.tests] = taken
    return seconds


def run(
    pending: dict[str, Mutant], root: Path, cache: Path, workers: int, home: Path
) -> dict[str, str]:
    """Try mutants, writing down each outcome as it comes; outcomes by key."""
    whole, trees = home / "whole", [home / f"tree{number}" for number in range(workers)]
    copy(root, whole)  # once: the repository may be edited while this goes on
    for tree in trees:
        shutil.copytree(whole, tree)
    preload()
    tests = {key: beside(root, mutant.file) for key, mutant in pending.items()}
    seconds = unmutated(tests.values(), whole, trees)
    jobs = [
        Job(tests[key], 10 + 5 * seconds[tests[key]], key, mutant)
        for key, mutant in pending.items()
    ]
    cache.parent.mkdir(parents=True, exist_ok=True)
    outcomes: dict[str, str] = {}
    begin = time.monotonic()
    with open(cache, "a") as kept:
        kept.write("\n" if cache.stat().st_size else "")  # a torn line stays alone
        for job, outcome, *_ in tried(jobs, whole, trees):
            outcomes[job.key] = outcome
            kept.write(json.dumps({"key": job.key, "outcome": outcome}) + "\n")
            kept.flush()
            if len(outcomes) % 20 == 0:
                each = (time.monotonic() - begin) / len(outcomes)
                print(f"{len(outcomes)} of {len(pending)}, {each:.1f} s each", file=sys.stderr)
    return outcomes


def harmless(path: Path) -> dict[tuple[str, str, str, str], str]:
    """Why each mutant of the list changes nothing, by its file, function and lines."""
    reasons = {}
    for block in path.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        place, before, after, *why = lines + [""] * (4 - len(lines))
        file, separator, function = place.partition(": ")
        if not (separator and before.startswith("- ") and after.startswith("+ ") and any(why)):
            raise SystemExit(
                f"{path}: expected 'FILE: FUNCTION', '- ', '+ ' and why; found {lines}"
            )
        reasons[file, function.removeprefix("-"), before[2:], after[2:]] = " ".join(why)
    return reasons


def report(
    outcomes: list[tuple[Mutant, str]], reasons: dict[tuple[str, str, str, str], str]
) -> str:
    """Scores by file, folder and in all, then every survivor."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    lines, unneeded = [], []
    for mutant, outcome in outcomes:
        listed = (mutant.file, mutant.function, mutant.before, mutant.after) in reasons
        where = f"{mutant.file}:{mutant.line} {mutant.function or '-'}"
        if outcome == "survived" and listed:
            outcome = "harmless"
        elif outcome == "survived":
            lines.append(f"{where}: {mutant.before}  →  {mutant.after}")
        elif listed:
            unneeded.append(f"is listed as changing nothing, and was {outcome}: {where}")
        for place in (mutant.file, mutant.file.partition("/")[0] + "/", "all"):
            counts[place][outcome] += 1
    table = [f"{'':32}{'killed':>9}{'timeout':>9}{'survived':>9}{'score':>9}"]
    for place in sorted(counts, key=lambda place: (place == "all", place.endswith("/"), place)):
        count = counts[place]
        killed = sum(count[outcome] for outcome in KILLED)
        tried = killed + count["survived"]
        score = f"{killed / tried:9.1%}" if tried else f"{'-':>9}"
        numbers = "".join(f"{count[key]:9}" for key in (*KILLED, "survived"))
        table.append(f"{place:32}{numbers}{score}")
    none = counts["all"]["harmless"]
    table.append(f"{none} more survive and change nothing: see tests/mutants_equivalent.txt")
    return "\n".join([*table, *sorted(unneeded), *sorted(lines)])


def survey(root: Path, chosen: list[Mutant], workers: int) -> list[tuple[Mutant, str]]:
    """What becomes of every mutant, from earlier runs where its file and tests are the same."""
    cache = root / ".cache/mutants/outcomes.jsonl"
    helpers = sorted(set((root / "tests").rglob("*.py")) - set((root / "tests").rglob("test_*.py")))
    shared = [path.read_text() for path in helpers]
    texts = {
        file: [(root / test).read_text() for test in beside(root, file)]
        for file in {mutant.file for mutant in chosen}
    }
    keys = [_hash(mut.name, mut.source, *texts[mut.file], *shared) for mut in chosen]
    outcomes = known(cache)
    pending = {key: mut for key, mut in zip(keys, chosen, strict=True) if key not in outcomes}
    print(f"{len(chosen)} mutants, {len(chosen) - len(pending)} known already", file=sys.stderr)
    if pending:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a tenth of the time
        with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory) as home:
            outcomes |= run(pending, root, cache, workers, Path(home))
    return [(mutant, outcomes[key]) for key, mutant in zip(keys, chosen, strict=True)]


def main(root: Path = ROOT) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=400, help="mutants in the sample")
    parser.add_argument("--full", action="store_true", help="try all of them")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--workers", type=int, default=0, help="default: one per core")
    parser.add_argument("--files", default="", help="only these, with commas; default: all")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.files.split(",") if name] or files(root)
    for name in wanted:
        if not (root / name).is_file() or Path(name).parts[0] not in FOLDERS:
            raise SystemExit(f"{name} is no source file below {', '.join(FOLDERS)}")
    found = [mutant for name in wanted for mutant in mutants(name, (root / name).read_text())]
    workers = arguments.workers or os.cpu_count() or 1
    size = len(found) if arguments.full else min(arguments.n, len(found))
    reasons = harmless(root / "tests/mutants_equivalent.txt")
    outcomes = survey(root, sample(found, size, arguments.seed), workers)
    print(f"{size} of {len(found)} mutants\n{report(outcomes, reasons)}")


if __name__ == "__main__":
    main()
