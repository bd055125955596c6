"""Progress of a plan: moves, bytes, and the time left at the present pace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.placement.execution.steps import Course, Place, Standing

_MOST_WHILE_UNDER_WAY = 0.99
"""Fraction shown at most while moves remain; otherwise many small partitions behind a large one would show 100%.
"""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Replica moves and their bytes, without partitions that were deleted or that somebody else has changed."""

    moves_done: int
    moves_in_flight: int
    moves_left: int
    """Moves that have not begun."""
    bytes_done: int
    """Bytes copied, including those of moves in flight."""
    bytes_left: int
    fraction: float
    """Fraction of the bytes to copy, 0 to 1; 1.0 only if nothing is left."""
    partitions_left: int
    """Partitions that are not at their target, including those that only change their order."""

    @property
    def is_finished(self) -> bool:
        return self.partitions_left == 0


def progress(
    course: Course, standing: Standing, sizes: Mapping[Place, int], copied: Mapping[Place, int] | None = None
) -> Progress:
    """Compute the progress of a course.

    `sizes` are the bytes of one replica; `copied` are the bytes that replicas in flight have so far. Use the sizes
    of the plan throughout: with current sizes, the amount done would grow and shrink by itself.
    """
    moves = {"done": 0, "flight": 0, "left": 0}
    bytes_done = bytes_left = whole = done = 0
    for place in (*standing.arrived, *standing.moving, *standing.pending):
        flight = standing.moving.get(place)
        here = flight.before if flight else standing.pending.get(place, course.targets[place])
        target, original, size = course.targets[place], course.originals[place], sizes.get(place, 0)
        total = sum(broker not in original for broker in target)
        missing = sum(broker not in here for broker in target)
        flying = sum(broker in target for broker in flight.adding) if flight else 0
        come = min((copied or {}).get(place, 0), flying * size)
        moves["done"] += total - missing
        moves["flight"] += flying
        moves["left"] += missing - flying
        bytes_done += (total - missing) * size + come
        bytes_left += missing * size - come
        # An empty replica is a move, too: without the 1, a plan of empty topics would be complete before it began.
        whole += total * (size + 1)
        done += (total - missing) * (size + 1) + come
    partitions_left = len(standing.moving) + len(standing.pending)
    return Progress(
        moves_done=moves["done"],
        moves_in_flight=moves["flight"],
        moves_left=moves["left"],
        bytes_done=bytes_done,
        bytes_left=bytes_left,
        fraction=min(done / whole if whole else 1.0, _MOST_WHILE_UNDER_WAY if partitions_left else 1.0),
        partitions_left=partitions_left,
    )


def seconds_left(samples: Sequence[tuple[float, int]], bytes_left: int, *, is_finished: bool) -> float | None:
    """Estimate the seconds left from the pace of samples, (seconds of any clock, bytes done), oldest first.

    The estimate is at least one second until the course is finished. Returns None if there is no pace: a single
    sample, nothing copied between the first and the last, or only empty replicas left.
    """
    if is_finished:
        return 0.0
    if len(samples) < 2 or not bytes_left:
        return None
    (began, before), (ended, after) = samples[0], samples[-1]
    if ended <= began or after <= before:
        return None
    return max(1.0, bytes_left * (ended - began) / (after - before))
