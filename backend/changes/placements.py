"""Changes of placements: requesting a plan, applying it, rolling it back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from backend.changes.change import Change
from backend.deciders import PLACEMENT
from backend.dispatch import Outcome
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placement_proposals import Proposal
from backend.domain.placement.placement_runs import NamedLimits, PlacementRunCommand, StartApplying, StartRollback
from backend.domain.placement.placements import Placement, PlacementCommand, RequestPlacement, SubmitReassignment
from backend.placement.errors import PlacementInvalid
from backend.placement.reassignment import read_reassignment
from backend.queries.clusters.clusters import list_clusters
from backend.queries.placement import placements as queries
from backend.queries.topics.declared_factors import declared_factors

BuildRun = Callable[[Connection], PlacementRunCommand]
"""Builds an operator's command to a placement from the state at that moment."""
PlacementChange = Change[Placement | None, PlacementCommand]


def request_placement(
    placement: str, cluster: str, aims: Aims, proposal: Proposal | None = None
) -> PlacementChange:
    """Request a plan under this id, which a worker computes; moves nothing.

    `proposal` is the reason, if a worker requests the plan.
    """

    def build(connection: Connection) -> RequestPlacement:
        brokers = {row.name: row.brokers or 0 for row in list_clusters(connection)}
        return RequestPlacement(
            placement=placement,
            cluster=cluster,
            aims=aims,
            known_clusters=frozenset(brokers),
            declared_factors=declared_factors(connection).get(cluster, {}) if aims.as_declared else {},
            brokers=brokers.get(cluster, 0),
            proposal=proposal,
        )

    return Change(PLACEMENT, event_stream(placement), build)


def submit_reassignment(placement: str, cluster: str, document: dict[str, Any]) -> PlacementChange:
    """Submit a reassignment under this id, which a worker checks; moves nothing. Raises ValueInvalid."""
    try:
        partitions = len(read_reassignment(document))
    except PlacementInvalid as error:
        where, _, what = str(error).partition(": ")
        raise ValueInvalid(f"{where or '/'}: {what}", (FieldError(f"/reassignment{where}", what),)) from error
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]

    def build(connection: Connection) -> SubmitReassignment:
        return SubmitReassignment(
            placement=placement,
            cluster=cluster,
            partitions=partitions,
            digest=digest,
            known_clusters=_known_clusters(connection),
        )

    def keep(connection: Connection, _: Outcome) -> None:
        queries.store_reassignment(connection, placement, document)

    return Change(PLACEMENT, event_stream(placement), build, keep)


def start_applying(connection: Connection, digest: str, limits: NamedLimits) -> StartApplying:
    """Start the planned moves, unless another placement moves replicas on the cluster."""
    return StartApplying(digest=digest, limits=limits, busy=_busy(connection))


def start_rollback(connection: Connection, limits: NamedLimits) -> StartRollback:
    """Start moving replicas back, unless another placement moves replicas on the cluster."""
    return StartRollback(limits=limits, busy=_busy(connection))


def _known_clusters(connection: Connection) -> frozenset[str]:
    return frozenset(row.name for row in list_clusters(connection))


def _busy(connection: Connection) -> dict[str, str]:
    return {row.cluster: row.id for row in queries.running_placements(connection)}


def event_stream(placement: str) -> str:
    """Return the name of a placement's event stream."""
    return f"placement-{placement}"
