"""Where the spread of the differences comes from, against simulations whose answer is known."""

import math

import numpy as np
import pytest
from scipy import stats

from analysis.judge.noise import (
    block_interval,
    examples_for,
    noise,
    sd_interval,
    sd_with,
    variance_of_mean,
)
from tests.analysis.builder import analysed, as_older, grid, pick, write_examples, write_sweep

WINDOWS = {  # length of a window, their number, what of a window its score looks at
    "independent": (1, 50, 1),
    "whole windows": (20, 300, 20),
    "horizons": (20, 300, 4),
    "few": (20, 140, 20),
}


def windows(generator, samples, length, n, seen):
    """Means over the last `seen` values of overlapping windows, (samples, n)."""
    values = generator.normal(size=(samples, n + length - 1))
    total = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    return ((total[:, seen:] - total[:, :-seen]) / seen)[:, -n:]


@pytest.mark.parametrize("kind", WINDOWS)
def test_the_variance_of_a_mean_is_within_15_percent_on_average(kind):
    length, n, seen = WINDOWS[kind]
    found = windows(np.random.default_rng(0), 4000, length, n, seen)
    estimates = [variance_of_mean(each, length) for each in found[:1500]]
    assert np.mean(estimates) == pytest.approx(found.mean(1).var(), rel=0.15)
    if seen > 1:  # as if they were apart
        assert np.mean(found[:1500].var(1, ddof=1)) / n < 0.4 * found.mean(1).var()


def test_without_overlap_it_is_the_variance_over_n():
    values = np.random.default_rng(1).normal(size=30)
    assert variance_of_mean(values, 1) == pytest.approx(values.var(ddof=1) / 30)


@pytest.mark.parametrize("kind", WINDOWS)
def test_the_interval_over_examples_covers(kind):
    length, n, seen = WINDOWS[kind]
    found = windows(np.random.default_rng(2), 150, length, n, seen) + 5
    intervals = [block_interval(each, length) for each in found]
    assert 0.85 <= np.mean([low <= 5 <= high for low, high in intervals]) <= 0.99
    assert intervals[0] == block_interval(found[0], length)  # the same again


def test_the_interval_of_examples_apart_is_students():
    values = np.random.default_rng(3).normal(size=100)
    low, high = block_interval(values, 1)
    half = stats.t.ppf(0.975, 99) * values.std(ddof=1) / 10
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)
    many = np.random.default_rng(4).normal(size=5003)  # in blocks, and a rest of them
    low, high = block_interval(many, 1)
    half = 1.96 * many.std(ddof=1) / math.sqrt(5003)
    assert (low + high) / 2 == pytest.approx(many.mean(), abs=0.1 * half)
    assert high - low == pytest.approx(2 * half, rel=0.12)


def test_the_interval_of_a_standard_deviation_covers_it():
    found = np.random.default_rng(5).normal(size=(2000, 8)).std(1, ddof=1)
    intervals = [sd_interval(float(sd), 8) for sd in found]
    assert np.mean([low <= 1 <= high for low, high in intervals]) == pytest.approx(0.95, abs=0.02)
    assert sd_interval(1.0, 8) == pytest.approx((0.6612, 2.0353), abs=1e-4)  # as in any table


def simulated(seeds, n, training, *, spread=1.0, seed=0):
    """Differences of so many seeds: training noise of this sd, examples of `spread`."""
    generator = np.random.default_rng(seed)
    examples = spread * generator.normal(size=(seeds, n))
    examples += training * generator.normal(size=(seeds, 1))
    return examples.mean(1), list(examples)


def apart(seeds):
    return [(f"d{seed}", f"d{seed}") for seed in range(seeds)]


def test_the_parts_are_those_that_were_put_in():
    d, examples = simulated(400, 100, training=0.2)
    found = noise(d, examples, [0] * 800, apart(400))
    assert (found.examples, found.block, found.is_fixed, found.unknown) == (100, 1, False, None)
    assert found.sd == pytest.approx(d.std(ddof=1))
    assert found.from_examples == pytest.approx(0.01, rel=0.05)
    assert found.from_training == pytest.approx(0.04, rel=0.2)
    assert found.from_examples + found.from_training == pytest.approx(found.sd**2)
    assert found.share_of_examples == pytest.approx(found.from_examples / found.sd**2)
    low, high = found.share_interval
    assert low < found.share_of_examples < high
    assert low == pytest.approx(found.from_examples / found.sd_interval[1] ** 2)


