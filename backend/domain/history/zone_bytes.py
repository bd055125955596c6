"""Bytes that went between zones within a minute, from the counters of the zone router's nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from backend.domain.history.metrics import ALL

Counts = Mapping[str, Mapping[str, int]]
"""Counter of each node, by `FROM>TO`."""


def bytes_since(before: Counts, now: Counts) -> dict[str, int]:
    """Return the bytes between two reports of all nodes, by `FROM>TO` and as a whole (`all`).

    A counter that has fallen, and a node without an earlier report, began at 0 in between.
    """
    found: Counter[str] = Counter({ALL: 0})
    for node, counts in now.items():
        for pair, count in counts.items():
            earlier = before.get(node, {}).get(pair, 0)
            grown = count - earlier if count >= earlier else count
            found[pair] += grown
            found[ALL] += grown
    return dict(found)
