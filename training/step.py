"""How a training step computes its loss: eager or compiled, in float32 or bfloat16.

What is measured is neither compiled nor cast: validation, test, probes and signature.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tracks.track import Track
from training.config import Config
from training.errors import UserError
from training.paths import ROOT

# Where compiled code is kept, from run to run. Read now: torch sets the variable when it builds its
# first optimizer, to a folder in /tmp.
CACHE = os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(ROOT / ".cache" / "inductor"))


def check_machine(config: Config, device: torch.device) -> None:
    """Raise a UserError where this machine cannot compile, or not compute in the precision."""
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")  # as torch
    if config.compile and not shutil.which(compiler):
        raise UserError(
            f"compile is true, but there is no C++ compiler here (looked for {compiler}): install "
            f"one, name yours in CXX, or say compile=false"
        )
    if (
        config.precision == "bfloat16"
        and device.type == "cuda"
        and not torch.cuda.is_bf16_supported(including_emulation=False)
    ):
        raise UserError(
            f"precision is bfloat16, which {torch.cuda.get_device_name(device)} does not compute "
            f"in: say precision=float32"
        )


def batch_loss(
    network: nn.Module, track: Track, config: Config
) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean loss of a batch as training computes it: (B, …), (B, …) → () float32."""
    forward = compiled(network, config.threads) if config.compile else network
    lower = config.precision == "bfloat16"

    def loss(inputs: Tensor, targets: Tensor) -> Tensor:
        # Around the compiled function, not in it, where it would keep torch from caching gradients.
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=lower):
            outputs = forward(inputs)
        return track.loss(track.readout(outputs.float()), targets).mean()

    return loss


def compiled(network: nn.Module, threads: int) -> Callable[[Tensor], Tensor]:
    """The network's pass, forwards and backwards, as generated code; it shares the parameters.

    The code of every batch size is made when one first comes, and kept in `CACHE` for later runs.
    """
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = CACHE
    torch.compiler.reset()  # after a few networks in one process torch would turn to eager
    return torch.compile(network, dynamic=False, options={"compile_threads": threads})
