"""Language: windows that no other split touches, a user's own file, and what counting gives."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tracks.test_sequence import streams
from tracks.language import Language, fingerprints
from tracks.read.text import help_texts, text_of

SHORT = {"context": 4, "train": 50, "validation": 10, "test": 10}


def write(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def alphabet(n: int) -> str:
    """Characters that tell where they stand."""
    return "".join(chr(0x4E00 + i) for i in range(n))


def places(track: Language, name: str) -> list[list[int]]:
    """Where each character of each window stands in `alphabet`, as the ids are in its order."""
    split = track.splits[name]
    assert split.targets[:, :-1].equal(split.inputs[:, 1:])
    return torch.cat([split.inputs, split.targets[:, -1:]], dim=1).tolist()


def test_windows_are_of_their_region_and_touch_no_other(tmp_path: Path) -> None:
    path = write(tmp_path / "t", alphabet(400))
    track = Language(streams(), path, split=(0.5, 0.2, 0.3), test_lengths=(2,), **SHORT)
    bounds = {"train": (0, 200), "validation": (200, 280), "test": (280, 400), "test@8": (280, 400)}
    for name, (begin, end) in bounds.items():
        windows = places(track, name)
        assert all(w == list(range(w[0], w[0] + len(w))) for w in windows)
        assert all(begin <= w[0] and w[-1] < end for w in windows)
        if name != "train":
            stood = [i for w in windows for i in w]
            assert len(stood) == len(set(stood))
    assert len(places(track, "test@8")[0]) == 9
    starts = {w[0] for w in places(track, "train")}
    assert len(starts) > 40


def test_training_windows_begin_at_any_character_of_their_region(tmp_path: Path) -> None:
    path = write(tmp_path / "t", alphabet(40))
    track = Language(streams(), path, split=(0.5, 0.25, 0.25), **{**SHORT, "train": 1000})
    assert {w[0] for w in places(track, "train")} == set(range(20 - 4))


def test_few_windows_are_spread_over_the_region(tmp_path: Path) -> None:
    path = write(tmp_path / "t", alphabet(1000))
    track = Language(streams(), path, split=(0.4, 0.1, 0.5), **{**SHORT, "test": 4})
    assert [w[0] for w in places(track, "test")] == [500, 625, 750, 875]
    track = Language(streams(), path, split=(0.4, 0.1, 0.5), **{**SHORT, "test": 9999})
    assert [w[0] for w in places(track, "test")] == list(range(500, 1000, 5))


def test_what_stands_word_for_word_further_up_is_left_out(tmp_path: Path) -> None:
    text = alphabet(100)
    again = text[:50] + text[50:70] + text[70:75] + text[3:8] + text[80:85] + text[52:57] + "xyzuv"
    again += text[68:73]  # begins before the region and ends in it: stands in no other
    track = Language(streams(), write(tmp_path / "t", again), split=(0.5, 0.2, 0.3), **SHORT)
    letters = sorted(set(again))
    found = ["".join(letters[i] for i in w) for w in places(track, "test")]
    assert found == [text[70:75], text[80:85], "xyzuv", text[68:73]]


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_windows_have_one_fingerprint_just_where_they_are_one(length: int) -> None:
    ids = np.random.default_rng(length).integers(3, size=300)
    seen: dict[int, tuple[int, ...]] = {}
    found = fingerprints(ids, length).tolist()
    assert len(found) == 300 - length + 1
    for i, number in enumerate(found):
        window = tuple(ids[i : i + length].tolist())
        assert seen.setdefault(number, window) == window
    assert len(seen) == len(set(seen.values()))


def test_references_by_counting_slowly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "".join(rng.choice(list("aaab"), size=300)) + "".join(rng.choice(list("abc"), size=200))
    track = Language(streams(), write(tmp_path / "t", text), split=(0.6, 0.2, 0.2), **SHORT)
    alone, pairs = Counter(text[:300]), Counter(itertools.pairwise(text[:300]))
    followed = Counter(text[:299])

    def unigram(b: str) -> float:
        return (alone[b] + 1) / (300 + 3)

    def bigram(a: str, b: str) -> float:
        return (pairs[a, b] + unigram(b)) / (followed[a] + 1)

    assert sum(bigram("b", x) for x in "abc") == pytest.approx(1)
    for name in ("validation", "test"):
        windows = ["".join("abc"[i] for i in w) for w in places(track, name)]
        steps = [(w[i], w[i + 1]) for w in windows for i in range(4)]
        expected = -np.mean([math.log(unigram(b)) for _, b in steps])
        assert track.references["unigram_cross_entropy"][name] == pytest.approx(expected)
        expected = -np.mean([math.log(bigram(a, b)) for a, b in steps])
        assert track.fitted["bigram_cross_entropy"][name] == pytest.approx(expected)
    assert track.vocabulary == 3  # c, which training never shows, among them


def test_bits_are_nats_in_another_unit() -> None:
    track = Language(streams(), test=5)
    logits = torch.randn(5, 64, track.vocabulary, generator=torch.Generator().manual_seed(0))
    scores = track.scores(logits, track.test.targets)
    said = torch.gather(logits.softmax(-1), 2, track.test.targets[..., None])[..., 0]
    torch.testing.assert_close(scores["cross_entropy"], -said.log().mean(1))
    torch.testing.assert_close(scores["bits"], -said.log2().mean(1))


def test_the_seed_draws_training_alone() -> None:
    one, same, other = (Language(streams(s)) for s in (0, 0, 1))
    assert one.train.inputs.equal(same.train.inputs)
    assert not one.train.inputs.equal(other.train.inputs)
    assert one.test.inputs.equal(other.test.inputs)


def test_the_help_texts_repeat_no_paragraph() -> None:
    paragraphs = [p.strip() for p in help_texts().split("\n\n")]
    assert len(paragraphs) == len(set(paragraphs)) > 1000
    track = Language(streams(), train=1)
    begins = help_texts()[: round(0.9 * len(help_texts()))]
    letters = sorted(set(help_texts()))
    windows = ["".join(letters[i] for i in w) for w in places(track, "test")]
    assert len(windows) > 500
    assert not any(window in begins for window in windows)


def test_a_file_is_read_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"\xef\xbb\xbf" + "a\r\nß\x00€".encode())
    assert text_of(str(path)) == "a\r\nß\x00€"
    text = "aß€" * 40 + alphabet(80)
    track = Language(streams(), write(path, text), split=(0.5, 0.25, 0.25), **SHORT)
    assert track.vocabulary == 83
    track = Language(streams(), str(path), units="bytes", split=(0.4, 0.3, 0.3), **SHORT)
    letters = sorted(set(text.encode()))
    begin = len(text.encode()) - round(0.3 * len(text.encode()))
    assert track.vocabulary == len(letters)
    assert bytes(letters[i] for i in places(track, "test")[0]) == text.encode()[begin : begin + 5]
    path.write_bytes(bytes(range(256)))  # not UTF-8, and any file will do
    assert Language(streams(), str(path), units="bytes", **SHORT).vocabulary == 256


def test_a_users_mistakes_are_named(tmp_path: Path) -> None:
    latin = tmp_path / "latin"
    latin.write_bytes(b"one\ntwo\nth\xefree\n")
    cut = tmp_path / "cut"
    cut.write_bytes("aaa€".encode()[:-1])
    repeated = write(tmp_path / "r", "abcdefghij" * 100)
    mistakes = {
        "no such file": {"text": str(tmp_path / "none")},
        r"none: no such|is .*, no such file": {"text": str(tmp_path)},
        r"latin, which must be UTF-8: byte 10, in line 3, is 0xef, .*units=bytes": {
            "text": str(latin)
        },
        r"cut, which must be UTF-8: byte 3, in line 1, is 0xe2": {"text": str(cut)},
        r"has 0 characters, of which 0 are of train, and a window needs 5": {
            "text": write(tmp_path / "e", "")
        },
        r"has 40 characters, of which 4 are of validation": {
            "text": write(tmp_path / "s", alphabet(40))
        },
        r"of which 10 are of test@12, and a window needs 13": {
            "text": write(tmp_path / "m", alphabet(100)),
            "test_lengths": (3,),
        },
        r"every window of 5 from 800 to 900 of the text also stands before": {"text": repeated},
        "context is 0": {"context": 0},
        "train 0": {"train": 0},
        "validation 0": {"validation": 0},
        "test 0": {"test": 0},
        "sum of 1": {"split": (0.8, 0.1, 0.2)},
        "three shares > 0": {"split": (1.1, -0.2, 0.1)},
        "must name each once": {"test_lengths": (2, 2)},
    }
    for message, arguments in mistakes.items():
        with pytest.raises(ValueError, match=message) as error:
            Language(streams(), **{**SHORT, **arguments})
        assert "\n" not in str(error.value)
