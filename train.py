"""One run: compose → build → fit → probe → record.

python train.py KEY=VALUE …        one run
python train.py -m KEY=A,B …       a sweep: a run for every combination
"""

from __future__ import annotations

import math
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from training.config import config_hashes, identity, validated
from training.errors import full_hydra_errors, one_line_errors


def run(cfg: DictConfig) -> float:
    """Train one model, measure it and leave its record; gives the validation score."""
    # Not at the top: the process that only starts a sweep never needs torch.
    from training import probes, record
    from training.build import build
    from training.cost import cost
    from training.fit import batch_order, evaluate, fit, mean

    context = HydraConfig.get()
    directory = Path(context.runtime.output_dir)
    with one_line_errors():
        config = validated(cfg)
        record.refuse_overwriting(directory)
        track, network, start, optimizers = build(config)

    order = batch_order(config, len(track.train))
    history = fit(network, track, optimizers, order, config)

    test = evaluate(network, track, track.test)
    # both splits' means by metric; a last step can break what every loss before it let pass
    scores = {
        name: {"validation": mean(history.validation[name]), "test": mean(test[name])}
        for name in test
        if not history.diverged
    }
    primary = scores.pop(track.metric, {"validation": math.nan, "test": math.nan})
    whole = all(map(math.isfinite, primary.values()))
    observed = probes.observe(network, start, track) if whole else {}

    record.write(
        directory,
        {
            "schema": record.SCHEMA,
            "status": "finished" if whole else "diverged",
            **identity(cfg, context.runtime.choices),
            "baseline": config.baseline,
            "metric": {"name": track.metric, "direction": track.direction},
            "scores": primary,
            "secondary": scores | track.references,
            "budget": {
                "epochs": config.training.epochs,
                "steps": history.steps,
                "examples": history.examples,
            },
            "cost": cost(network, track, config.training.batch_size)
            | {"train_seconds": history.seconds},
            "probes": {
                "reach": probes.reach(network, track) if whole else None,
                "ablation": probes.ablation(network, track, primary["test"]) if whole else None,
                "causal": probes.causal(network, track, config.seed) if whole else None,
                "split_overlap": probes.split_overlap(track),
            },
            "signature": probes.signature(config.variant.signature, network, observed),
            "hashes": {
                "config": config_hashes(cfg),
                "code": record.code_hashes(),
                "data": record.data_hash(track),
                "order": record.sha256(order),
                "init": record.init_hashes(start),
            },
            "environment": record.environment(track.train.inputs.device),
            "overrides": list(context.overrides.task),
        },
        history=history.rows,
        examples=test[track.metric] if whole else None,
        artifacts=probes.artifacts(network, track) if whole else {},
        weights=network.state_dict() if config.save_weights else None,
    )
    return primary["validation"]


main = hydra.main(version_base="1.3", config_path="conf", config_name="config")(run)

if __name__ == "__main__":
    full_hydra_errors()
    with one_line_errors():
        main()
