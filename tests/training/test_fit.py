"""Training: what is drawn from where, what looking changes (nothing), and how it ends."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig

from models.network import mechanisms
from tests.conftest import SMALL, names
from training.build import build, build_optimizers
from training.config import validated
from training.fit import batch_order, evaluate, fit, schedule, steps_of
from training.run import epochs
from training.seeding import numpy_stream, torch_stream

Compose = Callable[..., DictConfig]


def trained(
    cfg: DictConfig,
) -> tuple[dict[str, torch.Tensor], list[dict[str, float]], torch.Tensor]:
    """Weights, history and per-example test scores of a run."""
    config = validated(cfg)
    track, network, _, optimizers = build(config)
    for block in network.blocks:  # something that draws from the global stream as it trains
        block.mlp.append(torch.nn.Dropout(0.2))
    history = fit(network, track, optimizers, batch_order(config, len(track.train)), config)
    return network.state_dict(), history.rows, evaluate(network, track, track.test)[track.metric]


@pytest.mark.parametrize(
    "looking", ["validations_per_epoch=2", "validations_per_epoch=4", "log_steps=1"]
)
@pytest.mark.parametrize("variant", ["baseline", "tensor_mixer"])
def test_looking_more_often_changes_no_bit(composed: Compose, variant: str, looking: str) -> None:
    weights, rows, scores = trained(
        composed(*SMALL, f"variant={variant}", "training.batch_size=16")
    )
    looked = trained(composed(*SMALL, f"variant={variant}", "training.batch_size=16", looking))
    assert all(weights[name].equal(looked[0][name]) for name in weights)
    assert scores.equal(looked[2])
    ends = [row["validation"] for row in looked[1] if row["epoch"] % 1 == 0]
    assert ends == [row["validation"] for row in rows]
    assert (len(looked[1]) > len(rows)) is looking.startswith("validations")


@pytest.mark.parametrize("optimizer", names("optimizer"))
def test_every_optimizer_learns(composed: Compose, optimizer: str) -> None:
    lr = {"sgd": "lr=0.03"}.get(optimizer, "lr=0.003")
    _, rows, _ = trained(composed(*SMALL, f"optimizer={optimizer}", lr, "training.epochs=6"))
    assert rows[-1]["train_loss"] < 0.9 * rows[0]["train_loss"]


def test_arms_of_one_seed_see_the_same_batches(composed: Compose) -> None:
    orders = [
        batch_order(validated(composed(*SMALL, f"variant={v}", f"lr={lr}")), 64)
        for v, lr in [("baseline", 0.1), ("idea", 0.2), ("no_mixer", 0.3)]
    ]
    assert orders[0].equal(orders[1])
    assert orders[0].equal(orders[2])
    assert not orders[0].equal(batch_order(validated(composed(*SMALL, "seed=1")), 64))
    for epoch in orders[0]:  # each example once per epoch, in another order each time
        assert epoch.sort().values.equal(torch.arange(64))
    assert not orders[0][0].equal(orders[0][1])


BUDGETS = {  # of 2 epochs of 64 examples in batches of 12: steps, epochs begun, examples
    "budget=1": (12, 2, 128),
    "budget=0.5": (6, 1, 64),
    "budget=0.25": (3, 1, 36),
    "budget=0.75": (9, 2, 100),
    "budget=2": (24, 4, 256),
    "budget=0.001": (1, 1, 12),
}


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_budget_is_steps_with_a_schedule_of_their_own(composed: Compose, budget: str) -> None:
    config = validated(composed(*SMALL, "training.batch_size=12", budget))
    steps, begun, examples = BUDGETS[budget]
    assert steps_of(config, 64) == (steps, 6)
    assert epochs(config, 64) == steps / 6
    order = batch_order(config, 64)
    assert len(order) == begun
    whole = batch_order(validated(composed(*SMALL, "training.batch_size=12", "budget=4")), 64)
    assert order.equal(whole[:begun])  # further epochs come after, and change none before
    track, network, _, optimizers = build(config)
    seen: list[float] = []  # lr of each step
    optimizers[0].register_step_pre_hook(lambda o, *_: seen.append(o.param_groups[0]["lr"]))
    history = fit(network, track, optimizers, order, config)
    assert (history.steps, history.examples) == (steps, examples)
    assert history.rows[-1]["epoch"] == pytest.approx(steps / 6)  # the end is validated
    assert history.validation
    factors = [schedule(config.optimizer, step, steps) for step in range(steps)]
    assert [each / max(seen) for each in seen] == pytest.approx(
        [each / max(factors) for each in factors]
    )


def test_streams_are_independent_and_repeat() -> None:
    draws = {
        (seed, name): numpy_stream(seed, name).random()
        for seed in (0, 1)
        for name in ("data", "order", "initialisation")
    }
    assert len(set(draws.values())) == 6
    assert draws[0, "data"] == numpy_stream(0, "data").random()
    one, two = torch_stream(0, "a", "b"), torch_stream(0, "a", "b")
    assert torch.rand(3, generator=one).equal(torch.rand(3, generator=two))


def test_what_draws_while_it_trains_draws_from_the_seed(composed: Compose) -> None:
    draws = []
    for seed in (0, 1, 0):
        build(validated(composed(*SMALL, f"seed={seed}")))
        draws.append(torch.rand(3))
    assert draws[0].equal(draws[2])
    assert not draws[0].equal(draws[1])


def test_schedule_by_hand(composed: Compose) -> None:
    cosine = validated(composed("optimizer.warmup=0.1")).optimizer
    assert [schedule(cosine, s, 100) for s in (0, 4, 9)] == pytest.approx([0.1, 0.5, 1.0])
    assert schedule(cosine, 10, 100) == pytest.approx(1.0)
    assert schedule(cosine, 55, 100) == pytest.approx(0.5)
    assert schedule(cosine, 99, 100) == pytest.approx((1 + math.cos(math.pi * 89 / 90)) / 2)
    constant = validated(composed("optimizer.schedule=constant", "optimizer.warmup=0")).optimizer
    assert [schedule(constant, s, 100) for s in (0, 50, 99)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("optimizer", names("optimizer"))
@pytest.mark.parametrize("variant", ["baseline", "idea", "tensor_mixer"])
def test_decay_and_lr_of_every_parameter(composed: Compose, variant: str, optimizer: str) -> None:
    config = validated(
        composed(f"variant={variant}", f"optimizer={optimizer}", "lr=0.002", "mechanism_lr_scale=7")
    )
    _, network, _, _ = build(config)
    own = {id(p) for m in mechanisms(network).values() for p in m.parameters()}
    name_of = {id(p): name for name, p in network.named_parameters()}
    for made in build_optimizers(config, network):
        for group in made.param_groups:
            for p in group["params"]:
                name = name_of.pop(id(p))
                matrix = name.endswith("weight") and "norm" not in name
                decays = matrix and id(p) not in own
                assert group["weight_decay"] == (config.optimizer.weight_decay if decays else 0), (
                    name
                )
                assert group["lr"] == pytest.approx(0.014 if id(p) in own else 0.002), name
                inside = isinstance(made, torch.optim.Muon)
                assert inside == (optimizer == "muon" and decays and name.startswith("blocks")), (
                    name
                )
    assert not name_of  # each parameter once


def test_a_loss_that_is_not_finite_ends_the_run(composed: Compose) -> None:
    config = validated(composed(*SMALL, "optimizer=sgd", "lr=1e9", "optimizer.clip_norm=null"))
    track, network, _, optimizers = build(config)
    history = fit(network, track, optimizers, batch_order(config, 64), config)
    assert history.diverged
    assert history.steps < 4
    assert history.examples == 32 * history.steps


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_loss_of_any_kind_that_is_not_finite_ends_the_run_before_the_step(
    composed: Compose, value: float
) -> None:
    config = validated(composed(*SMALL))
    track, network, _, optimizers = build(config)
    losses = iter([0.0, 0.0, 0.0, value])  # in the fourth step, after an epoch of two
    plain = track.loss
    track.loss = lambda outputs, targets: plain(outputs, targets) + next(losses)
    history = fit(network, track, optimizers, batch_order(config, 64), config)
    assert history.diverged
    assert (history.steps, history.examples, len(history.rows)) == (3, 96, 1)
    assert network.training is False
    assert all(parameter.isfinite().all() for parameter in network.parameters())


def test_a_last_batch_that_is_not_full_is_trained_on(composed: Compose) -> None:
    config = validated(composed(*SMALL, "training.batch_size=48"))
    track, network, _, optimizers = build(config)
    history = fit(network, track, optimizers, batch_order(config, 64), config)
    assert (history.steps, history.examples) == (4, 128)


def test_evaluation_covers_every_example_once(composed: Compose) -> None:
    config = validated(composed(*SMALL, "track.test=600"))  # more than one evaluation batch
    track, network, _, _ = build(config)
    scores = evaluate(network, track, track.test)
    with torch.no_grad():
        outputs = network(track.test.inputs)[:, -1]
    expected = (outputs - track.test.targets).square().mean(1)
    torch.testing.assert_close(scores["mse"], expected, rtol=1e-5, atol=1e-6)
    assert scores["mse"].shape == (600,)


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_leaves_the_mode_as_it_was(composed: Compose, training: bool) -> None:
    track, network, _, _ = build(validated(composed(*SMALL)))
    modes: list[bool] = []
    network.train(training).register_forward_pre_hook(lambda m, _: modes.append(m.training))
    evaluate(network, track, track.test)
    assert modes == [False]
    assert {module.training for module in network.modules()} == {training}
