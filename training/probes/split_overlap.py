"""Do examples that are tested on also stand where they were trained or tuned on?"""

from __future__ import annotations

from tracks.track import Split, Track
from training.probes.trained import Trained


def split_overlap(trained: Trained) -> int:
    """Examples of the test splits that also stand, value for value, in train or validation."""
    return shared(trained.track)


def shared(track: Track) -> int:
    """The number of these."""

    def rows(split: Split) -> list[bytes]:
        return [
            x.tobytes() + y.tobytes()
            for x, y in zip(split.inputs.cpu().numpy(), split.targets.cpu().numpy(), strict=True)
        ]

    seen = {*rows(track.train), *rows(track.validation)}
    return sum(row in seen for split in track.tests.values() for row in rows(split))


PROBES = (split_overlap,)
