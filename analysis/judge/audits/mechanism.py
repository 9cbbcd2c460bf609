"""Is the mechanism wired, does it act, and as predicted? Does the model look where it must not?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from analysis.judge.audits.audit import Audit, probed
from analysis.judge.compare import Comparison
from analysis.judge.statistics import INERT_ULPS, ulps_apart
from analysis.read.recorded import LOSS, RecordedRun
from analysis.text import how_many, number, run_text, seed_list, some
from records.probes import ABLATION, CAUSAL, LEAST_REACH, LOSS_ABLATION, REACH


def future_leak(comparison: Comparison) -> Iterator[Audit]:
    """A model that must be causal looks at later tokens."""
    for side in comparison.sides:
        causal = yield from probed(side, "future_leak", CAUSAL)
        leaky = [seed for seed, claim in causal.items() if claim is False]
        if leaky:
            yield Audit(
                "future_leak",
                "void",
                f"{side.name} is claimed to be causal, but later tokens change its earlier outputs "
                f"in {len(leaky)} of {how_many(len(side.selected), 'model')} "
                f"(seed {seed_list(leaky)}).",
                "Mask what comes later, or say causal: false where the track allows it.",
            )


def out_of_reach(comparison: Comparison) -> Iterator[Audit]:
    """The loss does not depend on a mechanism's own parameters; a warning if on some alone."""
    for side in comparison.sides:
        found = yield from probed(side, "out_of_reach", REACH)
        reaches = {seed: reach for seed, reach in found.items() if reach is not None}
        unreached = {s: reach.all for s, reach in reaches.items() if reach.all < LEAST_REACH}
        if unreached:
            yield Audit(
                "out_of_reach",
                "void",
                f"The loss hardly depends on the mechanism of {side.name} in {len(unreached)} of "
                f"{how_many(len(side.selected), 'model')} (seed {seed_list(unreached)}): its "
                f"parameters get {max(unreached.values()):.2g} of the gradient, less than "
                f"{LEAST_REACH:g}.",
                "Check that the mechanism's output can change the prediction; a term that is "
                "constant over keys, for one, is cancelled by softmax.",
            )
        dead: dict[str, list[int]] = {}
        for seed, reach in reaches.items():
            if seed not in unreached:
                for name, share in reach.by_parameter.items():
                    if share < LEAST_REACH:
                        dead.setdefault(name, []).append(seed)
        if dead:
            told = (
                f"{name} in {len(seeds)} of {how_many(len(side.selected), 'model')} "
                f"(seed {seed_list(seeds)})"
                for name, seeds in dead.items()
            )
            yield Audit(
                "out_of_reach",
                "warning",
                f"The loss hardly depends on some parameters of {side.name}'s mechanism, which get "
                f"less than {LEAST_REACH:g} of the gradient: {some(told)}.",
                "Check that they are used, or take them out: the rest is all that was tested.",
            )


def idle_mechanism(comparison: Comparison) -> Iterator[Audit]:
    """Taking the mechanism out changes no model's score, by a metric that cannot tie."""
    for side in comparison.sides:
        can_tie = any(not run.record.metric.is_smooth for run in side.selected.values())
        probe = LOSS_ABLATION if can_tie else ABLATION
        moved_by = yield from probed(side, "idle_mechanism", probe)
        both = [
            (score, score + ablation)
            for seed, ablation in moved_by.items()
            if ablation is not None
            and not math.isnan(score := _smooth_test(side.selected[seed], can_tie))
        ]
        if both and (moved := ulps_apart(*zip(*both, strict=True))) <= INERT_ULPS:
            yield Audit(
                "idle_mechanism",
                "warning",
                f"Neutralising the mechanism of {side.name} moves the test score by at most "
                f"{number(moved)} float32 ulps in all of {how_many(len(both), 'model')}.",
                "Check that neutral() takes it out, that it is not frozen at no effect, and that "
                "it acts on what is scored.",
            )


def _smooth_test(run: RecordedRun, can_tie: bool) -> float:
    """The test score; the loss where the primary metric can tie."""
    return run.score(LOSS if can_tie else run.record.metric.name, "test")


def unconfirmed_signature(comparison: Comparison) -> Iterator[Audit]:
    """What the idea predicted does not hold in every model."""
    failed = {
        seed: signature
        for seed, run in sorted(comparison.idea.selected.items())
        if (signature := run.record.signature) is not None and not signature.holds
    }
    if failed:
        nothing = ["nothing was predicted that could fail"]
        told = (
            f"seed {seed}: {', '.join(signature.refuted or nothing)}"
            for seed, signature in failed.items()
        )
        yield Audit(
            "unconfirmed_signature",
            "warning",
            f"The prediction of {comparison.idea.name} fails in {len(failed)} of "
            f"{how_many(len(comparison.idea.selected), 'model')}: {some(told)}.",
            "If it wins, it is not shown to win by the mechanism that was predicted.",
        )


def prediction_edited(comparison: Comparison) -> Iterator[Audit]:
    """The runs of one arm carry different predictions."""
    for side in comparison.sides:
        examples = {_predicted(run): run for run in reversed(side.arm.runs)}
        if len(examples) > 1:
            yield Audit(
                "prediction_edited",
                "warning",
                f"The runs of {side.name} carry {len(examples)} different predictions: "
                f"{some(f'{run_text(r.record)} in {r.folder}' for r in examples.values())}.",
                "Predict before training: train anew with the prediction that is to be judged.",
            )


def _predicted(run: RecordedRun) -> object:
    signature = run.record.signature
    if signature is None:
        return None
    criteria = tuple((each.metric, each.op, each.value) for each in signature.criteria)
    return signature.prediction, criteria


CHECKS = (
    future_leak,
    out_of_reach,
    idle_mechanism,
    unconfirmed_signature,
    prediction_edited,
)
