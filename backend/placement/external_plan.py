"""Plans that were submitted as a reassignment instead of being computed, and checked against their cluster.

A submitted plan is not held to the goals of a computed one: the operator may mean it. It is refused if it is
ambiguous or cannot be executed; its effect on brokers and racks is counted and reported like that of any plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from backend.placement import documents
from backend.placement.errors import PlacementInvalid, few
from backend.placement.partition_placement import place
from backend.placement.plan import Plan, make, settle, violations
from backend.placement.problem import GONE, Problem, Replicas
from backend.placement.reading import Listed, an_object, has_only
from backend.placement.reassignment import read_reassignment
from backend.placement.request_document import NAMES, read_problem

MAX_NAMED = 3
"""Number of mismatching partitions that an error names; the rest is only counted."""
MAX_COMPARED_REPLICAS = 1_000_000
"""Largest cluster, in replicas, for which a balanced plan is computed for comparison; the time grows with size."""


def plan_for_request(document: object) -> Plan:
    """Compute the plan for a request; a request with a `reassignment` gets exactly that plan.

    Raises PlacementInvalid.
    """
    given = an_object(document, "")
    has_only(given, (*NAMES, "reassignment"), "")
    problem = read_problem({name: value for name, value in given.items() if name != "reassignment"})
    if "reassignment" not in given:
        return make(problem)
    at = "/reassignment"
    wishes = sorted(given.keys() & {"target_brokers", "replication_factor", "excluded_topics", "no_leaders"})
    if wishes:
        raise PlacementInvalid(f"/{wishes[0]}: cannot be combined with a reassignment")
    return plan_from_reassignment(problem, read_reassignment(given["reassignment"], at), at)


def plan_from_reassignment(problem: Problem, given: Sequence[Listed], at: str = "") -> Plan:
    """Turn a reassignment into a plan: its partitions as listed, all others unchanged.

    The lower bound is the number of its moves, since no other plan yields the same placement. Raises
    PlacementInvalid for partitions and brokers that the cluster does not have.
    """
    replicas = _replicas(problem, given, f"{at}/partitions")
    problem = replace(problem, wanted=replicas.counts, is_fixed=np.zeros(len(problem.now), bool))
    changed = documents.changed(problem, replicas)
    # Violations that existed before are not caused by this plan.
    judged = np.zeros(len(problem.now), bool)
    judged[changed] = True
    remarks = _remarks(problem, replicas, len(changed), len(given))
    return Plan.of(problem, replicas, violations(problem, replicas, judged), remarks=remarks)


def _replicas(problem: Problem, given: Sequence[Listed], at: str) -> Replicas:
    places = {
        (problem.topics[topic], number): index
        for index, (topic, number) in enumerate(
            zip(problem.topic_of.tolist(), problem.numbers.tolist(), strict=True)
        )
    }
    topics = set(problem.topics)
    at_broker = {broker: index for index, broker in enumerate(problem.broker_ids.tolist())}
    known = {broker for broker, index in at_broker.items() if problem.rack_of[index] != GONE}
    rows = _present(problem)
    wrong = []
    for index, each in enumerate(given):
        place_at = places.get((each.topic, each.number))
        if place_at is None:
            what = f"partition {each.topic}-{each.number}" if each.topic in topics else f"topic {each.topic}"
            wrong.append(f"{at}/{index}: the cluster has no {what}")
            continue
        held = {int(problem.broker_ids[broker]) for broker in rows[place_at]}
        strange = [broker for broker in each.replicas if broker not in known and broker not in held]
        if strange:
            wrong.append(
                f"{at}/{index}/replicas: {few(strange)} not among the cluster's brokers {few(sorted(known))}"
            )
            continue
        rows[place_at] = [at_broker[broker] for broker in each.replicas]
    if wrong:
        more = [f"and {len(wrong) - MAX_NAMED:,} more"] if len(wrong) > MAX_NAMED else []
        raise PlacementInvalid("; ".join([*wrong[:MAX_NAMED], *more]))
    return Replicas.listed(rows)


def _present(problem: Problem) -> list[list[int]]:
    starts, brokers = problem.now.starts.tolist(), problem.now.brokers.tolist()
    return [brokers[starts[p] : starts[p + 1]] for p in range(len(problem.now))]


def _remarks(problem: Problem, replicas: Replicas, changed: int, given: int) -> list[str]:
    said = ["this plan was submitted as a reassignment, not computed: its moves are the listed ones"]
    if given > changed:
        said.append(f"{given - changed:,} of the {given:,} listed partitions are placed like this already")
    factors = int((problem.now.counts != replicas.counts).sum())
    if factors:
        said.append(f"{factors:,} partitions change their replication factor")
    if len(replicas.brokers) <= MAX_COMPARED_REPLICAS:
        least = place(settle(problem)).lower_bound
        said.append(f"for comparison, a balanced plan with the same replication factors takes {least:,} moves")
    return said
