"""Snapshot of everything that discovery answers from; it serves many long-polling clients from memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.base.errors import StateConflict
from backend.domain.switch import discovery
from backend.domain.switch.cluster_switch import PHASE_EVENTS
from backend.domain.switch.switch_facts import Place
from backend.eventlog.tables import events
from backend.projections import active_clusters, clusters, switches, trees
from backend.queries.base import events as event_queries
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.switch.active_clusters import ActiveRow, list_active
from backend.queries.switch.switches import SwitchRow, moving_switches
from backend.queries.tree.trees import get_tree

_TELLING = frozenset(
    cls.stored_name for module in (active_clusters, clusters, switches, trees) for cls in module.PROJECTION.events
)
"""Names of events that may change an answer."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    """Active cluster of a client, and the switch that is about to move it, if there is one."""

    active: ActiveRow
    cluster: ClusterRow
    distance: int
    switch: SwitchRow | None
    next: ClusterRow | None
    """Target of that switch."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """State of discovery as of one position of the event log."""

    position: int
    active: Mapping[Place, Mapping[str | None, ActiveRow]]
    """Rows by zone; None is the row for all zones without one of their own."""
    clusters: Mapping[str, ClusterRow]
    distances: Mapping[str, int]
    switches: Mapping[tuple[Place, str | None], SwitchRow]
    """Switches before their move, by the clients that they move."""

    def sent(self, place: Place, zone: str | None) -> Sent | None:
        """Return where clients of an environment's zone are sent; None if there is no such environment.

        Raises StateConflict while there is no tree.
        """
        rows = self.active.get(place)
        if rows is None:
            return None
        row = rows.get(zone) or rows[None]
        cluster = self.clusters.get(row.cluster or "")
        if cluster is None:
            raise StateConflict(
                f"{'/'.join(place)} has no active cluster: there is no tree yet; create it with PUT /trees/main"
            )
        # A zone that used its environment's row so far may be moved by a switch of its own.
        switch = self.switches.get((place, zone)) or self.switches.get((place, row.zone))
        return Sent(
            active=row,
            cluster=cluster,
            distance=self.distances.get(cluster.name, 0),
            switch=switch,
            next=None if switch is None else self.clusters.get(switch.target),
        )


def read(connection: Connection, last: Snapshot | None) -> Snapshot:
    """Return the current snapshot; the last one if no event since then changes an answer."""
    head = event_queries.head(connection).position
    # A head behind the last position means another log: a backup was restored.
    if last is not None and last.position <= head:
        news = _news(connection, last.position)
        if not news:
            return replace(last, position=head)
        if news <= PHASE_EVENTS:
            # Re-read the switches only: while clients hold, every millisecond counts.
            return replace(last, position=head, switches=_moving(connection))
    active: dict[Place, dict[str | None, ActiveRow]] = {}
    for row in list_active(connection):
        active.setdefault(row.place, {})[row.zone] = row
    tree = get_tree(connection)
    root = None if tree is None else tree.shape
    return Snapshot(
        position=head,
        active=active,
        clusters={row.name: row for row in list_clusters(connection)},
        distances={} if tree is None or root is None else discovery.distances(root, tree.targets),
        switches=_moving(connection),
    )


def _moving(connection: Connection) -> dict[tuple[Place, str | None], SwitchRow]:
    return {(m.place, m.zone): row for row in moving_switches(connection) for m in row.moves}


def _news(connection: Connection, after: int) -> frozenset[str]:
    """Return the names of the events since a position that may change an answer."""
    query = sa.select(events.c.name).where(events.c.position > after, events.c.name.in_(_TELLING)).distinct()
    return frozenset(connection.execute(query).scalars())
