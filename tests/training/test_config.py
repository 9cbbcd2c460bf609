"""What a configuration may be, what a run is called, and what its hashes are over."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from models.attention import Attention
from models.network import Network
from tests.conftest import ON_SEQUENCES, names
from tracks.sequence import Sequence
from training.build import build, build_network, build_track
from training.check import check
from training.config import config_hashes, run_identity, run_name, validated
from training.errors import UserError
from training.record import environment

Compose = Callable[..., DictConfig]

MISTAKES = {  # override → what the one line must say
    "gamma=0": "gamma must be greater than 0, found 0",
    "gamma=-1": "gamma must be greater than 0, found -1",
    "lr=abc": "lr must be a valid number, found 'abc'",
    "lr=true": "lr must be a valid number, found True",
    "lr=.nan": "lr must be a valid number, found '.nan'",
    "lr=nan": "lr must be a finite number, found nan",
    "seed=-1": "seed must be greater than or equal to 0, found -1",
    "seed=1.5": "seed must be a valid integer, found 1.5",
    "budget=0": "budget must be greater than 0, found 0",
    "tunable=[lr,budget]": "tunable names budget, which is swept as it is",
    "threads=100000": "threads must be less than or equal to 1024, found 100000",
    "analysis.alpha=1e-12": "analysis.alpha must be greater than or equal to 0.000000001",
    "design.kind=foo": "design.kind must be fixed or tuned, found 'foo'",
    "~design.kind": "design.kind is missing: must be fixed or tuned",
    "+design.seeds=[1]": "design.seeds is no key of this configuration",
    "+variant.fixed=1": "variant.fixed is no key of this configuration",
    "training.epochs=0": "training.epochs must be greater than or equal to 1, found 0",
    "optimizer.schedule=linear": "optimizer.schedule must be 'constant' or 'cosine'",
    "+optimizer.wieght_decay=1": "optimizer.wieght_decay is no key.*did you mean weight_decay",
    "+colour=red": "colour is no key of this configuration",
    "variant.positions=sinusoidal": "variant.positions must be 'learned' or 'none'",
    "model.heads=3": "model.heads is 3, must divide model.dim 64",
    "model.mlp=relu": "model: mlp is relu, must be null or one of gelu, swiglu",
    "tunable=[learning_rate]": "tunable names learning_rate",
    "tunable=[lr,seed]": "tunable names seed: must name each key once, and never the seed",
    "tunable=[lr,lr]": "tunable names lr: must name each key once",
    "tunable=[training]": "tunable names training, which must be a key with a number",
    "tunable=[lr,track]": "tunable names track, which is compared, not.*optimizer and model",
    "tunable=[variant]": "tunable names variant, which is compared, not tuned",
    "tunable=[optimizer,optimizer]": "tunable names optimizer: must name each key once",
    "variant.mixer._target_=os.system": "_target_ os.system is not allowed",
    "optimizer.algorithm.betas=[{_target_:os.system},1]": "_target_ os.system is not allowed",
    "optimizer.algorithm.betas=[{_target_:models.network.math.floor},1]": "must be a class, found",
    "+variant.mixer.heads=2": "variant.mixer.heads: Attention takes no heads",
    "+variant.mixer.bias.context=4": "variant.mixer.bias.context: LagTable takes no context",
    "+optimizer.algorithm.lr=9": "optimizer.algorithm.lr: AdamW takes no lr",
    "+optimizer.algorithm.weight_decay=9": "optimizer.algorithm.weight_decay: AdamW takes no",
    "+variant.signature.note=x": "variant.signature.note is no key",
    "+variant.signature.criteria.0.valu=1": "variant.signature.criteria.0.valu is no key.*value",
    "variant.mixer.bias.length=0": "variant.mixer: length is 0",
    "optimizer.algorithm._target_=subprocess.Popen": "_target_ subprocess.Popen is not allowed",
    "variant.mixer.bias._target_=builtins.eval": "_target_ builtins.eval is not allowed",
    "variant.mixer._target_=models.attention.nn.Linear": "lives in torch.nn",
    "variant.mixer._target_=models.attention.Atention": "Atention cannot be imported",
    "+variant.mixer.window=4": "variant.mixer.window: Attention takes no window; known: .*bias",
    "+variant.mixer.bias.lenght=4": "variant.mixer.bias.lenght: .*did you mean length",
    "variant.mixer.causal=maybe": "variant.mixer.causal must be a valid boolean, found 'maybe'",
    "track.noise=loud": "track.noise must be a valid number, found 'loud'",
    "track.context=1": "track: context is 1",
    "track.periods=[8]": r"track.periods must be tuple\[float, float\], found \[8\]",
    "track.periods=[1,2,3]": r"track.periods must be tuple\[float, float\], found \[1, 2, 3\]",
    "track.test_lengths=[2,2]": r"track: test_lengths is \[2, 2\], must name each once",
    "track.test_lengths=[0]": "must be whole multiples ≥ 1 of the context 32",
    "track.test_lengths=[4096]": "of at most 65536 tokens",
    "track.test_lengths=[1.5]": "track.test_lengths.*must be a valid integer",
    "track._target_=tracks.nope.X": "^track._target_ tracks.nope.X cannot be imported: Module",
    "variant.mixer.causal={_target_:models.no_mixer.NoMixer}": "causal must be a valid boolean",
    "+variant.mixer.rotation={_target_:models.lag_table.LagTable}": (
        "^variant.mixer.rotation must be a Rotation, found LagTable, which is none"
    ),
    "variant.mixer.bias.gamma=null": "variant.mixer.bias.gamma must be a valid number",
    "device=cuda": "device is cuda, but torch finds no CUDA device",
    "compile=maybe": "compile must be a valid boolean, found 'maybe'",
    "precision=float16": "precision must be 'float32' or 'bfloat16', found 'float16'",
    "optimizer.algorithm.betas=[2,3]": "optimizer.algorithm: Invalid beta parameter",
    "variant.signature.criteria.0.metric=table_distance": "did you mean table_distance_from_start",
}


@pytest.mark.parametrize("override", MISTAKES)
def test_a_mistake_is_one_line_that_names_the_key(composed: Compose, override: str) -> None:
    if override == "device=cuda" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(UserError, match=MISTAKES[override]) as error:
        check(validated(composed(override)))
    assert "\n" not in str(error.value)


def test_a_rank_that_is_not_below_the_axis_is_refused(composed: Compose) -> None:
    config = validated(composed("variant=tensor_mixer", "variant.mixer.rank=32"))
    with pytest.raises(
        UserError, match=r"variant\.mixer: rank is 32, .*below the length .*\(32,\)"
    ):
        build(config)


def test_a_hybrid_is_a_list_of_mixers_that_take_turns(composed: Compose) -> None:
    """Attention with a table, then without."""
    table = {"_target_": "models.lag_table.LagTable"}
    attention = {"_target_": "models.attention.Attention"}

    def checked(mixers: list[dict[str, object]], layers: int) -> Network:
        cfg = composed("variant.signature=null", f"model.layers={layers}")
        cfg.variant.mixer = mixers
        return check(validated(cfg))[1]

    two = [{**attention, "bias": table}, attention]
    assert [m.bias is not None for m in checked(two, 4).mixers] == [True, False, True, False]
    mistakes = [
        (two, 3, r"variant\.mixer: 2 mixers, whose number must divide model\.layers 3"),
        (
            [],
            2,
            r"variant\.mixer must be a class .*, or a list of one or more .*, found \[\]",
        ),
        ([[attention]], 2, r"variant\.mixer must be a class .*, or a list of one or more"),
        (
            {**attention, "bias": [table, table]},
            2,
            r"variant\.mixer\.bias must be a class with its keys .*, found \[\{",
        ),
        ([attention, {**attention, "windw": 3}], 2, r"variant\.mixer\[1\]\.windw: Attention takes"),
    ]
    for mixers, layers, line in mistakes:
        with pytest.raises(UserError, match=line) as error:
            checked(mixers, layers)
        assert "\n" not in str(error.value)


def test_a_criterion_that_could_not_fail_is_refused(composed: Compose) -> None:
    override = "variant.signature.criteria.0.metric=bias_max_slope"
    with pytest.raises(UserError, match="bias_max_slope could not be refuted"):
        check(validated(composed("variant=idea", override)))


@pytest.mark.parametrize("group", ["track", "variant", "optimizer", "model"])
def test_every_yaml_builds(composed: Compose, group: str) -> None:
    some = () if group == "variant" else ("variant=dense_attention",)  # built on any track
    for name in ON_SEQUENCES if group == "variant" else names(group):
        if name.endswith("_large"):  # of gigabytes: tests/tracks/test_every_track.py builds them
            continue
        track, network, start, optimizers = build(validated(composed(f"{group}={name}", *some)))
        trained = {id(p) for o in optimizers for g in o.param_groups for p in g["params"]}
        assert trained == {id(p) for p in network.parameters() if p.requires_grad}
        assert start is not network
        assert len(track.test) > 0


def test_seed_zero_is_a_seed(composed: Compose) -> None:
    zero, again, one = (validated(composed(f"seed={s}")) for s in (0, 0, 1))
    tracks = [build_track(c) for c in (zero, again, one)]
    assert tracks[0].train.inputs.equal(tracks[1].train.inputs)
    assert not tracks[0].train.inputs.equal(tracks[2].train.inputs)
    networks = [build_network(c, tracks[0]) for c in (zero, again, one)]
    assert networks[0].head.weight.equal(networks[1].head.weight)
    assert not networks[0].head.weight.equal(networks[2].head.weight)


def test_two_spellings_of_a_number_are_one_run(composed: Compose) -> None:
    one, two = composed("lr=3e-3", "gamma=1"), composed("lr=0.003", "gamma=1.0")
    assert run_name(_root_=one) == run_name(_root_=two)
    assert run_identity(one, {"track": "t", "variant": "v"}) == run_identity(
        two, {"track": "t", "variant": "v"}
    )
    assert config_hashes(one) == config_hashes(two)


def test_a_run_is_called_by_what_it_is(composed: Compose) -> None:
    cfg = composed("variant=idea", "seed=3", "lr=0.006", "gamma=0.5")
    assert run_name(_root_=cfg) == "sequence/idea/lr=0.006,gamma=0.5,mechanism_lr_scale=10/seed=3"
    assert OmegaConf.select(cfg, "hydra.sweep.subdir") == run_name(_root_=cfg)


def test_a_budget_is_who_a_run_is_and_not_how_it_is_set_up(composed: Compose) -> None:
    whole, same, half = composed(), composed("budget=1"), composed("budget=0.5")
    who = [run_identity(cfg, cfg.hydra.runtime.choices) for cfg in (whole, same, half)]
    assert who[0] == who[1]
    assert who[2] == who[0] | {"budget_factor": 0.5}
    name = run_name(_root_=whole)
    assert run_name(_root_=same) == name
    assert run_name(_root_=half) == name.replace("/seed=0", "/budget=0.5/seed=0")
    assert config_hashes(whole) == config_hashes(half)


def test_a_tunable_group_is_chosen_by_name(composed: Compose) -> None:
    adamw = composed("tunable=[lr,optimizer]", "lr=0.003")
    muon = composed("tunable=[lr,optimizer]", "lr=0.003", "optimizer=muon")
    assert run_identity(muon, muon.hydra.runtime.choices)["hyper"] == {
        "lr": 0.003,
        "optimizer": "muon",
    }
    assert run_name(_root_=muon) == "sequence/baseline/lr=0.003,optimizer=muon/seed=0"
    validated(muon)
    groups = ("track", "variant", "model", "optimizer", "training")
    one, two = config_hashes(adamw), config_hashes(muon)
    assert [one[group] for group in groups] == [two[group] for group in groups]


def test_an_edited_yaml_of_a_tunable_group_shows_all_the_same(composed: Compose) -> None:
    """The optimizer's name is who a run is; what it resolves to, how it was set up."""
    typed = ("tunable=[lr,optimizer]", "optimizer=muon")
    before = config_hashes(composed(*typed))
    after = config_hashes(composed(*typed, "optimizer.matrices.momentum=0.9"))
    assert {key for key in before if before[key] != after[key]} == {"tuned optimizer"}


