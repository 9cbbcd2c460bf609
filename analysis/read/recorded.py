"""A run that was found: its record, its folder, the metric that judges it, its examples."""

from __future__ import annotations

import io
import math
import os
import zlib
from dataclasses import dataclass
from functools import cached_property
from tokenize import TokenError
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from records import reading
from records.files import EXAMPLES
from records.reading import Unreadable
from records.record import Metric, Record, Scores

LOSS = "loss"  # the secondary score that a track has beside a primary metric that can tie
# how a damaged or hostile archive shows itself
_DAMAGED = (
    OSError, EOFError, KeyError, TypeError, ValueError, MemoryError, OverflowError, RuntimeError,
    SyntaxError, BadZipFile, TokenError, zlib.error,
)  # fmt: skip


@dataclass(frozen=True)
class RecordedRun:
    """A record and the folder that it was found in."""

    record: Record
    folder: str
    judged_by: Metric | None = None  # a secondary metric that is to decide, not the primary one
    split: str = "test"  # whose scores are compared: test, or a test of longer contexts

    @cached_property
    def diverged(self) -> bool:
        """Whether training ended in a non-finite loss: then no score counts."""
        return self.record.status == "diverged"

    @property
    def metric(self) -> Metric:
        """The metric that decides."""
        return self.judged_by or self.record.metric

    @cached_property
    def validation(self) -> float:
        """The deciding score on validation; NaN if the run diverged."""
        return self.score(self.metric.name, "validation")

    @cached_property
    def test(self) -> float:
        """The deciding score on the test split that is compared; NaN if the run diverged."""
        return self.score(self.metric.name, self.split)

    @property
    def overlap(self) -> int | None:
        """Test examples after one that share values with it, at most; None: not recorded."""
        record, context = self.record, self.split.partition("@")[2]
        if record.overlap is None or not context or not record.context:
            return record.overlap
        return record.overlap * -(-int(context) // record.context)

    @property
    def smooth(self) -> str | None:
        """The metric by which runs can be told to be one: the deciding one, or the loss if it ties.

        None where neither is known not to tie.
        """
        if self.metric.is_smooth:
            return self.metric.name
        loss = self.record.secondary.get(LOSS)
        return LOSS if loss and loss.can_tie is False and loss.whole else None

    def scores(self, metric: str) -> Scores:
        """All scores by the primary or a secondary metric; empty if it has none."""
        record = self.record
        if metric == record.metric.name:
            return record.scores
        secondary = record.secondary.get(metric)
        return secondary.scores if secondary else {}

    def score(self, metric: str, split: str) -> float:
        """A score by the primary or a secondary metric; NaN if the run diverged or has none."""
        score = self.scores(metric).get(split)
        return float("nan") if self.diverged or score is None else score


def read_examples(run: RecordedRun, metric: str) -> NDArray[np.float32] | None:
    """Per-example scores of a run by `metric`, on its test split, (examples,) float32.

    None if it kept none.
    They are the array `SPLIT/METRIC`; an older file's one array, `test`, is by the primary metric.

    Raises:
        Unreadable: the file is damaged, lacks the primary metric's, holds objects (which would
            need unpickling), or scores that are not finite numbers whose mean is the run's score.
    """
    path = os.path.join(run.folder, EXAMPLES)
    if not os.path.exists(path):
        return None
    name, is_primary = f"{run.split}/{metric}", metric == run.record.metric.name
    try:
        with ZipFile(reading.regular(path)) as archive:
            if f"{name}.npy" not in archive.NameToInfo:
                if not is_primary or run.split != "test":
                    return None
                name = "test"
            array = io.BytesIO(archive.read(f"{name}.npy"))
        scores = np.lib.format.read_array(array, allow_pickle=False)
    except _DAMAGED as error:
        raise Unreadable(f"no array `{name}` can be read from it: {error}") from error
    if scores.dtype != np.float32 or scores.size == 0 or not np.isfinite(scores).all():
        raise Unreadable(f"its array `{name}` does not hold finite float32 numbers")
    mean, score = float(scores.mean(dtype=np.float64)), run.score(metric, run.split)
    if not math.isclose(mean, score, rel_tol=1e-6):
        raise Unreadable(
            f"its array `{name}` has the mean {mean:g}, the run's test score is {score:g}"
        )
    return scores
