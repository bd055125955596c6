"""All that discovery answers from, read in one go: it serves many clients that wait, from memory."""

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
"""Events that may change an answer."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    """Where a client is sent, and the switch that is about to move it, if one is."""

    active: ActiveRow
    cluster: ClusterRow
    distance: int
    switch: SwitchRow | None
    next: ClusterRow | None
    """Where that switch goes to."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """As of one position of the event log."""

    position: int
    active: Mapping[Place, Mapping[str | None, ActiveRow]]
    """By zone, None for all without a row of their own."""
    clusters: Mapping[str, ClusterRow]
    distances: Mapping[str, int]
    switches: Mapping[tuple[Place, str | None], SwitchRow]
    """Those whose move is still to come, by what they move."""

    def sent(self, place: Place, zone: str | None) -> Sent | None:
        """Where clients of an environment's zone are sent; None if there is no such environment.

        Raises StateConflict while there is no tree.
        """
        rows = self.active.get(place)
        if rows is None:
            return None
        row = rows.get(zone) or rows[None]
        cluster = self.clusters.get(row.cluster or "")
        if cluster is None:
            raise StateConflict(
                f"{'/'.join(place)} has no active cluster: there is no tree yet; PUT /trees/main sets it"
            )
        # A switch may move a zone that goes by its environment's row until then.
        switch = self.switches.get((place, zone)) or self.switches.get((place, row.zone))
        return Sent(
            active=row,
            cluster=cluster,
            distance=self.distances.get(cluster.name, 0),
            switch=switch,
            next=None if switch is None else self.clusters.get(switch.target),
        )


def read(connection: Connection, last: Snapshot | None) -> Snapshot:
    """The present snapshot; the last one, if nothing that it tells has changed."""
    head = event_queries.head(connection).position
    # A head behind what was seen is another log: a backup was restored.
    if last is not None and last.position <= head:
        news = _news(connection, last.position)
        if not news:
            return replace(last, position=head)
        if news <= PHASE_EVENTS:
            # While clients are held every millisecond counts.
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
    """Names of the events since then that may change an answer."""
    query = sa.select(events.c.name).where(events.c.position > after, events.c.name.in_(_TELLING)).distinct()
    return frozenset(connection.execute(query).scalars())
