"""What a look at a drain tells of the partitions that are still to come: the worst by name, all as a number.

The progress of a switch is one row that pages read again and again: with 100,000 partitions it stays as small.
"""

from __future__ import annotations

import heapq
from typing import Any

from workers.switches.drain import Drained, PartitionDrain

NAMED = 20
"""Partitions that are named at most."""


def told_of(drained: Drained) -> dict[str, Any]:
    """`left` counts partitions, each once for each target; `lacking` names the worst of them, the worst first."""
    open_ones = [one for one in drained.partitions if not one.is_covered]
    return {
        "missing_records": drained.missing_records,
        "left": len(open_ones),
        "lacking": [_told(one) for one in heapq.nsmallest(NAMED, open_ones, key=_worst_first)],
    }


def _worst_first(one: PartitionDrain) -> tuple[int, str, int, str]:
    return -one.missing_records, one.stream, one.partition, one.target


def _told(one: PartitionDrain) -> dict[str, Any]:
    return {
        "stream": one.stream,
        "partition": one.partition,
        "target": one.target,
        "missing_records": one.missing_records,
        "waits_for": one.waits_for,
    }
