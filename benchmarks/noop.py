"""Runs that do nothing but leave a record: what a sweep of them takes is its launcher's own time.

`benchmarks/overhead.py launch` sweeps them.
"""

from __future__ import annotations

from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from records.files import write_json
from training.config import run_identity


@hydra.main(version_base="1.3", config_path="../conf", config_name="config")
def run(cfg: DictConfig) -> None:
    context = HydraConfig.get()
    record = {"scores": {"validation": 0.0}, "metric": {"direction": "min"}}
    write_json(
        Path(context.runtime.output_dir) / "result.json",
        run_identity(cfg, context.runtime.choices) | record,
    )


if __name__ == "__main__":
    run()
