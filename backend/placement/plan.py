"""A placement that was computed, checked and explained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backend.placement import documents
from backend.placement.leaders import choose_leaders
from backend.placement.placing import ARCS_ALONE, place
from backend.placement.problem import GONE, Problem, Replicas
from backend.placement.spread import largest_share, ordered
from backend.placement.verify import Counted, Violation, count

_NAMED = 100


@dataclass(frozen=True)
class Plan:
    """What is to be where."""

    problem: Problem
    replicas: Replicas
    counted: Counted
    lower_bound: int
    violations: tuple[Violation, ...]
    notes: tuple[str, ...]
    """What an operator should know of the question."""
    largest_share: float
    digest: str

    def document(self) -> dict[str, Any]:
        """As `treeline placement plan --json` prints it."""
        counted, ids = self.counted, self.problem.broker_ids
        shown = np.flatnonzero(self.problem.rack_of != GONE)
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
            "partitions": documents.rows_of(self.problem, self.replicas),
            "violations": [
                {
                    "constraint": each.constraint,
                    "partitions": list(each.partitions[:_NAMED]),
                    "count": len(each.partitions),
                    "detail": each.detail,
                }
                for each in self.violations
            ],
            "notes": list(self.notes),
        }


def make(problem: Problem, most_arcs: int = ARCS_ALONE) -> Plan:
    """The plan for a question. What cannot be kept is told, and leaves the partitions that it is about as they
    are."""
    settled, impossible = _possible(problem)
    placed = place(settled, most_arcs)
    leaders = choose_leaders(settled, placed.replicas)
    replicas = ordered(settled, placed.replicas, leaders, ~settled.is_fixed)
    counted = count(problem, replicas)
    told = tuple(each for each in counted.violations if not _is_of(each, impossible))
    return Plan(
        problem=problem,
        replicas=replicas,
        counted=counted,
        lower_bound=placed.lower_bound,
        violations=(*impossible, *told),
        notes=tuple(_notes(problem)),
        largest_share=largest_share(problem, replicas),
        digest=documents.digest_of(problem, replicas),
    )


def _possible(problem: Problem) -> tuple[Problem, tuple[Violation, ...]]:
    """The question without partitions that cannot be placed, and why they cannot."""
    brokers = int(problem.is_usable.sum())
    too_many = (problem.wanted > brokers) & ~problem.is_fixed
    if not too_many.any():
        return problem, ()
    at = np.flatnonzero(too_many)
    most = int(problem.wanted[at].max())
    detail = (
        f"{most} replicas do not fit on {brokers} brokers, one on each: lower the replication factor to "
        f"{brokers}, or add {most - brokers} brokers to target_brokers; these partitions stay as they are"
    )
    impossible = Violation("replication-factor", tuple(problem.names(at)), detail)
    return replace(problem, is_fixed=problem.is_fixed | too_many), (impossible,)


def _is_of(violation: Violation, told: tuple[Violation, ...]) -> bool:
    return any(set(violation.partitions) <= set(each.partitions) for each in told)


def _notes(problem: Problem) -> list[str]:
    found = []
    gone = problem.broker_ids[problem.rack_of == GONE].tolist()
    if gone:
        some = ", ".join(str(each) for each in gone[:5])
        found.append(
            f"replicas are on brokers that are not among the brokers ({some}{' ...' if len(gone) > 5 else ''}): "
            "taken for gone; their replicas are copied from the others"
        )
    sizes = problem.rack_sizes
    if len(problem.racks) == 1:
        named = problem.racks[0]
        found.append(
            f"all brokers are in rack {named!a}: no placement survives its loss"
            if named
            else "no broker has a rack: replicas are spread over brokers only"
        )
    elif (sizes == 0).any():
        empty = ", ".join(problem.racks[at] for at in np.flatnonzero(sizes == 0).tolist())
        found.append(f"no broker of {empty} is to hold replicas: there is one rack less to lose")
    return found
