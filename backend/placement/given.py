"""A placement that was handed in instead of computed: checked against the cluster that it is for.

It is not judged by what a computed plan would be: an operator may mean it. What could not be carried out, or means
two things, is refused; what it does to brokers and racks is counted and told like that of any plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from backend.placement import documents
from backend.placement.errors import PlacementInvalid, few
from backend.placement.placing import place
from backend.placement.plan import Plan, make, settle, violations
from backend.placement.problem import GONE, Problem, Replicas
from backend.placement.questions import NAMES, read_problem
from backend.placement.reading import Listed, an_object, has_only
from backend.placement.reassignment import read_reassignment

MOST_TOLD = 3
"""Partitions that do not fit the cluster, of which all others are counted only."""
MOST_COMPARED = 1_000_000
"""Replicas of clusters whose balanced placement is computed besides, which takes longer the more there are."""


def answered(document: object) -> Plan:
    """The plan for a question; one with a `reassignment` asks for no other plan than that. Raises
    PlacementInvalid."""
    given = an_object(document, "")
    has_only(given, (*NAMES, "reassignment"), "")
    problem = read_problem({name: value for name, value in given.items() if name != "reassignment"})
    if "reassignment" not in given:
        return make(problem)
    at = "/reassignment"
    wishes = sorted(given.keys() & {"target_brokers", "replication_factor", "excluded_topics", "no_leaders"})
    if wishes:
        raise PlacementInvalid(f"/{wishes[0]}: does not go with a reassignment")
    return planned_as(problem, read_reassignment(given["reassignment"], at), at)


def planned_as(problem: Problem, given: Sequence[Listed], at: str = "") -> Plan:
    """The plan that a reassignment is: its partitions as it says, all others as they are.

    Its bound is the number of its moves: nothing less comes to just that. Raises PlacementInvalid for partitions
    and brokers that the cluster does not have.
    """
    replicas = _replicas(problem, given, f"{at}/partitions")
    problem = replace(problem, wanted=replicas.counts, is_fixed=np.zeros(len(problem.now), bool))
    changed = documents.changed(problem, replicas)
    # What was so before is none of its doing.
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
            what = f"no partition {each.topic}-{each.number}" if each.topic in topics else f"no topic {each.topic}"
            wrong.append(f"{at}/{index}: there is {what} on the cluster")
            continue
        held = {int(problem.broker_ids[broker]) for broker in rows[place_at]}
        strange = [broker for broker in each.replicas if broker not in known and broker not in held]
        if strange:
            wrong.append(f"{at}/{index}/replicas: {few(strange)} not among the brokers {few(sorted(known))}")
            continue
        rows[place_at] = [at_broker[broker] for broker in each.replicas]
    if wrong:
        more = [f"and {len(wrong) - MOST_TOLD:,} more like these"] if len(wrong) > MOST_TOLD else []
        raise PlacementInvalid("; ".join([*wrong[:MOST_TOLD], *more]))
    return Replicas.listed(rows)


def _present(problem: Problem) -> list[list[int]]:
    starts, brokers = problem.now.starts.tolist(), problem.now.brokers.tolist()
    return [brokers[starts[p] : starts[p + 1]] for p in range(len(problem.now))]


def _remarks(problem: Problem, replicas: Replicas, changed: int, given: int) -> list[str]:
    said = ["this placement was given, not computed: its moves are those that it names"]
    if given > changed:
        said.append(f"{given - changed:,} of the {given:,} partitions that it names are so already")
    factors = int((problem.now.counts != replicas.counts).sum())
    if factors:
        said.append(f"{factors:,} partitions get another replication factor")
    if len(replicas.brokers) <= MOST_COMPARED:
        least = place(settle(problem)).lower_bound
        said.append(f"a computed one with the same replication factors, brokers even within one: {least:,} moves")
    return said
