"""One run (training/run.py: build → fit → probe → record), or a sweep of them.

python train.py KEY=VALUE …        one run
python train.py -m KEY=A,B …       a sweep: a run for every combination
"""

from __future__ import annotations

import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from sweeping.arguments import meant
from training.errors import full_hydra_errors, one_line_errors


@one_line_errors()  # here too: Hydra would put lines of its own before the job's error
def run(cfg: DictConfig) -> None:
    """Train one model, measure it and leave its record."""
    # Not at the top: the process that only starts a sweep never needs torch.
    from sweeping.directory import claim_run
    from training.check import check
    from training.config import validated
    from training.run import train_one
    from training.summary import summary

    context = HydraConfig.get()
    directory = Path(context.runtime.output_dir)
    alone = context.mode == RunMode.RUN  # a sweep has checked all its runs before the first
    if alone:
        claim_run(directory)
        check(validated(cfg))
    record = train_one(cfg, directory, context.runtime.choices)
    if alone:
        print("\n".join(summary(record, directory)))


main = hydra.main(version_base="1.3", config_path="conf", config_name="config")(run)

if __name__ == "__main__":
    full_hydra_errors()
    with one_line_errors():
        sys.argv[1:] = meant(sys.argv[1:])
        main()
