"""A placement that was computed, checked and explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from backend.placement import documents
from backend.placement.exact import evenly_led
from backend.placement.leaders import choose_leaders
from backend.placement.placing import ARCS_ALONE, place
from backend.placement.problem import GONE, Bools, Brokers, Problem, Replicas
from backend.placement.spread import largest_share, ordered
from backend.placement.topics import exchanged, exchanges, rows_of
from backend.placement.verify import DETAILS, FACTOR, Counted, broken, count

NAMED = 100
_UNEVEN = (
    "brokers might be filled more evenly than this: no way was found; lower_bound is what any placement moves, "
    "even or not"
)


@dataclass(frozen=True)
class Violation:
    """What a placement does not keep: which rule, where, and what would have to be given up."""

    constraint: str
    partitions: tuple[str, ...]
    """Some of them, by name."""
    count: int
    detail: str

    @staticmethod
    def of(constraint: str, partitions: Sequence[str], detail: str) -> Violation:
        """Of all these partitions, the first of which are named."""
        return Violation(constraint, tuple(partitions[:NAMED]), len(partitions), detail)


@dataclass(frozen=True)
class Summary:
    """What came out, without the partitions."""

    brokers: Brokers
    counted: Counted
    lower_bound: int
    violations: tuple[Violation, ...]
    largest_share: float
    digest: str
    remarks: tuple[str, ...] | None = field(default=None, kw_only=True)
    """What is to be known of one that was handed in; None: it was computed."""
    is_even: bool = field(default=True, kw_only=True)
    """Whether brokers of one that was computed are as even as they can be."""

    @property
    def notes(self) -> list[str]:
        """What an operator should know of the question."""
        uneven = [] if self.is_even else [_UNEVEN]
        return [*(self.remarks or ()), *uneven, *_notes(self.brokers)]

    def document(self) -> dict[str, Any]:
        """As `treeline placement plan --json` prints it."""
        counted, ids = self.counted, self.brokers.broker_ids
        shown = np.flatnonzero(self.brokers.rack_of != GONE)
        return {
            "moves": counted.moves,
            "lower_bound": self.lower_bound,
            "gap": counted.moves - self.lower_bound,
            "moved_bytes": counted.moved_bytes,
            "leader_changes": counted.leader_changes,
            "digest": self.digest,
            "replicas_per_broker": {str(ids[b]): int(counted.loads[b]) for b in shown.tolist()},
            "leaders_per_broker": {str(ids[b]): int(counted.leads[b]) for b in shown.tolist()},
            "largest_share": round(self.largest_share, 4),
            "violations": [
                {
                    "constraint": each.constraint,
                    "partitions": list(each.partitions),
                    "count": each.count,
                    "detail": each.detail,
                }
                for each in self.violations
            ],
            "notes": self.notes,
            **({} if self.remarks is None else {"given": True}),
        }


@dataclass(frozen=True)
class Plan(Summary):
    """What is to be where."""

    problem: Problem
    replicas: Replicas

    @staticmethod
    def of(
        problem: Problem,
        replicas: Replicas,
        violations: Sequence[Violation],
        *,
        lower_bound: int | None = None,
        remarks: Sequence[str] | None = None,
        is_even: bool = True,
    ) -> Plan:
        """Counted; without a `lower_bound` that is what it moves."""
        counted = count(problem, replicas)
        return Plan(
            brokers=problem,
            counted=counted,
            lower_bound=counted.moves if lower_bound is None else lower_bound,
            violations=tuple(violations),
            largest_share=largest_share(problem, replicas),
            digest=documents.digest_of(problem, replicas),
            problem=problem,
            replicas=replicas,
            remarks=None if remarks is None else tuple(remarks),
            is_even=is_even,
        )

    def document(self) -> dict[str, Any]:
        """With the partitions."""
        return {**super().document(), "partitions": documents.rows_of(self.problem, self.replicas)}


def make(problem: Problem, most_arcs: int = ARCS_ALONE) -> Plan:
    """The plan for a question. What cannot be kept is told, and leaves the partitions that it is about as they
    are."""
    settled = settle(problem)
    impossible = settled.is_fixed & ~problem.is_fixed
    placed = place(settled, most_arcs)
    asked, every = placed.problem, np.arange(len(settled.now))
    found, leaders = placed.replicas, choose_leaders(asked, placed.replicas)
    if placed.is_alone:
        found, leaders = evenly_led(asked, found, leaders)
    by = exchanges(rows_of(asked, every, found, leaders))
    spread, leaders = exchanged(asked, every, found, leaders, by)
    if placed.is_alone:
        # Among the replicas that there are now there may be a choice with fewer changes.
        leaders = choose_leaders(asked, spread)
    replicas = ordered(asked, spread, leaders, ~asked.is_fixed)
    told = []
    if impossible.any():
        names = problem.names(np.flatnonzero(impossible))
        told.append(Violation.of(FACTOR, names, too_many(problem, int(problem.wanted[impossible].max()))))
    told += violations(problem, replicas, ~impossible)
    return Plan.of(problem, replicas, told, lower_bound=placed.lower_bound, is_even=placed.is_even)


def violations(problem: Problem, replicas: Replicas, judged: Bools) -> list[Violation]:
    """Rules that those of the partitions break which are `judged`."""
    found = []
    for rule, partitions in broken(problem, replicas).items():
        mine = partitions[judged[partitions]]
        if len(mine):
            found.append(Violation.of(rule, problem.names(mine), DETAILS[rule]))
    return found


def settle(problem: Problem) -> Problem:
    """With those partitions fixed, too, that are to have more replicas than there are brokers for them."""
    return replace(problem, is_fixed=problem.is_fixed | (problem.wanted > int(problem.is_usable.sum())))


def too_many(brokers: Brokers, most: int) -> str:
    """Why partitions stay as they are that were to have up to so many replicas."""
    there = int(brokers.is_usable.sum())
    return (
        f"{most} replicas do not fit on {there} brokers, one on each: lower the replication factor to {there}, or "
        f"add {most - there} brokers to target_brokers; these partitions stay as they are"
    )


def _notes(brokers: Brokers) -> list[str]:
    found = []
    gone = brokers.broker_ids[brokers.rack_of == GONE].tolist()
    if gone:
        some = ", ".join(str(each) for each in gone[:5])
        found.append(
            f"replicas are on brokers that are not among the brokers ({some}{' ...' if len(gone) > 5 else ''}): "
            "taken for gone; their replicas are copied from the others"
        )
    sizes = brokers.rack_sizes
    if len(brokers.racks) == 1:
        named = brokers.racks[0]
        found.append(
            f"all brokers are in rack {named!r}: no placement survives its loss"
            if named
            else "no broker has a rack: replicas are spread over brokers only"
        )
    elif (sizes == 0).any():
        empty = ", ".join(brokers.racks[at] for at in np.flatnonzero(sizes == 0).tolist())
        found.append(f"no broker of {empty} is to hold replicas: there is one rack less to lose")
    return found
