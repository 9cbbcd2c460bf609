"""What is typed, and what of it Hydra is given: or the line that says why not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from sweeping.arguments import axes, combinations, meant, understood
from tests.conftest import names
from training.errors import UserError, readable

EIGHT = "seed=0,1,2,3,4,5,6,7"
FROM_BASH = [f"seed={seed}" for seed in range(8)]  # seed={0..7}


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        (["-m", "seed=0-7"], ["-m", EIGHT]),
        (["-m", "seed=0-3,8"], ["-m", "seed=0,1,2,3,8"]),
        (["-m", "seed=3-3"], ["-m", "seed=3"]),
        (["-m", "seed=20000-20001"], ["-m", "seed=20000,20001"]),
        (["seed=3-3", "lr=0.1"], ["seed=3", "lr=0.1"]),
        (["-m", "seed=range(8)"], ["-m", "seed=range(8)"]),  # as it always was
        (["-m", "seed=shuffle(range(8))"], ["-m", "seed=shuffle(range(8))"]),
        (["-m", "lr=1,2", *FROM_BASH, "gamma=3"], ["-m", "lr=1,2", EIGHT, "gamma=3"]),
        (["-m", "seed=0,1", "seed=2,3"], ["-m", "seed=0,1,2,3"]),
        (["-m", "seed=0-2", "lr=1", "seed=range(1,4)"], ["-m", "seed=0,1,2,3", "lr=1"]),
        (["seed=4", "seed=4"], ["seed=4"]),
        (["seed=1", "variant=mine/idea", "lr=2"], ["seed=1", "variant=mine/idea", "lr=2"]),
        (["variant=idea", "-m", "seed=1"], ["-m", "variant=idea", "seed=1"]),
        (["experiment=aa", "lr=1,2"], ["-m", "experiment=aa", "lr=1,2"]),
        (["--cfg", "job", "experiment=aa"], ["--cfg", "job", "experiment=aa"]),
        (["hydra.mode=RUN", "experiment=aa"], ["hydra.mode=RUN", "experiment=aa"]),
        (["hydra.mode=MULTIRUN", "seed=0-1"], ["hydra.mode=MULTIRUN", "seed=0,1"]),
        (["experiment=null"], ["experiment=null"]),
        (["-m", "variant=glob(*)"], ["-m", "variant=glob(*)"]),
        (["-m", "~variant.signature", "+variant.signature=null"], None),
        (["-m", "track.noise=1,2"], ["-m", "track.noise=1,2"]),
        (["analysis.tuning_seeds=0-3"], ["analysis.tuning_seeds=[0,1,2,3]"]),
        (["-m", "analysis.tuning_seeds=0-3,7"], ["-m", "analysis.tuning_seeds=[0,1,2,3,7]"]),
        (["analysis.tuning_seeds=[0-1,7]"], ["analysis.tuning_seeds=[0,1,7]"]),
        (["analysis.tuning_seeds=2"], ["analysis.tuning_seeds=[2]"]),
        (["analysis.tuning_seeds=[]"], ["analysis.tuning_seeds=[]"]),
        (["analysis.tuning_seeds=x"], ["analysis.tuning_seeds=x"]),  # for the check of its type
        (["~variant.frozen"], ["~variant.frozen"]),  # a single run is composed with its own arm
        (["variant.frozen=true"], ["variant.frozen=true"]),
        (["reuse=../a.yaml"], ["reuse=../a.yaml"]),  # no group, and so a path like any other
        (["-m", "hydra.launcher.workers=2"], ["-m", "hydra.launcher.workers=2"]),
        (["--help", "lr=1", "lr=2"], ["--help", "lr=1", "lr=2"]),
        (["-sc", "query=bash"], ["-sc", "query=bash"]),
    ],
)
def test_what_is_typed_is_done_as_meant(typed: list[str], given: list[str] | None) -> None:
    found = meant(typed)
    assert given is None or found == given
    assert meant(found) == found  # a command that was printed can be given again


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("seed=0-7", "seed=0-7 is a sweep, which wants -m: python train.py -m seed=0-7 …$"),
        ("lr=range(3)", r"is a sweep, which wants -m: python train.py -m lr=range\(3\) …$"),
        ("seed=0 seed=1", "seed=0 seed=1 is a sweep, which wants -m"),
        ("lr=0.1,0.2", r"lr=0.1,0.2 is a sweep, which wants -m.*\(a list is lr=\[a,b\]\)"),
        ("--cfg job seed=0-7", "seed=0-7: --cfg shows one run; give seed one value"),
        ("-m seed=7-0", "seed=7-0: a range must rise, as seed=0-7"),
        ("-m seed=0-10000", "seed=0-10000 sweeps over more than 10000 values"),
        ("-m seed=0-9999 seed=10000", "seed=0-9999 seed=10000 sweeps over more than 10000"),
        ("-m seed=range(1000000000)", "sweeps over more than 10000 values"),
        ("-m lr=range(0,1,0.00001)", "sweeps over more than 10000 values"),
        ("-m seed=range(0)", r"seed=range\(0\) is a sweep over nothing"),
        ("-m seed=0 seed=range(0)", r"seed=range\(0\) is a sweep over nothing"),
        ("-m lr=range(1.0,0.5)", "is a sweep over nothing"),
        ("-m seed=range(0,8,0)", r"seed=range\(0,8,0\): range\(\) arg 3 must not be zero"),
        ("-m seed=0-1,range(2)", r"seed=0-1,range\(2\): a range cannot stand in a list: write"),
        ("-m lr=1,range(2)", r"lr=1,range\(2\): a range cannot stand in a list"),
        ("-m lr=interval(0,1)", r"lr=interval\(0,1\) has no end of values: list those to try"),
        ("analysis.tuning_seeds=3-0", "tuning_seeds=3-0: a range must rise, as analysis.tuning_"),
        ("-m lr=0.1 lr=0.2", "lr=0.1 lr=0.2: lr is given twice.*sweep over both: lr=0.1,0.2"),
        ("-m variant=idea seed=0 variant=twin", "variant is given twice.*variant=idea,twin"),
        ("-m track.noise=1 ++track.noise=2", "track.noise is given twice"),
        ("hydra.sweep.dir=a hydra.sweep.dir=b", "hydra.sweep.dir is given twice; say it once$"),
        (
            "-m variant=baseline,../../conf/variant/idea",
            "variant=../../conf/variant/idea: must be the name of a YAML in conf/variant, .*"
            "did you mean idea.*known: .*baseline",
        ),
        ("variant=../variant/idea", "variant=../variant/idea: must be the name"),
        ("variant=./idea", "variant=./idea: must be the name"),
        ("variant=mine/../idea", "must be the name"),
        ("track=/tmp/series", "track=/tmp/series: must be the name of a YAML in conf/track"),
        ("variant=idea.yaml", "variant=idea.yaml: must be the name.* did you mean idea"),
        ("hydra/launcher=./ray", "must be the name of a YAML in conf/hydra/launcher"),
    ],
)
def test_what_cannot_be_meant_is_one_line(typed: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        meant(typed.split())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "value",
    [
        *("4", "null", "true", "1e-3", "'1'", "'null'", "'a b'", '"x: y"', "'a,b'", "a\\=b", ""),
        *("[1,2]", "[]", "{a:1,b:[2,'3']}", "${lr}", "int(3)", "str(1)", "'it\\'s'", "'a\\\\'"),
    ],
)
@pytest.mark.parametrize("key", ["variant.mixer.rank", "+variant.mixer.rank", "++model.dim"])
def test_a_key_below_a_group_is_left_to_each_run_as_it_was_typed(key: str, value: str) -> None:
    typed = f"{key}={value}"
    _, given = meant(["-m", typed])
    [override] = OverridesParser.create().parse_overrides([given])
    assert override.is_sweep_override()  # which Hydra leaves out of what all runs share
    assert override.get_key_element() == key
    [again] = understood([given])
    assert again.input_line == typed
    assert meant([typed]) == [typed]  # a single run is composed with its own arm


@pytest.mark.parametrize(
    "typed", ["~variant.mixer.rank", "~variant.mixer.rank=4", "~variant.a='b'"]
)
def test_a_deletion_below_a_group_is_left_to_each_run(typed: str) -> None:
    given = meant(["-m", typed])
    assert meant(given) == given
    [override] = OverridesParser.create().parse_overrides(given[1:])
    assert override.is_sweep_override()  # which Hydra leaves out of what all runs share
    [again] = understood(given[1:])
    assert again.is_delete()
    assert again.input_line == typed


def grid(*typed: str, **params: str) -> list[list[str]]:
    return combinations(axes(params, typed, None))  # type: ignore[arg-type]  # which lists what globs mean


def test_every_value_is_combined_with_every_other() -> None:
    assert grid("lr=1,2", "seed=3,4", "gamma=5") == [
        ["lr=1", "seed=3", "gamma=5"],
        ["lr=1", "seed=4", "gamma=5"],
        ["lr=2", "seed=3", "gamma=5"],
        ["lr=2", "seed=4", "gamma=5"],
    ]
    assert grid("gamma=range(2)") == [["gamma=0"], ["gamma=1"]]
    assert grid() == [[]]


def test_the_command_line_replaces_a_key_of_an_experiment() -> None:
    assert grid("lr=3", "gamma=4", seed="7", lr="1,2") == [["seed=7", "lr=3", "gamma=4"]]


def test_an_experiment_says_its_seeds_in_the_same_words() -> None:
    assert [run[0] for run in grid(seed="0-3,8")] == [f"seed={seed}" for seed in (0, 1, 2, 3, 8)]
    for wrong in ({"seed": "3-0"}, {"seed": "range(0)"}, {"variant": "baseline,../x"}):
        with pytest.raises(UserError, match=r"must|nothing"):
            grid(**wrong)
    for name in names("experiment"):
        experiment = OmegaConf.load(f"conf/experiment/{name}.yaml")
        if {"override /design": "tuned"} in experiment.defaults:
            continue  # the design says them
        params = experiment.hydra.sweeper.params
        assert {"seed=0", "seed=7"} < {override for run in grid(**params) for override in run}


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("variant=ideal", "variant=ideal: no such variant; did you mean idea? known: alibi, "),
        ("experiment=lagbias", "experiment=lagbias: no such experiment; did you mean lag_bias?"),
        ("hydra/launcher=slurm", "hydra/launcher=slurm: no such hydra/launcher; "),
        ("trainig.epochs=3", "(trainig is none); did you mean training? known: allow, analysis, "),
        (
            "training.epoch=3",
            "training.epoch is no key of this configuration; did you mean epochs?",
        ),
        ("variant.mixer.bais.length=3", "(variant.mixer.bais is none); did you mean bias? known: "),
        ("lr.x=3", "lr.x is no key of this configuration: lr has no keys"),
        ("variat=idea", "variat is no key of this configuration; did you mean variant?"),
    ],
)
def test_a_mistyped_name_is_told_with_what_is_close(
    composed: Callable[..., DictConfig], override: str, says: str
) -> None:
    with pytest.raises(HydraException) as error:
        composed(override)
    told = readable(error.value)
    assert says in told
    assert "hydra," not in told
    assert "\n" not in told
