"""A placement counted anew, from nothing but what was asked for and what came out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.placement.problem import Ints, Problem, Replicas
from backend.placement.racks import spread_over


@dataclass(frozen=True)
class Violation:
    """What a placement does not keep: which rule, where, and what would have to be given up."""

    constraint: str
    partitions: tuple[str, ...]
    detail: str


@dataclass(frozen=True)
class Counted:
    """What came out."""

    moves: int
    """Replicas on brokers that had none of their partition before."""
    moved_bytes: int
    leader_changes: int
    """Partitions whose preferred replica is on another broker."""
    loads: Ints
    leads: Ints
    violations: tuple[Violation, ...]


def count(problem: Problem, replicas: Replicas) -> Counted:
    """Compare replicas with what was asked for."""
    owners, old = replicas.owners, problem.now.counts
    is_new = np.ones(len(owners), dtype=bool)
    for place in range(int(old.max(initial=0))):
        some = np.flatnonzero(old[owners] > place)
        is_new[some] &= replicas.brokers[some] != problem.now.brokers[problem.now.starts[owners[some]] + place]
    new_owners = owners[is_new]
    had_one = problem.now.counts > 0
    changed = (problem.now.firsts != replicas.firsts) & had_one
    return Counted(
        moves=int(is_new.sum()),
        moved_bytes=int(problem.size_bytes[new_owners].sum()),
        leader_changes=int(changed.sum()),
        loads=problem.loads(replicas),
        leads=problem.leads(replicas),
        violations=tuple(_violations(problem, replicas)),
    )


def _violations(problem: Problem, replicas: Replicas) -> list[Violation]:
    total = len(problem.broker_ids)
    found: list[Violation] = []

    def add(constraint: str, partitions: Ints, detail: str) -> None:
        if len(partitions):
            found.append(Violation(constraint, tuple(problem.names(np.unique(partitions))), detail))

    owners = replicas.owners
    _, first, times = np.unique(owners * total + replicas.brokers, return_index=True, return_counts=True)
    add("distinct-brokers", owners[first[times > 1]], "a broker is named twice")
    outside = ~problem.is_usable[replicas.brokers]
    add("brokers", owners[outside], "replicas are on brokers that are to have none")
    short = np.flatnonzero(replicas.counts != problem.wanted)
    add("replication-factor", short, "there are more or fewer replicas than asked for")
    racks = len(problem.racks)
    where = problem.rack_of[replicas.brokers]
    known = ~outside
    counts = np.bincount(owners[known] * racks + where[known], minlength=len(replicas) * racks).reshape(-1, racks)
    rows, index = np.unique(np.column_stack([problem.wanted, counts]), axis=0, return_inverse=True)
    sizes = problem.rack_sizes
    good = np.array(
        [row[0] > sizes.sum() or spread_over(row[1:], sizes, int(row[0])) for row in rows.astype(np.int64)], bool
    )
    unspread = np.flatnonzero(~good[index.ravel()] if len(rows) else np.zeros(0, bool))
    complete = replicas.counts[unspread] == problem.wanted[unspread]
    add("racks", unspread[complete], "replicas share a rack although another one has room")
    return found
