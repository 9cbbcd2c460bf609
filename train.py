"""One run: compose → build → fit → probe → record.

python train.py KEY=VALUE …        one run
python train.py -m KEY=A,B …       a sweep: a run for every combination
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from sweeping.arguments import meant
from training.config import SCHEMA, config_hashes, identity, validated
from training.errors import full_hydra_errors, one_line_errors, started


@one_line_errors()  # here too: Hydra would put lines of its own before the job's error
def run(cfg: DictConfig) -> None:
    """Train one model, measure it and leave its record."""
    # Not at the top: the process that only starts a sweep never needs torch.
    from training import probes, record
    from training.build import build
    from training.cost import cost
    from training.fit import batch_order, evaluate, fit

    context = HydraConfig.get()
    directory = Path(context.runtime.output_dir)
    config = validated(cfg)
    record.refuse_overwriting(directory)
    track, network, start, optimizers = build(config)
    started()
    order = batch_order(config, len(track.train))
    hashes = {"config": config_hashes(cfg)} | record.hashes(track, start, order)

    history = fit(network, track, optimizers, order, config)
    test = {} if history.diverged else evaluate(network, track, track.test)
    measured = probes.measure(
        config.variant.signature, network, start, track, history.validation, test
    )

    record.write(
        directory,
        {
            "schema": SCHEMA,
            **identity(cfg, context.runtime.choices),
            "baseline": config.baseline,
            "metric": {"name": track.metric, **asdict(track.describe(track.metric))},
            "analysis": config.analysis.model_dump(),
            **measured,
            "budget": {
                "epochs": config.training.epochs,
                "steps": history.steps,
                "examples": history.examples,
            },
            "cost": cost(network, track, config.training.batch_size)
            | {"train_seconds": history.seconds},
            "hashes": hashes,
            "starts": record.starts(config.variant),
            "environment": record.environment(config, track.train.inputs.device),
            "overrides": list(context.overrides.task),
        },
        history=history.rows,
        examples=test,
        artifacts=probes.artifacts(network, track),
        weights=network.state_dict() if config.save_weights else None,
    )


main = hydra.main(version_base="1.3", config_path="conf", config_name="config")(run)

if __name__ == "__main__":
    full_hydra_errors()
    with one_line_errors():
        sys.argv[1:] = meant(sys.argv[1:])
        main()