def test_a_share_is_at_most_all():
    d, examples = simulated(8, 50, training=0.0)
    found = noise(d / 10, examples, [0] * 16, apart(8))  # less spread than examples alone give
    assert (found.share_of_examples, found.from_training) == (1.0, 0.0)
    assert found.share_interval[1] == 1.0


def test_on_fixed_data_there_is_an_interval_and_no_share():
    d, examples = simulated(8, 400, training=0.2)
    found = noise(d, examples, [0] * 16, [("one", "one")] * 8)
    assert found.is_fixed
    assert found.unknown is found.share_of_examples is found.from_examples is None
    low, high = found.examples_interval
    assert low < d.mean() < high
    assert high - low == pytest.approx(2 * 1.96 / math.sqrt(8 * 400), rel=0.2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"examples": None}, "not every run kept"),
        ({"examples": 10}, "not every run kept"),
        ({"overlap": None}, "overlap is not recorded"),
        ({"overlap": 3}, "overlap is not recorded"),
        ({"data": ("d0", "other")}, "the arms of a pair"),
        ({"data": ("d1", "d1")}, "some seeds share"),
    ],
)
def test_what_is_not_known_says_why(change, told):
    d, examples = simulated(8, 50, training=0.2)
    overlaps, data = [0] * 16, apart(8)
    if "examples" in change:
        size = change["examples"]
        examples[0] = None if size is None else examples[0][:size]
    if "overlap" in change:
        overlaps[0] = change["overlap"]
    if "data" in change:
        data[0] = change["data"]
    found = noise(d, examples, overlaps, data)
    assert told in found.unknown
    assert found.share_of_examples is found.share_interval is found.examples_interval is None
    assert found.sd == pytest.approx(d.std(ddof=1))


@pytest.mark.parametrize("fixed", [True, False])
def test_too_few_blocks_tell_nothing(fixed):
    data = [("one", "one")] * 8 if fixed else apart(8)
    d, examples = simulated(8, 49, training=0.2)
    found = noise(d, examples, [9] * 16, data)
    assert found.unknown == "49 test examples, fewer than 5 blocks of 10"
    d, examples = simulated(8, 50, training=0.2)
    assert noise(d, examples, [9] * 16, data).unknown is None


def test_without_spread_there_is_no_noise():
    assert noise(np.array([0.1]), [np.ones(9)], [0, 0], apart(1)) is None
    assert noise(np.array([0.1, 0.1]), [np.ones(9)] * 2, [0] * 4, apart(2)) is None


def test_the_examples_that_a_share_needs():
    d, examples = simulated(8, 50, training=0.2)
    found = noise(d, examples, [0] * 16, apart(8))
    needed = examples_for(found, 0.25)

    def share(examples):
        part = found.from_examples * 50 / examples
        return part / (part + found.from_training)

    assert share(needed) <= 0.25 < share(needed - 1)
    part = found.from_examples * 50 / needed
    assert sd_with(found, needed) == pytest.approx(math.sqrt(part + found.from_training))
    assert sd_with(found, 50) == pytest.approx(found.sd)
    assert examples_for(noise(d / 10, examples, [0] * 16, apart(8)), 0.25) is None


def test_from_the_files_of_a_sweep(tmp_path):
    """The deciding metric's examples, of the selected runs, paired by seed."""
    records = grid(seeds=range(6))
    sweep = write_sweep(tmp_path / "sweep", records)
    generator = np.random.default_rng(6)
    differences = {}
    for seed in range(6):
        one, idea = (generator.normal(size=40) for _ in range(2))
        for arm, found in (("baseline", one), ("idea", idea)):
            [run] = pick(records, arm, seed)
            score = run["scores"]["test"]
            at = sweep / f"{records.index(run):04d}-{arm}-{seed}"
            found[:] = (score + found - found.mean()).astype(np.float32)
            write_examples(at, **{"test/mse": found, "test/mae": np.ones(40)})
        differences[seed] = idea - one
    [judged] = analysed(sweep)
    found = judged.comparison.effect.noise
    expected = np.mean([each.var(ddof=1) / 40 for each in differences.values()])
    assert found.examples == 40
    assert found.from_examples == pytest.approx(expected, rel=1e-9)
    assert found.sd == pytest.approx(judged.comparison.effect.d.std(ddof=1))


def test_older_records_do_not_tell(tmp_path):
    records = grid(seeds=range(6))
    for run in records:
        as_older(run)
    [judged] = analysed(write_sweep(tmp_path, records))
    assert "not recorded" in judged.comparison.effect.noise.unknown
