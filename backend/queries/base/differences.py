"""Configuration differences between two positions of the event log.

They come from all tables whose rows have spans of positions: the rows that are valid at one position only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from backend.domain.clusters.client_properties import MASK, masked
from backend.eventlog.recorded import StoredEvent
from backend.projections.active_clusters import active_clusters
from backend.projections.applications import applications, grants
from backend.projections.clusters import clusters
from backend.projections.placement_policies import placement_policies
from backend.projections.placements import placements
from backend.projections.streams import streams
from backend.projections.switches import switches
from backend.projections.temporal import POSITIONS
from backend.projections.tenants import environments, instances, tenants
from backend.projections.trees import distributor_settings, tree_targets, trees
from backend.projections.users import api_tokens, memberships, users
from backend.projections.webhooks import webhooks

Row = Mapping[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference: an item that exists at one of two positions only, or has other fields there."""

    kind: str
    name: str
    before: Row | None
    """Fields that differ, or all fields; None where the item did not exist."""
    after: Row | None

    @property
    def change(self) -> str:
        return "added" if self.before is None else "removed" if self.after is None else "changed"


@dataclass(frozen=True)
class _Kind:
    """Name of a table's items, and the columns that are left out of differences."""

    name: str
    table: Table
    named: Callable[[Row], str]
    left_out: frozenset[str] = frozenset()


def _path(*columns: str) -> Callable[[Row], str]:
    return lambda row: "/".join(str(row[column]) for column in columns)


def _distributor(row: Row) -> str:
    return f"{row['cluster']}:{row['level']}"


def _place(row: Row) -> str:
    zone = f", {row['zone']}" if row["zone"] else ""
    return f"{row['tenant']}/{row['instance']}/{row['environment']}{zone}"


def _grant(row: Row) -> str:
    return f"{_APPLICATION(row)} {row['operation']} {row['stream']}"


_APPLICATION = _path("tenant", "instance", "environment", "application")
_STREAM = _path("tenant", "instance", "environment", "stream")
_NOT_OF_CLUSTERS = frozenset({"state", "reason", "kafka_cluster_id", "brokers", "defaults_before"})
_KINDS = (
    _Kind("cluster", clusters, _path("name"), _NOT_OF_CLUSTERS),
    _Kind("tree", trees, _path("name")),
    _Kind("distributor", tree_targets, _distributor),
    _Kind("settings of distributor", distributor_settings, _distributor),
    _Kind("tenant", tenants, _path("name")),
    _Kind("instance", instances, _path("tenant", "name")),
    _Kind("environment", environments, _path("tenant", "instance", "name")),
    _Kind("stream", streams, _STREAM, frozenset({"revision", "released"})),
    _Kind("application", applications, _APPLICATION, frozenset({"revision"})),
    _Kind("grant", grants, _grant),
    _Kind("active cluster", active_clusters, _place, frozenset({"left_generation", "marked_at"})),
    _Kind("switch", switches, _path("id"), frozenset({"retargets", "arrived", "report", "started"})),
    _Kind("placement policy", placement_policies, _path("cluster")),
    _Kind("placement", placements, _path("id"), frozenset({"summary", "report", "requested", "given"})),
    _Kind("user", users, _path("name")),
    _Kind("member", memberships, lambda row: f"{row['user']} of {row['tenant']}"),
    _Kind("webhook", webhooks, _path("name"), frozenset({"created"})),
    _Kind("token", api_tokens, _path("user", "name"), frozenset({"issued"})),
)
_NEVER_SHOWN = frozenset({"version", *POSITIONS})


def differences(connection: Connection, before: int, after: int) -> list[Difference]:
    """Return the differences by kind and name. With `before` the later position, they are those of going back."""
    first, last = sorted((before, after))
    found: list[Difference] = []
    for kind in _KINDS:
        ended, begun = (
            _rows(connection, kind.table, first, last),
            _rows(connection, kind.table, first, last, new=True),
        )
        old, new = (ended, begun) if before <= after else (begun, ended)
        found += _compared(kind, old, new)
    return found


def changed_by(connection: Connection, events: Sequence[StoredEvent]) -> list[Difference]:
    """Return the differences made by the events of one command."""
    return differences(connection, events[0].position - 1, events[-1].position) if events else []


def _rows(connection: Connection, table: Table, first: int, last: int, *, new: bool = False) -> dict[Key, Row]:
    """Return rows that are valid at the first position and not at the last; with `new`, the other way round."""
    start, end = table.c.valid_from, table.c.valid_to
    where = (
        sa.and_(start > first, start <= last, sa.or_(end.is_(None), end > last))
        if new
        else sa.and_(start <= first, end > first, end <= last)
    )
    if "deleted" in table.c:  # the row is kept until all clusters are clean
        where = sa.and_(where, ~table.c.deleted)
    keys = _keys(table)
    rows = connection.execute(sa.select(table).where(where).order_by(*(table.c[key] for key in keys))).mappings()
    return {tuple(row[key] for key in keys): dict(row) for row in rows}


def _compared(kind: _Kind, old: Mapping[Key, Row], new: Mapping[Key, Row]) -> Iterator[Difference]:
    for key in sorted(old.keys() | new.keys(), key=str):
        was, is_now = old.get(key), new.get(key)
        known = was if was is not None else is_now
        assert known is not None
        fields = [
            name
            for name in known
            if name not in _NEVER_SHOWN | kind.left_out | set(_keys(kind.table))
            and (was is None or is_now is None or was[name] != is_now[name])
        ]
        if fields or was is None or is_now is None:
            before, after = _shown(was, fields), _shown(is_now, fields)
            if was and is_now and before and after and "properties" in fields:
                after = {**after, "properties": _masked_changes(was["properties"], is_now["properties"])}
            yield Difference(kind=kind.name, name=kind.named(known), before=before, after=after)


def _keys(table: Table) -> Sequence[str]:
    return [column.name for column in table.primary_key if column.name != "valid_from"]


def _shown(row: Row | None, fields: Sequence[str]) -> Row | None:
    """Return the fields of a row, with secrets masked and times as text."""
    if row is None:
        return None
    return {name: masked(row[name]) if name == "properties" else _plain(row[name]) for name in fields}


def _masked_changes(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the new properties masked; a secret that changed is marked as another one."""
    shown = masked(new)
    changed = [key for key in new if key in old and old[key] != new[key] and masked(old)[key] == shown[key]]
    return {**shown, **dict.fromkeys(changed, f"{MASK}, another one")}


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
