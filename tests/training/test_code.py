"""An edit of any file that a run is made of shows in its hashes, so that no stale run is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from omegaconf import DictConfig, open_dict

from training.build import build
from training.config import validated
from training.record import code_hashes

FILES = {
    "ours/__init__.py": "from models.no_mixer import NoMixer\nclass InIt(NoMixer): pass\n",
    "ours/sub/__init__.py": "",
    "ours/sub/mixer.py": (
        "from models.no_mixer import NoMixer\n"
        "from . import beside\n"
        "from .near import here\n"
        "from ..far import there\n"
        "class Mine(NoMixer): pass\n"
    ),
    "ours/sub/beside.py": "",
    "ours/sub/near.py": "from .behind.here import here\n",
    "ours/sub/behind/__init__.py": "",
    "ours/sub/behind/here.py": "here = 1\n",
    "ours/far.py": "there = 1\n",
}


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of the user's own, with packages in it."""
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "ours"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "files"),
    [("ours.InIt", ["ours/__init__.py"]), ("ours.sub.mixer.Mine", sorted(FILES))],
)
def test_every_file_of_a_package_that_runs_is_hashed(
    composed: Callable[..., DictConfig], ours: Path, target: str, files: list[str]
) -> None:
    cfg = composed("variant=no_mixer", "track.train=8", "track.validation=4", "track.test=4")
    with open_dict(cfg):
        cfg.allow = ["ours"]
        cfg.variant.mixer = {"_target_": target}
    config = validated(cfg)
    track, network, *_ = build(config)
    before = code_hashes(track, network, config.allow)
    assert sorted(file for file in before if file.startswith("ours")) == files
    for file in files:
        (ours / file).write_text(FILES[file] + "edited = True\n")
    after = code_hashes(track, network, config.allow)
    assert sorted(file for file in after if after[file] != before[file]) == files
