"""Contexts longer than those trained on: what promises them is scored there, all else refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from models.attention import Attention
from models.exp_mixture import ExpMixture
from models.lag_bias import LagBias
from tests.conftest import GRID_MIXERS, ON_SEQUENCES, small
from tracks import sequence
from tracks.track import Track
from training.build import build
from training.check import check
from training.config import validated
from training.errors import UserError
from training.fit import evaluate
from training.run import train_one

Compose = Callable[..., DictConfig]
SHORT = ("track.context=8", "track.horizon=4", "training.epochs=1")
LONGER = ("track.test_lengths=[4]", "variant.positions=none")


@pytest.mark.parametrize("variant", [v for v in ON_SEQUENCES if v not in GRID_MIXERS])
def test_what_promises_any_length_is_scored_at_longer_contexts(
    composed: Compose, tmp_path: Path, variant: str
) -> None:
    cfg = composed(*small(f"variant={variant}", *SHORT, *LONGER, "save_weights=true"))
    _, network = check(validated(cfg))
    assert all(mixer.any_length for mixer in network.mixers)
    record = train_one(cfg, tmp_path)
    assert list(record["scores"]) == ["validation", "test", "test@32"]
    assert set(record["secondary"]["mae"]["scores"]) == {"validation", "test", "test@32"}

    # Once more, of the trained weights in a network that was built for the longer context.
    longer = ["track.context=32", "track.horizon=4", "training.epochs=1", "variant.positions=none"]
    for slot in ("", ".bias", ".rotation"):  # what knows the length that it was trained for
        if "length" in (OmegaConf.select(cfg, f"variant.mixer{slot}") or {}):
            trained = 4 if variant == "lag_table_half" else 8
            longer.append(f"variant.mixer{slot}.length={trained}")
    track, _, _, _ = build(validated(cfg))
    _, peer, _, _ = build(validated(composed(*small(f"variant={variant}", *longer))))
    peer.load_state_dict(torch.load(tmp_path / "weights.pt"))
    expected = evaluate(peer, track, track.splits["test@32"])["mse"].double().mean().item()
    assert record["scores"]["test@32"] == pytest.approx(expected, rel=1e-5)


def table(bias: LagBias, lag: int) -> list[float]:
    """The last entry stands for all lags beyond the table."""
    return [bias.gamma * row[min(lag, len(row) - 1)] for row in bias.table.tolist()]


def mixture(bias: ExpMixture, lag: int) -> list[float]:
    found = []
    for logits, log_rates in zip(bias.logits.tolist(), bias.log_rates.tolist(), strict=True):
        weights = [math.exp(w) for w in logits]
        decayed = [
            w * math.exp(-math.exp(r) * lag) for w, r in zip(weights, log_rates, strict=True)
        ]
        found.append(bias.gamma * math.log(sum(decayed) / sum(weights)))
    return found


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("variant", "by_hand"), [("baseline", table), ("idea", mixture)])
def test_lag_biases_at_longer_contexts_are_those_of_the_definition(
    composed: Compose,
    variant: str,
    by_hand: Callable[[LagBias, int], list[float]],
    causal: bool,
) -> None:
    arguments = (f"variant={variant}", *SHORT, "gamma=0.6", "variant.positions=none")
    config = validated(composed(*small(*arguments, f"variant.mixer.causal={str(causal).lower()}")))
    _, network, _, _ = build(config)
    attention = network.mixers[0]
    assert isinstance(attention, Attention)
    torch.manual_seed(0)
    for parameter in attention.bias.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = torch.randn(2, 20, 16)
    q, k, _ = attention.project(x)
    expected = torch.tensor(
        [
            [
                [-math.inf] * 2 if causal and j > i else by_hand(attention.bias, abs(i - j))
                for j in range(20)
            ]
            for i in range(20)
        ]
    ).permute(2, 0, 1)
    torch.testing.assert_close(attention.mask(q, k, x)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ("variant=baseline",),
            r"variant\.positions is learned, for 8 tokens, and test@32 has 32: say "
            r"variant\.positions=none, .* or take out that split",
        ),
        (
            ("variant=tensor_mixer", "variant.positions=none"),
            r"variant\.mixer: TensorMixer is built for 8 tokens, and test@32 has 32: take one "
            r"that promises any length \(any_length\), or take out that split",
        ),
    ],
)
def test_what_was_built_for_one_length_is_refused_in_one_line(
    composed: Compose, overrides: tuple[str, ...], line: str
) -> None:
    cfg = composed(*small(*overrides, *SHORT, "track.test_lengths=[4]"))
    with pytest.raises(UserError, match=line) as error:
        check(validated(cfg))
    assert "\n" not in str(error.value)


def test_learned_positions_go_as_far_as_they_were_learned(
    composed: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence, "longer", lambda context, multiples: {"test@4": 4})
    track, _ = check(validated(composed(*small(*SHORT))))
    assert track.tests["test@4"].inputs.shape[1] == 4


def test_the_trained_length_is_test_itself(composed: Compose) -> None:
    track, _ = check(validated(composed(*small(*SHORT, "track.test_lengths=[1]"))))
    assert [*track.tests] == ["test"]


def test_a_test_length_changes_no_other_split(composed: Compose) -> None:
    def track(lengths: str) -> Track:
        settings = (*SHORT, "variant.positions=none", f"track.test_lengths={lengths}")
        return build(validated(composed(*small(*settings))))[0]

    several, alone = track("[1,2,4]"), track("[4]")
    assert [*several.tests] == ["test", "test@16", "test@32"]
    assert several.test.inputs.equal(alone.test.inputs)
    assert several.tests["test@32"].inputs.equal(alone.tests["test@32"].inputs)
    assert several.tests["test@16"].inputs.shape[1:] == (16, 1)
