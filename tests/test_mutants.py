"""`make mutants`: which faults it plants, which tests see them, and what it keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import mutants
from benchmarks.mutate import Mutant
from benchmarks.mutate import mutants as made
from tests.conftest import ROOT

SOURCE = '''"""A module of 2 lines."""
from functools import cached_property
__all__ = ["Step"]

class Step:
    """A step of 1."""

    @cached_property
    def size(self) -> "list[int]":
        if not self.validation:
            raise ValueError("a size of " + str(1))
        self.scheduler.step()
        log.info("took %d", 1)
        yield "in words"
        return self.x + self.inner(self.x)
'''
SMALL = "def larger(a, b):\n    return a if a > b else b\n"
BESIDE = "from analysis.select import larger\n\ndef test_it():\n    assert larger(1, 2) == 2\n"


def test_faults_are_planted_in_code_alone():
    found = {(mutant.before, mutant.after) for mutant in made("step.py", SOURCE)}
    assert found == {
        ("if not self.validation:", "if not (not self.validation):"),
        ("if not self.validation:", "if self.validation:"),
        ("if not self.validation:", "if not self.test:"),
        ("self.scheduler.step()", "pass"),
        ("return self.x + self.inner(self.x)", "return self.x - self.inner(self.x)"),
        ("return self.x + self.inner(self.x)", "return self.x"),
        ("return self.x + self.inner(self.x)", "return self.inner(self.x)"),
        ("return self.x + self.inner(self.x)", "return self.x + self.inner(None)"),
    }


def test_every_file_has_tests():
    assert all(mutants.beside(ROOT, file) for file in mutants.files(ROOT))  # that exist, or it ends


def numbered(file: str, count: int) -> list[Mutant]:
    return [Mutant(file, "f", f"line {n}", "pass", 0, n, "") for n in range(count)]


def test_a_sample_is_the_same_again_and_in_proportion():
    found = numbered("a.py", 300) + numbered("b.py", 100)
    chosen = mutants.sample(found, 40, seed=0)
    assert chosen == mutants.sample(found, 40, seed=0) != mutants.sample(found, 40, seed=1)
    assert [sum(one.file == file for one in chosen) for file in ("a.py", "b.py")] == [30, 10]
    assert set(chosen) < set(mutants.sample(found, 80, seed=0))
    assert sorted(mutants.sample(found, 400, 0), key=found.index) == found


def test_a_survivor_that_changes_nothing_is_apart(tmp_path):
    (tmp_path / "list.txt").write_text(
        "# a comment\n\na.py: f\n- line 0\n+ pass\nnothing reads it\n"
    )
    reasons = mutants.harmless(tmp_path / "list.txt")
    assert list(reasons.values()) == ["nothing reads it"]
    outcomes = ["survived", "survived", "killed", "timeout"]
    text = mutants.report(list(zip(numbered("a.py", 4), outcomes, strict=True)), reasons)
    assert "66.7%" in text
    assert "1 more survive and change nothing" in text
    assert "a.py:1 f: line 1  →  pass" in text
    assert "a.py:0" not in text


@pytest.mark.slow
def test_what_the_repository_lists_is_planted():
    listed = set(mutants.harmless(ROOT / "tests/mutants_equivalent.txt"))
    planted = {
        (file, mutant.function, mutant.before, mutant.after)
        for file in {file for file, *_ in listed}
        for mutant in made(file, (ROOT / file).read_text())
    }
    assert listed <= planted
    assert all((ROOT / place).exists() for place in (*mutants.ALSO, *mutants.WORDING))


def test_a_planted_fault_is_killed_once(tmp_path):
    """In a repository of one function, whose test does not see what happens to equal numbers."""
    for name, text in {
        "analysis/select.py": SMALL,
        "tests/analysis/test_select.py": BESIDE,
        "tests/mutants_equivalent.txt": "",
        ".gitignore": ".cache/\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = {path: path.read_text() for path in tmp_path.rglob("*.*") if path.is_file()}
    program = (
        "import sys; from pathlib import Path; from benchmarks import mutants; "
        "mutants.ALSO = {'analysis': ()}; mutants.PRELOADED = ('pytest', 'hypothesis'); "
        f"mutants.main(Path({str(tmp_path)!r}))"
    )

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, "--full", "--workers", "2"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    first = run()
    assert "select.py:2 larger: return a if a > b else b  →  return a if a >= b" in first.stdout
    assert "→  return a if (a > b) or True else b" not in first.stdout
    kept = tmp_path / ".cache/mutants/outcomes.jsonl"
    assert {path: Path(path).read_text() for path in before} == before
    kept.write_text(kept.read_text() + '{"key": "to')  # as a kill leaves it
    again = run()
    assert again.stdout == first.stdout
    assert "3 mutants, 3 known already" in again.stderr
    (tmp_path / "tests/analysis/test_select.py").write_text(BESIDE.replace("== 2", "== 1"))
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run()
    assert "without a mutant these tests fail already" in failed.value.stderr


def test_a_copy_that_a_fault_has_damaged_is_made_anew(tmp_path):
    whole, tree = tmp_path / "whole", tmp_path / "tree"
    for folder in (whole, tree):
        (folder / "models").mkdir(parents=True)
        (folder / "models/a.py").write_text("x = 1\n")
        (folder / "models/b.py").write_text("y = 2\n")
    (tree / "models/a.py").write_text("x = 3\n")
    mutants.restore(whole, tree, "models/a.py")
    assert (tree / "models/a.py").read_text() == "x = 1\n"
    (tree / "models/b.py").unlink()
    mutants.restore(whole, tree, "models/a.py")
    assert mutants.listing(tree) == mutants.listing(whole) == {"models/a.py": 6, "models/b.py": 6}
