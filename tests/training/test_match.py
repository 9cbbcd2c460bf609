"""Arms of one declared size: met within 1 %, by the width of the MLPs, and no other difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from tests.conftest import ON_SEQUENCES
from training.build import build
from training.config import config_hashes, validated
from training.cost import cost
from training.errors import UserError
from training.run import train_one

Compose = Callable[..., DictConfig]
# the smaller mixers need the wider MLPs; twice over: swiglu has three matrices
SIZES = [("parameters", 120_000, "parameters"), ("flops", 9e6, "flops_per_example")]


@pytest.mark.parametrize("mlp", ["gelu", "swiglu"])
@pytest.mark.parametrize(("key", "target", "counted"), SIZES)
@pytest.mark.parametrize("variant", ON_SEQUENCES)
def test_every_arm_meets_the_declared_size(
    composed: Compose, variant: str, key: str, target: float, counted: str, mlp: str
) -> None:
    said = (f"variant={variant}", f"match.{key}={target}", f"model.mlp={mlp}", "track.train=64")
    config = validated(composed(*said))
    track, network, start, _ = build(config)
    seen = cost(network, track, config.training.batch_size)
    assert seen[counted] == pytest.approx(target, rel=0.01)
    assert network.mlp_width == start.mlp_width == seen["mlp_width"]


@pytest.mark.parametrize(
    ("said", "by"),
    [
        # widths of 1 leave 2 (2·64 + 1) − 1 parameters of the MLPs: all else is in the mixers
        (("match.parameters=20000",), "width 1 this network is nearest to it, 86.3% above"),
        (
            ("match.parameters=409", "model.dim=4", "model.heads=2", "variant=no_mixer"),
            "with MLPs of width 10 this network is nearest to it, 1.2% below",
        ),
    ],
)
def test_a_size_that_cannot_be_met_is_told_by_how_much(
    composed: Compose, said: tuple[str, ...], by: str
) -> None:
    with pytest.raises(UserError, match=r"^match\.parameters is \d+: .*must be within 1%") as told:
        build(validated(composed(*said)))
    assert by in str(told.value)


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (("match.parameters=1000", "match.flops=1e6"), "both given"),
        (("match.parameters=1e5",), "match.parameters must be a valid integer"),
        (("match.flops=0",), "match.flops must be greater than 0"),
        (("match.parameters=120000", "tunable=[match.parameters]"), "all arms share"),
    ],
)
def test_what_cannot_be_declared(composed: Compose, said: tuple[str, ...], wrong: str) -> None:
    with pytest.raises(UserError, match=wrong):
        validated(composed(*said))


def test_a_network_without_mlps_has_no_width_to_choose(composed: Compose) -> None:
    with pytest.raises(UserError, match=r"model\.mlp is null"):
        build(validated(composed("match.flops=9e6", "model.mlp=null")))


def test_what_is_hashed_is_the_size_that_was_declared(composed: Compose) -> None:
    """Two arms of one size are set up alike, whatever widths were solved for."""
    plain, sized, other = (
        config_hashes(composed("track.train=64", *said))
        for said in ((), ("match.parameters=120000",), ("match.parameters=130000",))
    )
    assert len({each["model"] for each in (plain, sized, other)}) == 3
    assert plain | {"model": ""} == sized | {"model": ""}


def test_the_width_is_in_the_record(composed: Compose, tmp_path: Path) -> None:
    small = ("track.train=32", "track.test=8", "track.validation=8", "training.epochs=1")
    of = {}
    for variant in ("dense_attention", "no_mixer"):
        said = (f"variant={variant}", "match.parameters=120000", *small)
        of[variant] = train_one(composed(*said), tmp_path / variant)
    widths = {variant: record["cost"]["mlp_width"] for variant, record in of.items()}
    assert widths == {"dense_attention": 323, "no_mixer": 452}  # by hand: + 258 a unit of width
    one, other = (record["hashes"]["config"]["model"] for record in of.values())
    assert one == other
