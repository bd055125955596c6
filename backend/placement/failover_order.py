"""The order of replicas, which decides the next leader when a broker fails.

Kafka makes the next replica in the partition's list that is in sync the leader. The document asks that the load of
a broker that is down "is spread evenly to all surviving brokers, instead of to a single one": for the partitions
that a broker leads, the second replicas are spread over the other brokers as evenly as changes of one partition's
order at a time can achieve.
"""

from __future__ import annotations

import numpy as np

from backend.placement.problem import Bools, Ints, Problem, Replicas


def ordered(problem: Problem, replicas: Replicas, leaders: Ints, may_change: Bools) -> Replicas:
    """Order each partition's replicas: the leader first, then the next leader, then the others unchanged.

    `may_change` tells by partition whether its followers may be reordered.
    """
    owners = replicas.owners
    is_leader = replicas.brokers == leaders[owners]
    place = np.arange(len(owners)) - replicas.starts[owners]
    first = replicas.brokers[np.lexsort((place, ~is_leader, owners))]
    now = Replicas(replicas.starts, first)
    next_at = _next(problem, now, may_change)
    key = np.where(np.arange(len(owners)) == next_at[owners], 0, place)
    key[now.starts[:-1][now.counts > 0]] = -1
    return Replicas(now.starts, first[np.lexsort((key, owners))])


def _next(problem: Problem, now: Replicas, may_change: Bools) -> Ints:
    """Return by partition the index of its second replica; -1 where there is none."""
    total = len(problem.broker_ids)
    followers = np.ones(len(now.brokers), dtype=bool)
    followers[now.starts[:-1][now.counts > 0]] = False
    leader = np.where(now.counts > 0, now.firsts, 0)
    pair = leader[now.owners] * total + now.brokers
    pairs, pair = np.unique(pair, return_inverse=True)
    chosen = np.where(now.counts > 1, now.starts[:-1] + 1, -1)
    movable = np.flatnonzero(followers & (now.counts > 2)[now.owners] & may_change[now.owners])
    has = np.flatnonzero(chosen >= 0)
    times = np.bincount(pair[chosen[has]], minlength=len(pairs))
    while len(movable):
        owner = now.owners[movable]
        gain = times[pair[chosen[owner]]] - times[pair[movable]]
        better = np.flatnonzero(gain > 1)
        if not len(better):
            break
        # Only one change per pair of brokers in each pass, because the gains of others depend on it.
        best = better[np.lexsort((movable[better], -gain[better]))]
        best = best[_first_of(pair[chosen[owner[best]]])]
        best = best[_first_of(pair[movable[best]])]
        best = best[_first_of(owner[best])]
        np.subtract.at(times, pair[chosen[owner[best]]], 1)
        np.add.at(times, pair[movable[best]], 1)
        chosen[owner[best]] = movable[best]
    return chosen


def _first_of(values: Ints) -> Ints:
    """Return the sorted indexes of the first occurrence of each value."""
    return np.sort(np.unique(values, return_index=True)[1])


def largest_share(problem: Problem, replicas: Replicas) -> float:
    """Return the worst-case failover share: the largest part of a broker's leaders that one other inherits."""
    total = len(problem.broker_ids)
    some = np.flatnonzero(replicas.counts > 1)
    at = replicas.starts[:-1][some]
    leader, follower = replicas.brokers[at], replicas.brokers[at + 1]
    if not len(some):
        return 0.0
    pairs, times = np.unique(leader * total + follower, return_counts=True)
    leads = np.bincount(leader, minlength=total)
    return float((times / leads[pairs // total]).max())
