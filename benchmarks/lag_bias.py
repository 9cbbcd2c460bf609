"""What a bias or a rotation costs attention: time and saved memory, as ratios.

    python benchmarks/lag_bias.py [--lengths 128,512,1024] [--batch 4] [--heads 4] [--width 16]

Forward and backward of all between attention's projections, of every variant in conf/variant that
is attention: medians of one thread, in an order that is drawn anew each time. Three references,
over the same queries, keys and values:

no bias    torch's own causal mask, which skips half of the logits
constant   a mask (1, H, L, L) that is there already and asks for no gradient
parameter  the same, asking for one: torch's fast kernel gives none, so that the plain one is taken.
           No learned bias that is handed over as a mask can cost less.

On CUDA also the variant's curve through a compiled `flex_attention`; on a CPU that has no backward.
Lengths that would not fit into memory are left out, and named. Writes results/lag_bias_cost.json,
from which README's table is made.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from models.attention import Attention
from models.lag_bias import LagBias
from training.build import build
from training.config import validated
from training.cost import kept_bytes
from training.run import composed

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "results" / "lag_bias_cost.json"
OTHER_NAMES = {"baseline", "idea", "twin"}  # of variants that are measured by their own
REFERENCES = ("no bias", "constant", "parameter")
COPIES = 16  # of (B, H, L, L) floats that the greediest variant holds at once, about
Work = Callable[[], Tensor]


def variants(tokens: int, heads: int, width: int, device: str) -> dict[str, Attention]:
    """Every variant's first attention, by the variant's name."""
    sizes = (f"model.dim={heads * width}", f"model.heads={heads}", "model.layers=1")
    track = (f"track.context={tokens}", "track.train=4", "track.validation=4", "track.test=4")
    found = {}
    for path in sorted((ROOT / "conf" / "variant").glob("*.yaml")):
        if path.stem not in OTHER_NAMES:
            told = (f"variant={path.stem}", "variant.signature=null", f"device={device}")
            _, network, _, _ = build(validated(composed(*told, *sizes, *track)))
            if isinstance(network.mixers[0], Attention):
                found[path.stem] = network.mixers[0]
    return found


def seconds(works: dict[str, Work], inputs: list[Tensor], repeats: int) -> dict[str, float]:
    """Median time of forward and backward, of each; processor time where that is all there is."""
    cuda = inputs[0].is_cuda
    clock = time.perf_counter if cuda else time.process_time
    spent: dict[str, list[float]] = {name: [] for name in works}
    turns = random.Random(0)  # what a greedy one leaves of the allocator, its next would pay for
    for repeat in range(repeats + 1):
        for name, work in turns.sample(list(works.items()), len(works)):
            if cuda:
                torch.cuda.synchronize()
            began = clock()
            work().sum().backward()
            if cuda:
                torch.cuda.synchronize()
            if repeat:  # the first warms up
                spent[name].append(clock() - began)
            for each in inputs:
                each.grad = None
    return {name: statistics.median(each) for name, each in spent.items()}


def through_flex(attention: Attention, q: Tensor, k: Tensor, v: Tensor) -> Work | None:
    """The same by `flex_attention`, where a curve or nothing is all that is added."""
    bias, tokens = attention.bias, q.shape[-2]
    if not attention.causal or attention.rotation or not isinstance(bias, LagBias | None):
        return None
    lags = torch.arange(tokens, device=q.device)
    seen = create_block_mask(lambda b, h, i, j: i >= j, None, None, tokens, tokens, q.device)
    compiled: Callable[..., Tensor] = torch.compile(flex_attention, dynamic=False)

    def work() -> Tensor:
        if bias is None:
            return compiled(q, k, v, block_mask=seen)
        curve = bias.curve(lags)

        def biased(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score + curve[h, (i - j).abs()]

        return compiled(q, k, v, score_mod=biased, block_mask=seen)

    return work


def measured(given: argparse.Namespace, tokens: int) -> list[dict[str, Any]]:
    """A row for each reference and variant, at one length."""
    batch, heads, width, device = given.batch, given.heads, given.width, given.device
    attentions = variants(tokens, heads, width, device)
    torch.manual_seed(0)
    shape = (batch, heads, tokens, width)
    q, k, v = (torch.randn(shape, device=device, requires_grad=True) for _ in range(3))
    x = torch.randn(batch, tokens, heads * width, device=device, requires_grad=True)
    future = torch.full((tokens, tokens), -math.inf, device=device).triu(1)
    mask = torch.randn(1, heads, tokens, tokens, device=device) + future
    learned = mask.clone().requires_grad_()
    plain = F.scaled_dot_product_attention
    works: dict[str, Work] = {
        "no bias": lambda: plain(q, k, v, is_causal=True),
        "constant": lambda: plain(q, k, v, attn_mask=mask),
        "parameter": lambda: plain(q, k, v, attn_mask=learned),
    }
    own: dict[str, Iterable[Tensor]] = {"constant": [mask], "parameter": [learned]}
    for name, attention in attentions.items():
        works[name] = partial(attention.attend, q, k, v, x)
        own[name] = [*attention.parameters(), *attention.buffers()]
        if device == "cuda" and (flexible := through_flex(attention, q, k, v)):
            works[f"{name} flex"] = flexible
    kept = {name: kept_bytes(work, own.get(name, ())) for name, work in works.items()}
    repeats = max(3, given.repeats * 512 // tokens)
    parameters = [each for attention in attentions.values() for each in attention.parameters()]
    spent = seconds(works, [q, k, v, x, learned, *parameters], repeats)
    return [
        {
            "tokens": tokens,
            "variant": name,
            "seconds": spent[name],
            "saved_bytes": kept[name],
            **{f"to {each}": spent[name] / spent[each] for each in REFERENCES},
            "to flex": spent[name] / spent[f"{name} flex"] if f"{name} flex" in spent else None,
        }
        for name in works
        if not name.endswith(" flex")
    ]


def fits(given: argparse.Namespace, tokens: int) -> bool:
    """Whether the machine has the memory; on a device that is for the device to say."""
    free = Path("/proc/meminfo")
    if given.device != "cpu" or not free.exists():
        return True
    (line,) = (line for line in free.read_text().splitlines() if line.startswith("MemAvailable"))
    need = COPIES * 4 * given.batch * given.heads * tokens**2
    return need < 1024 * int(line.split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", default="128,512,1024", help="in tokens; up to 4096 is usual")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=16, help="of a head")
    parser.add_argument("--repeats", type=int, default=18, help="of 512 tokens; of more fewer")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    if given.device == "cpu":
        print("flex_attention is not measured: it has no backward on a CPU")
    print(f"{'tokens':>6} {'variant':20}{'ms':>9}{'saved MB':>10}  over: "
          + "".join(f"{each:>11}" for each in (*REFERENCES, "flex")))  # fmt: skip
    for tokens in map(int, given.lengths.split(",")):
        if not fits(given, tokens):
            print(f"{tokens:6} left out: this machine's memory is too small")
            continue
        for row in measured(given, tokens):
            rows.append(row)
            ratios = [row[f"to {each}"] for each in (*REFERENCES, "flex")]
            print(
                f"{tokens:6} {row['variant']:20}{1000 * row['seconds']:9.2f}"
                f"{row['saved_bytes'] / 1e6:10.1f}        "
                + "".join(f"{'–' if each is None else f'{each:.2f}':>11}" for each in ratios),
                flush=True,
            )
    command = f"python benchmarks/lag_bias.py --lengths {given.lengths} --repeats {given.repeats}"
    sizes = {key: getattr(given, key) for key in ("batch", "heads", "width", "device")}
    written = {"command": command, "torch": torch.__version__, **sizes, "rows": rows}
    given.out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
