"""Makes the plan of a switch from the present state of the database and the clusters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from backend.domain.switch import switch_plan
from backend.domain.switch.switch_facts import Reversed, SwitchRequest
from backend.domain.switch.switch_plan import Plan
from backend.queries.switch.switches import SwitchRow
from backend.settings import Settings
from backend.switching import reading
from backend.switching.brokers import predict_broker_losses
from backend.switching.cluster_answers import query_clusters


def reverse_request(switch: SwitchRow) -> SwitchRequest:
    """Return the request that reverses a switch: the clients that it moved and the targets that it changed."""
    return SwitchRequest(
        source=switch.target,
        target=switch.source,
        drain=switch.drain,
        reverses=Reversed(switch=switch.id, moves=frozenset(switch.moves), retargets=switch.retargets),
    )


def make(
    snapshot: Callable[[], AbstractContextManager[Connection]],
    settings: Settings,
    request: SwitchRequest,
    now: datetime,
    *,
    asks: bool = True,
) -> Plan:
    """Make the plan; it takes as long as the slowest cluster, a few seconds at most.

    `snapshot` opens a connection that sees one moment of the database; it is closed before clusters are queried.
    With `asks` False, clusters are not queried: no time is lost, and what decides an emergency switch, its digest
    included, is the same.

    Raises NotFound (unknown cluster, tenant, instance, environment, zone or broker), ValueInvalid (brokers assumed
    to be gone together with others of their cluster), ClusterSilent (such a broker's cluster does not answer).
    """
    with snapshot() as connection:
        ground = reading.read(connection, settings, request, now)
    if not asks:
        return switch_plan.make(ground.facts, request)
    brokers_gone = predict_broker_losses(ground, settings, request)
    answers = replace(query_clusters(ground, settings, request), brokers_gone=brokers_gone)
    return switch_plan.make(replace(ground.facts, answers=answers), request)
