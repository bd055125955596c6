"""Bytes that went between zones within a minute, from the counters of the zone router's nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from backend.domain.history.metrics import ALL

Counts = Mapping[str, Mapping[str, int]]
"""Counter of each node, by `FROM>TO`."""


def bytes_since(before: Counts, now: Counts) -> dict[str, int]:
    """Return the bytes between two reports of all nodes, by `FROM>TO` and as a whole (`all`).

    A node that is missing in one of the two was silent, or reports for the first time: its counter may be that of
    days, and counts from its next report on. Without a node in both, nothing is known and the result is empty. A
    counter that has fallen began at 0 in between.
    """
    both = before.keys() & now.keys()
    found: Counter[str] = Counter({ALL: 0} if both else {})
    for node in both:
        for pair, count in now[node].items():
            earlier = before[node].get(pair, 0)
            grown = count - earlier if count >= earlier else count
            found[pair] += grown
            found[ALL] += grown
    return dict(found)
