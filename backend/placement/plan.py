"""A placement plan that was computed, verified and explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from backend.placement import documents
from backend.placement.exact import evenly_led
from backend.placement.failover_order import largest_share, ordered
from backend.placement.leaders import choose_leaders
from backend.placement.partition_placement import ARCS_ALONE, place
from backend.placement.problem import GONE, Bools, Brokers, Problem, Replicas
from backend.placement.topic_exchange import exchanged, exchanges, rows_of
from backend.placement.verify import DETAILS, FACTOR, Counted, broken, count

NAMED = 100
_UNEVEN = (
    "no better balance of replicas was found, though one may exist; lower_bound holds for any placement, "
    "balanced or not"
)


@dataclass(frozen=True)
class Violation:
    """A rule that a plan does not satisfy, with the partitions and the trade-off that would resolve it."""

    constraint: str
    partitions: tuple[str, ...]
    """Names of the first affected partitions, at most `NAMED`."""
    count: int
    detail: str

    @staticmethod
    def of(constraint: str, partitions: Sequence[str], detail: str) -> Violation:
        """Build a violation from all affected partitions; only the first `NAMED` are listed by name."""
        return Violation(constraint, tuple(partitions[:NAMED]), len(partitions), detail)


@dataclass(frozen=True)
class Summary:
    """The figures of a plan, without its partitions."""

    brokers: Brokers
    counted: Counted
    lower_bound: int
    violations: tuple[Violation, ...]
    largest_share: float
    digest: str
    remarks: tuple[str, ...] | None = field(default=None, kw_only=True)
    """Remarks on a plan that was submitted as a reassignment; None for a computed plan."""
    is_even: bool = field(default=True, kw_only=True)
    """False if the solver found no way to balance brokers as evenly as possible; True for submitted plans."""

    @property
    def notes(self) -> list[str]:
        """Return what an operator should know about the plan: remarks, uneven brokers, unknown brokers, racks."""
        uneven = [] if self.is_even else [_UNEVEN]
        return [*(self.remarks or ()), *uneven, *_notes(self.brokers)]

    def document(self) -> dict[str, Any]:
        """Return the JSON document that `treeline placement plan --json` prints, without partitions."""
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
    """A plan with its partitions: which replicas are to be on which brokers."""

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
        """Build a plan and count its figures; without a `lower_bound`, its own number of moves is the bound."""
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
        """Return the JSON document with partitions."""
        return {**super().document(), "partitions": documents.rows_of(self.problem, self.replicas)}


def make(problem: Problem, most_arcs: int = ARCS_ALONE) -> Plan:
    """Compute the plan for a problem.

    Rules that cannot be satisfied are reported as violations, and the partitions concerned stay as they are.
    """
    settled = settle(problem)
    impossible = settled.is_fixed & ~problem.is_fixed
    placed = place(settled, most_arcs)
    solved, every = placed.problem, np.arange(len(settled.now))
    found, leaders = placed.replicas, choose_leaders(solved, placed.replicas)
    if placed.is_alone:
        found, leaders = evenly_led(solved, found, leaders)
    by = exchanges(rows_of(solved, every, found, leaders))
    spread, leaders = exchanged(solved, every, found, leaders, by)
    if placed.is_alone:
        # The exchange changed the candidates, and among the new ones there may be a choice with fewer leader
        # changes.
        leaders = choose_leaders(solved, spread)
    replicas = ordered(solved, spread, leaders, ~solved.is_fixed)
    found_violations = []
    if impossible.any():
        names = problem.names(np.flatnonzero(impossible))
        found_violations.append(
            Violation.of(FACTOR, names, too_many(problem, int(problem.wanted[impossible].max())))
        )
    found_violations += violations(problem, replicas, ~impossible)
    return Plan.of(problem, replicas, found_violations, lower_bound=placed.lower_bound, is_even=placed.is_even)


def violations(problem: Problem, replicas: Replicas, judged: Bools) -> list[Violation]:
    """Return the rules that partitions marked in `judged` violate."""
    found = []
    for rule, partitions in broken(problem, replicas).items():
        mine = partitions[judged[partitions]]
        if len(mine):
            found.append(Violation.of(rule, problem.names(mine), DETAILS[rule]))
    return found


def settle(problem: Problem) -> Problem:
    """Return the problem with partitions fixed whose replication factor exceeds the number of usable brokers."""
    return replace(problem, is_fixed=problem.is_fixed | (problem.wanted > int(problem.is_usable.sum())))


def too_many(brokers: Brokers, most: int) -> str:
    """Explain why partitions with up to `most` requested replicas stay as they are."""
    there = int(brokers.is_usable.sum())
    return (
        f"{most} replicas need {most} brokers, and only {there} may hold replicas: lower the replication "
        f"factor to {there}, or add {most - there} brokers to target_brokers; these partitions stay as they are"
    )


def _notes(brokers: Brokers) -> list[str]:
    found = []
    gone = brokers.broker_ids[brokers.rack_of == GONE].tolist()
    if gone:
        some = ", ".join(str(each) for each in gone[:5])
        found.append(
            f"replicas are on brokers that are not in the list of brokers ({some}{' ...' if len(gone) > 5 else ''}"
            "): these brokers count as lost, and their replicas are recreated from the remaining ones"
        )
    sizes = brokers.rack_sizes
    if len(brokers.racks) == 1:
        named = brokers.racks[0]
        found.append(
            f"all brokers are in rack {named!r}: no placement survives the loss of that rack"
            if named
            else "no broker has a rack: replicas are spread over brokers, not over racks"
        )
    elif (sizes == 0).any():
        empty = ", ".join(brokers.racks[at] for at in np.flatnonzero(sizes == 0).tolist())
        found.append(f"no broker in {empty} may hold replicas: fault tolerance is one rack lower")
    return found
