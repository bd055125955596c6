"""Replicas of new partitions, as the Kafka replication design places them.

Brokers are sorted, alternating between racks; partition p's first replica, the preferred one, is on broker i = p
mod n. "The jth replica of partition k will be assigned to broker (i + j + k) mod n": with k the index of the
partition among the m that begin on broker i (k = p div n, as the document's figure has it: 5 brokers, 15
partitions, and the three of a lost broker are served by all 4 others). Read with the global number instead, 6 of
the 15 would have two replicas on one broker.

Taken literally, the formula breaks down where j + k is a multiple of n, since a follower then meets its own leader
(n = 5 and replication factor 3: 10 of 25 partitions), and it ignores racks. A row of partitions (all with the same
k) is valid or invalid as a whole, because its partitions are the same shifts from different brokers. In an invalid
row the valid followers stay, and the others get the shifts that were used least so far, so that a lost broker's
load still spreads evenly over all survivors. Where racks differ in size, brokers are not interchangeable: then the
formula's result is taken as the present placement, and as little is moved as racks and balance demand.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from backend.placement.errors import PlacementInvalid
from backend.placement.failover_order import ordered
from backend.placement.leaders import choose_leaders
from backend.placement.partition_placement import place
from backend.placement.problem import Ints, Problem, Replicas, starts_of
from backend.placement.racks import spread_over


def formula(brokers: int, partitions: int, factor: int) -> Ints:
    """Return the place in the sorted list of brokers, by partition and replica.

    The same place occurs twice in a row where the document's formula says so.
    """
    first = np.arange(partitions, dtype=np.int64) % brokers
    row = np.arange(partitions, dtype=np.int64) // brokers
    shifts = np.arange(factor, dtype=np.int64)[None, :] + np.where(np.arange(factor) > 0, row[:, None], 0)
    found: Ints = (first[:, None] + shifts) % brokers
    return found


def rows(problem: Problem, partitions: int, factor: int, *, literal: bool = False) -> list[list[int]]:
    """Return the broker ids of partitions 0 to `partitions` (exclusive). Raises PlacementInvalid."""
    brokers = by_turns(problem)
    if not 1 <= factor <= len(brokers):
        raise PlacementInvalid(
            f"/brokers: {factor} replicas need {factor} brokers, and there are {len(brokers)}: use a replication "
            f"factor from 1 to {len(brokers)}, or list more brokers"
        )
    if literal:
        found: list[list[int]] = problem.broker_ids[brokers[formula(len(brokers), partitions, factor)]].tolist()
        return found
    placed = initial(problem, partitions, factor)
    starts, ids = placed.starts.tolist(), problem.broker_ids[placed.brokers].tolist()
    return [ids[starts[p] : starts[p + 1]] for p in range(partitions)]


def by_turns(problem: Problem) -> Ints:
    """Return the brokers that may hold replicas, sorted by id and alternating between racks."""
    usable = np.flatnonzero(problem.is_usable)
    usable = usable[np.argsort(problem.broker_ids[usable], kind="stable")]
    racks = problem.rack_of[usable]
    turn = np.zeros(len(usable), dtype=np.int64)
    for rack in np.unique(racks):
        turn[racks == rack] = np.arange(int((racks == rack).sum()))
    return usable[np.lexsort((racks, turn))]


def initial(problem: Problem, partitions: int, factor: int) -> Replicas:
    """Place partitions 0 to `partitions` (exclusive) of one topic on the brokers of a problem.

    There must be at least as many brokers as replicas of one partition.
    """
    brokers = by_turns(problem)
    sizes = problem.rack_sizes[problem.rack_sizes > 0]
    if (sizes == sizes[0]).all():
        return _by_rows(problem, brokers, partitions, factor)
    return _corrected(problem, brokers, partitions, factor)


def _by_rows(problem: Problem, brokers: Ints, partitions: int, factor: int) -> Replicas:
    count = len(brokers)
    racks = int((problem.rack_sizes > 0).sum())
    per_rack = np.full(racks, count // racks, dtype=np.int64)
    followed, first_followers = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    rows = -(-partitions // count)
    shifts = np.zeros((rows, factor), dtype=np.int64)
    for row in range(rows):
        given = [(each + row) % count for each in range(1, factor)]
        chosen = given if _is_sound([0, *given], racks, per_rack) else _mended(given, racks, per_rack, followed)
        if chosen is not given:
            chosen = _rotate_first_follower(chosen, first_followers)
        for each in chosen:
            followed[each] += 1
        if chosen:
            first_followers[chosen[0]] += 1
        shifts[row, 1:] = chosen
    at = np.arange(partitions, dtype=np.int64)
    places = (at[:, None] % count + shifts[at // count]) % count
    return Replicas(starts_of(np.full(partitions, factor, np.int64)), brokers[places.ravel()])


def _is_sound(shifts: list[int], racks: int, sizes: Ints) -> bool:
    """Tell whether replicas at these shifts are on different brokers and spread over racks.

    Racks are of one size, and brokers alternate between them.
    """
    counts = np.bincount(np.array(shifts) % racks, minlength=racks)
    return len(set(shifts)) == len(shifts) and spread_over(counts, sizes, len(shifts))


def _mended(given: list[int], racks: int, sizes: Ints, followed: Ints) -> list[int]:
    """Return the followers of a row: the valid ones, and the least used shifts for the others."""
    count, factor = len(followed), len(given) + 1
    most = -(-factor // racks)
    chosen = [0]
    in_rack = np.zeros(racks, dtype=np.int64)
    in_rack[0] = 1
    full = factor % racks or racks

    def fits(shift: int) -> bool:
        rack = shift % racks
        if shift in chosen or in_rack[rack] >= most:
            return False
        # Only `full` racks may have one more than the others.
        return in_rack[rack] + 1 < most or int((in_rack == most).sum()) < full

    for shift in given:
        if fits(shift):
            chosen.append(shift)
            in_rack[shift % racks] += 1
    while len(chosen) < factor:
        free = [shift for shift in range(1, count) if fits(shift)]
        shift = min(free, key=lambda each: (followed[each], each))
        chosen.append(shift)
        in_rack[shift % racks] += 1
    return chosen[1:]


def _rotate_first_follower(chosen: list[int], first_followers: Ints) -> list[int]:
    """Return the same followers, beginning with the one that was the first follower least often."""
    best = min(range(len(chosen)), key=lambda at: (first_followers[chosen[at]], at), default=0)
    return [*chosen[best : best + 1], *chosen[:best], *chosen[best + 1 :]]


def _corrected(problem: Problem, brokers: Ints, partitions: int, factor: int) -> Replicas:
    places = formula(len(brokers), partitions, factor)
    rows = [list(dict.fromkeys(brokers[row].tolist())) for row in places]
    new = replace(
        problem,
        topics=("",),
        topic_of=np.zeros(partitions, np.int64),
        numbers=np.arange(partitions, dtype=np.int64),
        now=Replicas.listed(rows),
        wanted=np.full(partitions, factor, np.int64),
        size_bytes=np.zeros(partitions, np.int64),
        is_fixed=np.zeros(partitions, bool),
    )
    placed = place(new).replicas
    leaders = choose_leaders(new, placed)
    before, after = new.now, placed
    same = np.array([set(before.of(p)) == set(after.of(p)) for p in range(partitions)], bool)
    return ordered(new, placed, leaders, ~same)