def test_arms_that_resolve_alike_hash_alike_whatever_their_names(composed: Compose) -> None:
    assert config_hashes(composed("variant=baseline")) == config_hashes(
        composed("variant=lag_table")
    )
    assert config_hashes(composed("variant=idea")) == config_hashes(composed("variant=exp_mixture"))


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("track.noise=0.3", {"track"}),
        ("variant=idea", {"variant"}),
        ("variant.mixer.causal=false", {"variant"}),
        ("model.dim=32", {"model"}),
        ("optimizer=sgd", {"optimizer"}),
        ("training.epochs=3", {"training"}),
        ("compile=true", {"training"}),
        ("precision=bfloat16", {"training"}),
        ("lr=0.1", set()),  # tunable: part of who the run is, not of how it was set up
        ("gamma=2", set()),
        ("mechanism_lr_scale=3", set()),
        ("seed=5", set()),
        ("validations_per_epoch=2", set()),  # looking is not training
        ("log_steps=5", set()),
    ],
)
def test_a_change_shows_in_the_hash_of_its_group_alone(
    composed: Compose, override: str, changed: set[str]
) -> None:
    before, after = config_hashes(composed()), config_hashes(composed(override))
    assert {group for group in before if before[group] != after[group]} == changed


def test_experiments_name_yamls_that_exist_and_a_baseline_that_they_train() -> None:
    for name in names("experiment"):
        raw = OmegaConf.load(f"conf/experiment/{name}.yaml")
        variants = raw.hydra.sweeper.params.variant.split(",")
        assert raw.baseline in variants
        assert set(variants) <= set(names("variant"))


