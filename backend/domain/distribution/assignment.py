"""How work is cut into units and shared among the shifts that are alive.

A **unit** is a distributor and one partition bucket of it. The bucket of a partition is fixed, so that the
transactional id and the position group named after the bucket always guard the same partitions, whoever runs
the unit (architecture, "Work that never ends, on Celery").
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

OWN_GROUPS = "_treeline."
"""What names of our own groups begin with: positions of ours are nobody's progress, and never distributed."""


@dataclass(frozen=True, order=True)
class Unit:
    """One bucket of the distributor of a cluster at a level."""

    cluster: str
    level: int
    bucket: int

    @property
    def name(self) -> str:
        """Key of the unit's lease."""
        return f"distributor:{self.cluster}:{self.level}:{self.bucket}"

    @property
    def kafka_name(self) -> str:
        """Transactional id and position group on the target; internal groups start with `_treeline.`."""
        return f"{OWN_GROUPS}distributor.{self.cluster}.{self.level}.{self.bucket}"


def units(distributors: Iterable[tuple[str, int]], buckets: int) -> tuple[Unit, ...]:
    """Every unit of the (cluster, level) distributors."""
    return tuple(Unit(cluster, level, bucket) for cluster, level in distributors for bucket in range(buckets))


def buckets_for(partitions: int, *, least: int, most_each: int, now: int) -> int:
    """Return how many buckets a distributor of so many partitions is cut into.

    `least`, doubled until none has more than `most_each` partitions on average. Another number makes every leaf
    pass a barrier, so `now`, the present number, is kept until twice as many partitions would not need it either.
    """
    needed = _doubled(least, partitions, most_each)
    return max(needed, min(now, _doubled(least, 2 * partitions, most_each)))


def _doubled(least: int, partitions: int, most_each: int) -> int:
    needed = least
    while needed * most_each < partitions:
        needed *= 2
    return needed


def bucket(stream: str, partition: int, buckets: int) -> int:
    """Bucket of a partition: neighbours of one stream fall into different ones."""
    return (zlib.crc32(stream.encode()) + partition) % buckets


def fair_share(desired: int, shifts: int) -> int:
    """Most units that one of several shifts should hold."""
    return -(-desired // max(1, shifts))


def surplus(held: Sequence[Unit], desired: Collection[Unit], shifts: int) -> tuple[Unit, ...]:
    """Units that a holder gives back: no longer desired, or beyond its share (the last taken first)."""
    gone = tuple(unit for unit in held if unit not in desired)
    kept = [unit for unit in held if unit in desired]
    return gone + tuple(reversed(kept[fair_share(len(desired), shifts) :]))


def wanted(
    free: Sequence[Unit], held: int, desired: int, shifts: int, *, is_late: bool = False
) -> tuple[Unit, ...]:
    """Return the free units that a holder of `held` ones takes now, up to its share.

    One at a time if its renewals are late: opening many sessions at once starves those that copy already.
    """
    room = max(0, fair_share(desired, shifts) - held)
    return tuple(free[: min(room, 1) if is_late else room])
