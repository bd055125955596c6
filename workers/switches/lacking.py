"""Progress report of a drain: the worst partitions by name, and the number of all that are incomplete.

Pages poll the progress, which is one row: it stays small even with 100,000 partitions.
"""

from __future__ import annotations

import heapq
from typing import Any

from workers.switches.drain import Drained, PartitionDrain

NAMED = 20
"""Limit of partitions that are named."""


def drain_progress(drained: Drained) -> dict[str, Any]:
    """Return the report; `left` counts partitions once per target, `lacking` names the worst, the worst first."""
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
