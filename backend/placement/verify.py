"""Figures and violations of a placement, computed independently from the problem and the result alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.problem import Ints, Problem, Replicas
from backend.placement.racks import spread_over

DOUBLED, OUTSIDE, FACTOR, RACKS = "distinct-brokers", "brokers", "replication-factor", "racks"
LEADERS = "leaders"
DETAILS = {
    DOUBLED: "a partition has two replicas on one broker",
    OUTSIDE: "replicas are on brokers that may not hold any",
    FACTOR: "the number of replicas differs from the requested replication factor",
    RACKS: "replicas share a rack although another rack has room",
    LEADERS: (
        "the preferred replica is on a broker in no_leaders: all replicas are on such brokers, or the topic is "
        "excluded; remove a broker from no_leaders, raise the replication factor, or stop excluding the topic"
    ),
}


@dataclass(frozen=True)
class Counted:
    """Figures of a placement; sums, so that pieces of a placement can be counted separately."""

    moves: int
    """Replicas on brokers that had none of their partition before."""
    moved_bytes: int
    leader_changes: int
    """Partitions whose preferred replica changes to another broker."""
    loads: Ints
    leads: Ints


def count(problem: Problem, replicas: Replicas) -> Counted:
    """Compare replicas with the problem and count what changes."""
    owners, old = replicas.owners, problem.now.counts
    is_new = np.ones(len(owners), dtype=bool)
    for place in range(int(old.max(initial=0))):
        some = np.flatnonzero(old[owners] > place)
        is_new[some] &= replicas.brokers[some] != problem.now.brokers[problem.now.starts[owners[some]] + place]
    changed = (problem.now.firsts != replicas.firsts) & (problem.now.counts > 0)
    return Counted(
        moves=int(is_new.sum()),
        # The sum may exceed 64 bits, to which arrays would truncate it.
        moved_bytes=sum(problem.size_bytes[owners[is_new]].tolist()),
        leader_changes=int(changed.sum()),
        loads=problem.loads(replicas),
        leads=problem.leads(replicas),
    )


def broken(problem: Problem, replicas: Replicas) -> dict[str, Ints]:
    """Return the partitions that violate each rule; rules without violations are omitted."""
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
    # A broker that may hold nothing may not lead either; that is reported as OUTSIDE.
    is_barred = problem.is_usable & ~problem.may_lead
    unspread = np.flatnonzero(~good[index.ravel()] if len(rows) else np.zeros(0, bool))
    found = {
        DOUBLED: owners[first[times > 1]],
        OUTSIDE: owners[outside],
        FACTOR: np.flatnonzero(replicas.counts != problem.wanted),
        # Partitions with replicas on such brokers are reported as OUTSIDE already.
        RACKS: unspread[counts[unspread].sum(axis=1) == problem.wanted[unspread]],
        LEADERS: np.flatnonzero(led & is_barred[firsts]),
    }
    return {rule: np.unique(partitions) for rule, partitions in found.items() if len(partitions)}
