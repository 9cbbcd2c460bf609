"""A few random kills, with a resume after each: the short form of `benchmarks/faults.py`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc")
@pytest.mark.parametrize(
    "design", [["--seeds", "1"], pytest.param(["--tuned"], marks=pytest.mark.slow)]
)
def test_what_was_killed_is_whole_in_the_end(design: list[str], shell: Shell) -> None:
    done = shell("benchmarks/faults.py", "--kills", "4", *design, "--seed", "1", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.rsplit(maxsplit=1) for line in done.stdout.splitlines()]
    counts = {name.strip(): int(count) for name, count in lines}
    assert sum(n for name, n in counts.items() if name.startswith("kills: ")) == 4
    assert counts["planned"] >= 4
    assert [counts[name] for name in ("torn", "lost", "duplicated", "other")] == [0, 0, 0, 0]
