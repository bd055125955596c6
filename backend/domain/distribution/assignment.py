"""Division of distribution into tasks, and the fair share of each worker session.

A **task** is one distributor with one of its partition buckets. The bucket of a partition is fixed, so
the transactional id and the position group named after the bucket always guard the same partitions, whichever
worker runs the task (architecture, "Work that never ends, on Celery").
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

OWN_GROUPS = "_treeline."
"""Prefix of Treeline's own group names: their offsets are no application's progress and are never distributed."""


@dataclass(frozen=True, order=True)
class Task:
    """A task: one partition bucket of the distributor of a cluster at a level."""

    cluster: str
    level: int
    bucket: int

    @property
    def name(self) -> str:
        """Return the key of the task's lease."""
        return f"distributor:{self.cluster}:{self.level}:{self.bucket}"

    @property
    def kafka_name(self) -> str:
        """Return the transactional id and position group on the target; both start with `_treeline.`."""
        return f"{OWN_GROUPS}distributor.{self.cluster}.{self.level}.{self.bucket}"


def tasks(distributors: Iterable[tuple[str, int]], buckets: int) -> tuple[Task, ...]:
    """Return every task of the given (cluster, level) distributors."""
    return tuple(Task(cluster, level, bucket) for cluster, level in distributors for bucket in range(buckets))


def buckets_for(partitions: int, *, least: int, most_each: int, now: int) -> int:
    """Return the number of buckets for a distributor that copies this many partitions.

    `least` is doubled until no bucket has more than `most_each` partitions on average. A new number makes every
    leaf pass a barrier, so `now`, the current number, is kept until twice as many partitions would not need it
    either.
    """
    needed = _doubled(least, partitions, most_each)
    return max(needed, min(now, _doubled(least, 2 * partitions, most_each)))


def _doubled(least: int, partitions: int, most_each: int) -> int:
    needed = least
    while needed * most_each < partitions:
        needed *= 2
    return needed


def bucket(stream: str, partition: int, buckets: int) -> int:
    """Return the bucket of a partition; neighbouring partitions of one stream fall into different buckets."""
    return (zlib.crc32(stream.encode()) + partition) % buckets


def fair_share(desired: int, sessions: int) -> int:
    """Return the maximum number of tasks for one worker session."""
    return -(-desired // max(1, sessions))


def surplus(held: Sequence[Task], desired: Collection[Task], sessions: int) -> tuple[Task, ...]:
    """Return the tasks that a holder must release: those not desired, then those above its share, newest first."""
    gone = tuple(task for task in held if task not in desired)
    kept = [task for task in held if task in desired]
    return gone + tuple(reversed(kept[fair_share(len(desired), sessions) :]))


def wanted(
    free: Sequence[Task], held: int, desired: int, sessions: int, *, is_late: bool = False
) -> tuple[Task, ...]:
    """Return the free tasks that a holder of `held` tasks takes now, up to its share.

    Take one at a time while renewals are late: opening many sessions at once starves those that already copy.
    """
    room = max(0, fair_share(desired, sessions) - held)
    return tuple(free[: min(room, 1) if is_late else room])
