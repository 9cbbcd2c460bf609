"""Imported once, by the server that every run's process is forked from."""

from __future__ import annotations

import gc

import torch
from hydra.core.utils import run_job  # noqa: F401

import train  # noqa: F401
from training import check, run  # noqa: F401

# The first optimizer that is constructed imports another second's worth.
torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], fused=True)
gc.collect()
gc.freeze()
