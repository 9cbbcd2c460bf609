"""What every variant's YAML must build: a new one is tested by being there."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from hydra.utils import get_class
from omegaconf import DictConfig

from models.mixer import Mixer
from models.network import Network, mechanism_parameters, mechanisms
from tests.conftest import ON_SEQUENCES, ROOT, SMALL, names
from tracks.track import Track
from training.build import build
from training.config import ASIDE, Config, validated
from training.observe import by_construction, gathered, holds, observe
from training.probes.ablation import outermost, without
from training.probes.causal import causal
from training.probes.trained import Trained

Built = tuple[Config, Track, Network]
OTHERWISE = {  # what a YAML is there to say otherwise
    *(("variant", "dense_attention", "causal"), ("variant", "dense_lag_table", "causal")),
}


@pytest.fixture(params=ON_SEQUENCES)
def variant(request: pytest.FixtureRequest, composed: Callable[..., DictConfig]) -> Built:
    config = validated(composed(f"variant={request.param}", *SMALL))
    track, network, _, _ = build(config)
    return config, track, network


def test_maps_tokens_to_tokens(variant: Built) -> None:
    config, track, network = variant
    outputs = network(track.train.inputs[:3])
    assert outputs.shape == (3, 32, config.track["horizon"])
    assert all(isinstance(m, Mixer) for m in network.mixers)
    assert len(network.mixers) == config.model.layers


def test_is_causal_if_it_claims_to_be(variant: Built) -> None:
    _, track, network = variant
    claims = all(m.causal for m in network.mixers)
    assert causal(Trained(network, track, {}, finished=True)) is (True if claims else None)


def test_every_trainable_parameter_is_reached_by_the_loss(variant: Built) -> None:
    _, track, network = variant
    predictions = track.readout(network(track.train.inputs))
    track.loss(predictions, track.train.targets).mean().backward()
    for name, parameter in network.named_parameters():
        if parameter.requires_grad and not name.endswith("qkv.bias"):  # keys' part is softmax-free
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name


def test_taking_the_mechanism_out_changes_the_outputs_and_putting_it_back_restores_them(
    variant: Built,
) -> None:
    _, track, network = variant
    with torch.no_grad():
        for mechanism in mechanisms(network).values():
            for parameter in mechanism.parameters():
                parameter.add_(torch.rand(parameter.shape))
    before = network(track.test.inputs)
    with without(network, outermost(network)):
        bare = network(track.test.inputs)
    assert torch.equal(network(track.test.inputs), before)
    assert torch.equal(bare, before) is not bool(mechanisms(network))


def test_criteria_name_metrics_that_are_observed_and_could_fail(variant: Built) -> None:
    config, track, network = variant
    if config.variant.signature is None:
        pytest.skip("this variant predicts nothing")
    blocks = observe(network, network, track)
    observed, certain = gathered(blocks), by_construction(network, blocks)
    assert certain.keys() <= observed.keys()
    for criterion in config.variant.signature.criteria:
        assert criterion.metric in observed
        assert criterion.metric not in certain
        # before training, not one of the predictions has come true
        assert not holds(criterion, observed[criterion.metric])


def test_parameters_that_two_variants_share_start_bitwise_equal(
    variant: Built, composed: Callable[..., DictConfig]
) -> None:
    _, _, baseline, _ = build(validated(composed(*SMALL)))
    ours, theirs = dict(variant[2].named_parameters()), dict(baseline.named_parameters())
    own = mechanism_parameters(variant[2])
    shared = [n for n in ours if n in theirs and n not in own and ours[n].shape == theirs[n].shape]
    assert "embed.weight" in shared
    assert "head.weight" in shared
    if variant[0].variant.initial_stream != "initialisation":  # it says that it starts elsewhere
        assert not torch.equal(ours["embed.weight"], theirs["embed.weight"])
        return
    for name in shared:
        assert torch.equal(ours[name], theirs[name]), name


def test_what_a_mechanism_shares_with_another_starts_bitwise_equal(
    composed: Callable[..., DictConfig],
) -> None:
    _, _, one, _ = build(validated(composed(*SMALL, "variant=idea")))
    _, _, other, _ = build(validated(composed(*SMALL, "variant=exp_mixture_frozen")))
    for name, parameter in mechanism_parameters(one).items():
        assert torch.equal(parameter, mechanism_parameters(other)[name]), name


def test_another_seed_starts_elsewhere(variant: Built, composed: Callable[..., DictConfig]) -> None:
    _, _, other, _ = build(validated(composed(*SMALL, "seed=1")))
    assert not torch.equal(variant[2].embed.weight, other.embed.weight)


@pytest.mark.parametrize(
    ("group", "name"), [(g, n) for g in ("track", "variant") for n in names(g)], ids=str
)
def test_a_constructors_defaults_are_those_of_the_yaml(
    composed: Callable[..., DictConfig], group: str, name: str
) -> None:
    """So that a class means the same, whether its YAML spells a key out or not."""
    if "defaults:" in (ROOT / "conf" / group / f"{name}.yaml").read_text():
        pytest.skip("stands over another YAML, to say something else")
    found = validated(composed(f"{group}={name}"))
    nodes = [found.track if group == "track" else found.variant.mixer]
    while nodes:
        node = nodes.pop()
        defaults = inspect.signature(get_class(node["_target_"])).parameters
        for key, value in node.items():
            if isinstance(value, dict):
                nodes.append(value)
            elif key not in ("_target_", *ASIDE) and (group, name, key) not in OTHERWISE:
                said = defaults[key].default
                assert (list(said) if isinstance(said, tuple) else said) == value, key
