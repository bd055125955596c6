"""A placement counted anew, from nothing but what was asked for and what came out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.problem import Ints, Problem, Replicas
from backend.placement.racks import spread_over

DOUBLED, OUTSIDE, FACTOR, RACKS = "distinct-brokers", "brokers", "replication-factor", "racks"
LEADERS = "leaders"
DETAILS = {
    DOUBLED: "a broker is named twice",
    OUTSIDE: "replicas are on brokers that are to have none",
    FACTOR: "there are more or fewer replicas than asked for",
    RACKS: "replicas share a rack although another one has room",
    LEADERS: (
        "the preferred replica is on a broker that is to lead nothing: all replicas are on such brokers, or the "
        "topic is excluded; take a broker out of no_leaders, ask for more replicas, or exclude the topic no longer"
    ),
}


@dataclass(frozen=True)
class Counted:
    """What came out; sums, so that pieces of a placement can be counted apart."""

    moves: int
    """Replicas on brokers that had none of their partition before."""
    moved_bytes: int
    leader_changes: int
    """Partitions whose preferred replica is on another broker."""
    loads: Ints
    leads: Ints


def count(problem: Problem, replicas: Replicas) -> Counted:
    """Compare replicas with what was asked for."""
    owners, old = replicas.owners, problem.now.counts
    is_new = np.ones(len(owners), dtype=bool)
    for place in range(int(old.max(initial=0))):
        some = np.flatnonzero(old[owners] > place)
        is_new[some] &= replicas.brokers[some] != problem.now.brokers[problem.now.starts[owners[some]] + place]
    changed = (problem.now.firsts != replicas.firsts) & (problem.now.counts > 0)
    return Counted(
        moves=int(is_new.sum()),
        # Together they may have more than 64 bits, which arrays would cut off.
        moved_bytes=sum(problem.size_bytes[owners[is_new]].tolist()),
        leader_changes=int(changed.sum()),
        loads=problem.loads(replicas),
        leads=problem.leads(replicas),
    )


def broken(problem: Problem, replicas: Replicas) -> dict[str, Ints]:
    """Partitions by the rule that they do not keep."""
    total = len(problem.broker_ids)
    owners = replicas.owners
    _, first, times = np.unique(owners * total + replicas.brokers, return_index=True, return_counts=True)
    outside = ~problem.is_usable[replicas.brokers]
    racks = len(problem.racks)
    where = problem.rack_of[replicas.brokers]
    known = ~outside
    counts = np.bincount(owners[known] * racks + where[known], minlength=len(replicas) * racks).reshape(-1, racks)
    rows, index = np.unique(np.column_stack([problem.wanted, counts]), axis=0, return_inverse=True)
    sizes = problem.rack_sizes
    good = np.array(
        [row[0] > sizes.sum() or spread_over(row[1:], sizes, int(row[0])) for row in rows.astype(np.int64)], bool
    )
    firsts, led = replicas.firsts, replicas.counts > 0
    # One that is to hold nothing leads nothing either, which OUTSIDE tells.
    is_barred = problem.is_usable & ~problem.may_lead
    unspread = np.flatnonzero(~good[index.ravel()] if len(rows) else np.zeros(0, bool))
    found = {
        DOUBLED: owners[first[times > 1]],
        OUTSIDE: owners[outside],
        FACTOR: np.flatnonzero(replicas.counts != problem.wanted),
        # Of those that are on brokers that are to hold nothing that is told.
        RACKS: unspread[counts[unspread].sum(axis=1) == problem.wanted[unspread]],
        LEADERS: np.flatnonzero(led & is_barred[firsts]),
    }
    return {rule: np.unique(partitions) for rule, partitions in found.items() if len(partitions)}
