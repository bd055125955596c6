"""Roots of origins that have left the tree: their records continue from the leaf that holds most of them.

A cluster that is no longer a leaf cannot pass its records on. The leaves hold prefixes of its log, of different
lengths. Each partition is re-rooted at the leaf that holds the longest prefix: its records take that leaf's route,
as if they had been produced there (decision 16).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from backend.domain.records.origin import Vector

Partition = tuple[str, int]
"""(stream, partition)."""
Roots = dict[Partition, str]
"""(Stream, partition) -> leaf from which the records of one lost origin continue."""


def roots(
    number: int,
    present: Mapping[Partition, str],
    leaves: Collection[str],
    held: Mapping[str, Mapping[Partition, Vector]],
) -> Roots:
    """Return the roots to set for the lost origin `number`: new ones, and those whose leaf left or is surpassed.

    `present` are the roots so far, `leaves` the tree's, `held` the vectors per partition of the leaves that
    answered. A root stays where it is unless another leaf holds more, since moving it scans logs again.
    """
    partitions: set[Partition] = set().union(*held.values()) if held else set()
    found: Roots = {}
    for partition in partitions:
        reached = {leaf: vectors.get(partition, {}).get(number) for leaf, vectors in held.items()}
        best = _best(reached)
        if best is None:
            continue
        root = present.get(partition)
        if (
            root is None
            or root not in leaves
            or (root in held and (reached[root] or (-1, -1)) < (reached[best] or (-1, -1)))
        ):
            found[partition] = best
    return found


def _best(reached: Mapping[str, tuple[int, int] | None]) -> str | None:
    holders = sorted((value, leaf) for leaf, value in reached.items() if value is not None)
    if not holders:
        return None
    highest = holders[-1][0]
    return min(leaf for value, leaf in holders if value == highest)
