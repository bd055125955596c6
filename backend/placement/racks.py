"""The number of replicas of one partition that each rack gets.

A partition spans min(replication factor, racks) racks, and replicas share a rack only as far as the sizes of the
other racks force them to (the design document's open issue, "how to guarantee that at least one replica goes to a
different rack", made a guarantee). Replicas fill racks evenly, level by level; a rack is full when each of its
brokers has one.
"""

from __future__ import annotations

import numpy as np

from backend.placement.problem import Ints


def rack_bounds(sizes: Ints, replicas: int) -> tuple[Ints, Ints]:
    """Return the minimum and maximum of one partition's replicas in each rack; `sizes` counts a rack's brokers.

    Raises ValueError if there are fewer brokers than replicas.
    """
    if replicas > int(sizes.sum()):
        raise ValueError(f"{replicas} replicas on {int(sizes.sum())} brokers")
    level = 0
    while int(np.minimum(sizes, level + 1).sum()) <= replicas and level < int(sizes.max(initial=0)):
        level += 1
    least = np.minimum(sizes, level)
    most = least if int(least.sum()) == replicas else np.minimum(sizes, level + 1)
    return least, most


def spread_over(counts: Ints, sizes: Ints, replicas: int) -> bool:
    """Tell whether replicas, counted by rack, are spread over racks as required."""
    least, most = rack_bounds(sizes, replicas)
    return bool((counts >= least).all() and (counts <= most).all())
