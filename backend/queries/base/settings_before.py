"""Previous settings of resources, for events that carry new settings as a whole: they show what changed.

Projections keep all former rows, so one statement answers for all events of a page, by keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Select, Table

from backend.eventlog.recorded import StoredEvent
from backend.projections.applications import APPLICATION, applications
from backend.projections.clusters import clusters
from backend.projections.placement_policies import placement_policies
from backend.projections.placements import placements
from backend.projections.streams import STREAM, streams
from backend.projections.tenants import environments
from backend.projections.trees import trees
from backend.projections.users import users
from backend.projections.webhooks import webhooks

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class _Kept:
    """Location of the settings that events of one name replace: rows of a table, by the values of its key."""

    table: Table
    key: Callable[[StoredEvent], Iterable[object]]


def _fields(*names: str) -> Callable[[StoredEvent], Iterable[object]]:
    return lambda event: [event.data.get(name) for name in names]


_KEPT = {
    "ApplicationChanged": _Kept(applications, _fields(*APPLICATION)),
    "ClusterChanged": _Kept(clusters, lambda event: [event.stream.removeprefix("cluster-")]),
    "EnvironmentChanged": _Kept(environments, _fields("tenant", "instance", "environment")),
    "PlacementLimitsChanged": _Kept(placements, _fields("placement")),
    "PlacementPolicySet": _Kept(placement_policies, _fields("cluster")),
    "StreamChanged": _Kept(streams, _fields(*STREAM)),
    "TreeReplaced": _Kept(trees, lambda event: [event.stream.removeprefix("tree-")]),
    "UserChanged": _Kept(users, _fields("user")),
    "WebhookChanged": _Kept(webhooks, _fields("webhook")),
}


def settings_before(connection: Connection, events: Iterable[StoredEvent]) -> Mapping[int, Settings]:
    """Return the row that each event ended, by its position; nothing for items without earlier settings."""
    asked: dict[str, list[StoredEvent]] = {}
    for event in events:
        if event.name in _KEPT:
            asked.setdefault(event.name, []).append(event)
    if not asked:
        return {}
    rows = connection.execute(sa.union_all(*(_ended(_KEPT[name], found) for name, found in asked.items())))
    return {row.position: row.settings for row in rows}


def _ended(kept: _Kept, events: Collection[StoredEvent]) -> Select[Any]:
    table = kept.table
    columns = [column for column in table.primary_key if column.name != "valid_from"]
    keys = sorted({tuple(map(str, kept.key(event))) for event in events})
    whole = sa.func.to_jsonb(sa.literal_column(table.name)).label("settings")
    return sa.select(table.c.valid_to.label("position"), whole).where(
        sa.tuple_(*columns).in_(keys), table.c.valid_to.in_([event.position for event in events])
    )
