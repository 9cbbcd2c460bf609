"""The training loop, and how a network is scored."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from models.network import Network
from tracks.track import Split, Track
from training.config import Config, OptimizerConfig
from training.seeding import torch_stream
from training.step import batch_loss

log = logging.getLogger(__name__)

EVALUATION_BATCH = 64  # examples at a time where nothing is trained


@dataclass
class History:
    """What training left behind: a row per validation, and how it ended."""

    rows: list[dict[str, float]] = field(default_factory=list)
    steps: int = 0
    examples: int = 0
    seconds: float = 0.0  # in training steps alone, compiling included
    diverged: bool = False
    validation: dict[str, Tensor] = field(default_factory=dict)  # the last one's scores, (n,) each


def steps_of(config: Config, examples: int) -> tuple[int, int]:
    """How many steps a run of so many training examples takes, and how many an epoch has."""
    per_epoch = math.ceil(examples / config.training.batch_size)
    return max(1, round(config.budget * config.training.epochs * per_epoch)), per_epoch


def batch_order(config: Config, examples: int) -> Tensor:
    """Which training example comes when, from the stream `order`: (epochs begun, examples).

    The epochs of a smaller budget are the first of a larger one.
    """
    total, per_epoch = steps_of(config, examples)
    generator = torch_stream(config.seed, "order")
    return torch.stack(
        [torch.randperm(examples, generator=generator) for _ in range(math.ceil(total / per_epoch))]
    )


def schedule(optimizer: OptimizerConfig, step: int, steps: int) -> float:
    """The factor of lr at a step: linear warm-up, then constant or cosine down to 0."""
    warm = int(optimizer.warmup * steps)
    if step < warm:
        return (step + 1) / warm
    if optimizer.schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))


def fit(
    network: Network,
    track: Track,
    optimizers: list[torch.optim.Optimizer],
    order: Tensor,
    config: Config,
) -> History:
    """Train in place, and leave the network in evaluation mode; a non-finite loss ends it.

    Validation and logging draw no random number.

    Args:
        order: training examples in the order in which they come, (epochs begun, examples).
    """
    parameters = [p for p in network.parameters() if p.requires_grad]
    total, per_epoch = steps_of(config, order.shape[1])
    schedulers = [
        LambdaLR(o, lambda step: schedule(config.optimizer, step, total)) for o in optimizers
    ]
    looks = {
        math.ceil(per_epoch * k / config.validations_per_epoch)
        for k in range(1, config.validations_per_epoch + 1)
    }
    loss_of = batch_loss(network, track, config)
    history = History()
    network.train()
    since = time.perf_counter()
    losses: list[float] = []  # since the last validation

    for epoch, permutation in enumerate(order):
        batches = permutation.split(config.training.batch_size)[: total - history.steps]
        for i, batch in enumerate(batches, start=1):
            loss = loss_of(track.train.inputs[batch], track.train.targets[batch])
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                history.diverged = True
                history.seconds += time.perf_counter() - since
                network.eval()
                log.warning("the loss is %s at step %d: diverged", losses[-1], history.steps)
                return history
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            if config.optimizer.clip_norm is not None:
                nn.utils.clip_grad_norm_(parameters, config.optimizer.clip_norm)
            for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
                optimizer.step()
                scheduler.step()
            history.steps += 1
            history.examples += len(batch)

            if config.log_steps and history.steps % config.log_steps == 0:
                log.info("step %d of %d: train loss %.4f", history.steps, total, losses[-1])
            if i in looks or history.steps == total:
                history.seconds += time.perf_counter() - since
                history.validation = evaluate(network, track, track.validation)
                row = {
                    "epoch": epoch + i / per_epoch,
                    "train_loss": sum(losses) / len(losses),
                    "validation": mean(history.validation[track.metric]),
                    "seconds": history.seconds,
                }
                history.rows.append(row)
                log.info(
                    "epoch {epoch:g}: train {train_loss:.4f}, validation {validation:.4f}".format(
                        **row
                    )
                )
                losses.clear()
                since = time.perf_counter()
    network.eval()
    return history


@contextmanager
def evaluating(*networks: nn.Module) -> Iterator[None]:
    """Networks are in evaluation mode, and afterwards in the mode that each was in."""
    modes = [network.training for network in networks]
    for network in networks:
        network.eval()
    try:
        yield
    finally:
        for network, mode in zip(networks, modes, strict=True):
            network.train(mode)


@torch.inference_mode()
def evaluate(network: nn.Module, track: Track, split: Split) -> dict[str, Tensor]:
    """Every example's scores by name, each (n,) float32 on the CPU; draws no random number."""
    with evaluating(network):
        parts = [
            track.measured(track.predict(network, inputs), targets)
            for inputs, targets in zip(
                split.inputs.split(EVALUATION_BATCH),
                split.targets.split(EVALUATION_BATCH),
                strict=True,
            )
        ]
    return {name: torch.cat([p[name] for p in parts]).float().cpu() for name in parts[0]}


def mean(scores: Tensor) -> float:
    """The mean over examples, in float64."""
    return scores.double().mean().item()
