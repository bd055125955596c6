"""Automatic placements: proposed, and applied, as each cluster's policy says when brokers join or leave.

All decisions are made under the append lock from what is read there, so that two processes that tick at the same
time propose once.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection, Engine

from backend import deciders
from backend.changes import placements as changes
from backend.dispatch import Directed
from backend.domain.base.errors import DomainError
from backend.domain.placement.broker_changes import (
    BrokerChange,
    EarlierPlacement,
    broker_change,
    hold_back_reason,
    should_propose,
)
from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placement_policy import PlacementPolicy, Policy
from backend.domain.placement.placement_proposals import HoldBack, Proposal
from backend.domain.placement.placement_runs import RUNNING, PlacementState
from backend.domain.placement.placements import PlacementCommand
from backend.eventlog.recorded import Metadata
from backend.queries.base import events
from backend.queries.clusters.broker_presence import clusters_with_broker_changes, read_brokers
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.placement.placement_policies import find_policy
from backend.queries.placement.placements import PlacementRow, list_placements
from backend.settings import Settings
from workers import context

log = structlog.get_logger("placement-policy")

ACTOR = "worker:placement-policy"
_MAX_EARLIER = 200
"""Number of earlier placements of a cluster that are considered."""


class PlacementPolicies:
    """The automatic placements of one process; call `tick` about once a second."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._due = float("-inf")

    def tick(self) -> None:
        """Handle the clusters whose brokers joined or left, unless that was done recently.

        Raises DatabaseUnavailable.
        """
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._settings.replication_look_seconds
        with self._engine.connect() as connection:
            news = set(clusters_with_broker_changes(connection))
            rows = [row for row in list_clusters(connection) if row.kafka_cluster_id in news] if news else []
            # Check outside the append lock first: usually there is nothing to do.
            acting = [row for row in rows if self._commands(connection, row)]
        for row in acting:
            self._act(row)

    def _act(self, row: ClusterRow) -> None:
        done: list[Directed] = []

        def build(connection: Connection) -> list[Directed]:
            done.extend(self._commands(connection, row))
            return done

        try:
            context.dispatch_all(build)
        except DomainError as error:
            log.warning("automatic placement skipped", cluster=row.name, reason=error.detail)
            return
        for each in done:
            log.info(
                "automatic placement", cluster=row.name, stream=each.stream, command=type(each.command).__name__
            )

    def _commands(self, connection: Connection, row: ClusterRow) -> Sequence[Directed]:
        """Return the commands to execute for a cluster."""
        policy = find_policy(connection, row.name).policy
        seen = read_brokers(connection, row.kafka_cluster_id)
        if row.state != "online" or policy.policy is Policy.OFF or not seen.is_fresh:
            return []
        settled = timedelta(seconds=self._settings.broker_settled_seconds)
        change = broker_change(seen.brokers, settled, timedelta(minutes=policy.away_minutes), seen.now)
        if not change or seen.moving:
            return []
        rows = list_placements(connection, cluster=row.name, most=_MAX_EARLIER)
        if rows and (command := _next_command(connection, policy, rows, change)) is not None:
            return [_directed(rows[0].id, command)]
        if not should_propose(change, _earlier(connection, rows), seen.now):
            return []
        placement = uuid.uuid4().hex[:12]
        aims = Aims(target_brokers=change.target_brokers)
        proposal = Proposal(policy=str(policy.policy), joined=change.joined, left=change.left)
        asking = changes.request_placement(placement, row.name, aims, proposal)
        return [_directed(placement, asking.build(connection))]


def _next_command(
    connection: Connection, policy: PlacementPolicy, rows: Sequence[PlacementRow], change: BrokerChange
) -> PlacementCommand | None:
    """Return the command for a cluster's newest placement, the first of `rows`.

    Returns None unless the placement was proposed to be applied and nobody has changed it.
    """
    row = rows[0]
    proposal = row.proposal
    if proposal is None or proposal.policy != Policy.APPLY or policy.policy is not Policy.APPLY:
        return None
    if row.state is not PlacementState.PLANNED or row.run or row.held_back is not None or row.digest is None:
        return None
    reason = hold_back_reason(proposal, change, (row.summary or {}).get("violations", {}))
    if reason is not None:
        return HoldBack(reason=reason)
    if any(each.state in RUNNING for each in rows):
        return None
    return changes.start_applying(connection, row.digest, policy.limits.named())


def _earlier(connection: Connection, rows: Sequence[PlacementRow]) -> list[EarlierPlacement]:
    times: dict[int, datetime] = events.times_of(connection, [row.requested_at_position for row in rows])
    return [
        EarlierPlacement(
            target_brokers=row.aims.target_brokers,
            is_given=row.given is not None,
            state=row.state,
            time=times[row.requested_at_position],
        )
        for row in rows
    ]


def _directed(placement: str, command: PlacementCommand) -> Directed:
    metadata = Metadata(actor=ACTOR, request_id=placement)
    return Directed(deciders.PLACEMENT, changes.event_stream(placement), command, metadata)