def test_a_learning_rate_that_is_not_tunable_is_part_of_how_a_run_was_set_up(
    composed: Compose,
) -> None:
    one = config_hashes(composed("tunable=[gamma]", "lr=0.1"))
    two = config_hashes(composed("tunable=[gamma]", "lr=0.2"))
    assert {group for group in one if one[group] != two[group]} == {"training"}


def test_a_table_shorter_than_the_context_can_be_asked_for(composed: Compose) -> None:
    _, network, _, _ = build(validated(composed("variant.mixer.bias.length=4")))
    assert [tuple(b.mixer.bias.table.shape) for b in network.blocks] == [(4, 4), (4, 4)]


def test_dropout_draws_alike_in_every_arm(composed: Compose) -> None:
    draws = []
    for variant in ("baseline", "tensor_mixer", "no_mixer"):
        build(validated(composed(f"variant={variant}")))
        draws.append(torch.rand(3).tolist())
    assert draws[0] == draws[1] == draws[2]


@pytest.mark.parametrize(
    ("variant", "refused"), [("baseline", False), ("dense_attention", True), ("half", True)]
)
def test_a_track_may_require_causal_mixers(
    composed: Compose, monkeypatch: pytest.MonkeyPatch, variant: str, refused: bool
) -> None:
    monkeypatch.setattr(Sequence, "requires_causal", True)
    if variant == "half":  # of two blocks, one looks ahead
        causal = iter([True, False] * 4)
        made = Attention.__init__

        def half(self: Attention, *args: object, **kwargs: object) -> None:
            made(self, *args, **kwargs)  # type: ignore[arg-type]
            self.causal = next(causal)

        monkeypatch.setattr(Attention, "__init__", functools.wraps(made)(half))
    config = validated(composed("variant=baseline" if variant == "half" else f"variant={variant}"))
    if not refused:
        check(config)
        return
    with pytest.raises(UserError, match="Sequence requires mixers that are causal, and Attention"):
        check(config)


def test_the_environment_of_a_run(composed: Compose) -> None:
    config = validated(composed("compile=true", "precision=bfloat16"))
    found = environment(config, torch.device("cpu"))
    assert set(found) == {
        *("python", "torch", "numpy", "machine", "device", "threads", "compiled", "precision"),
        "commit",
    }
    assert (found["device"], found["compiled"], found["precision"]) == ("cpu", True, "bfloat16")
    assert found["torch"] == torch.__version__
