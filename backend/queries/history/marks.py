"""Events that explain a change in a chart: switches, changes of the tree, moves of replicas."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from backend.eventlog.tables import events
from backend.queries.base.events import first_position, last_position
from backend.queries.base.names_of_events import Names, names_of

SENTENCES: Mapping[str, str] = {
    "SwitchStarted": "{name} started",
    "SwitchCompleted": "{name} completed",
    "SwitchAborted": "{name} aborted",
    "SwitchFailed": "{name} failed",
    "TreeReplaced": "Tree changed: {clusters}",
    "DistributorTargetSwitched": "{cluster} level {level} copies to {target} instead of {previous}",
    "PrimaryMoved": "Primary moved to {cluster}",
    "PlacementRunStarted": "{name}: replicas are being moved",
    "PlacementRunEnded": "{name}: {state}",
}
"""Events that are marks, with their sentences; `name` is that of the event's switch or placement."""
_OF_SWITCHES = frozenset({"SwitchStarted", "SwitchCompleted", "SwitchAborted", "SwitchFailed"})


@dataclass(frozen=True, kw_only=True)
class Mark:
    """An event, as a mark in a chart."""

    position: int
    time: datetime
    text: str
    name: str | None
    """Name of the switch or placement; None for other events."""


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def marks(
    connection: Connection, from_ms: int, to_ms: int, tenants: Collection[str] | None, most: int = 50
) -> list[Mark]:
    """Return the newest marks of a time range, in the order of the log.

    `tenants`: only switches that move clients of these tenants; None: all marks.
    """
    rows = connection.execute(marks_query(from_ms, to_ms, tenants, most)).all()
    names = names_of(connection, (row.data for row in rows))
    return [_mark(row, names, numbered=tenants is None) for row in reversed(rows)]


def _mark(row: Row[Any], names: Names, *, numbered: bool) -> Mark:
    known, name = _Known(row.data), None
    if "switch" in row.data:
        switch = names.switches.get(row.data["switch"])
        # A number would tell tenants how many switches there were.
        name = "Switch" if switch is None else switch.full if numbered else switch.unnumbered
    elif "placement" in row.data:
        placement = names.placements.get(row.data["placement"])
        name = "Placement" if placement is None else placement.full
    if row.name == "PlacementRunEnded":
        known["state"] = str(row.data.get("state", "ended")).replace("-", " ")
    if row.name == "TreeReplaced":
        # A tree of one cluster has no distributors.
        number = len({cluster for cluster, _, _ in row.data.get("targets", ())}) or 1
        known["clusters"] = "1 cluster" if number == 1 else f"{number} clusters"
    return Mark(
        position=row.position,
        time=row.time,
        text=SENTENCES[row.name].format_map(_Known({**known, "name": name})),
        name=name,
    )


def marks_query(from_ms: int, to_ms: int, tenants: Collection[str] | None, most: int) -> sa.Select[Any]:
    """Build the query for the newest marks of a time range, newest first."""
    since, until = _time(from_ms), _time(to_ms)
    names = sorted(SENTENCES if tenants is None else _OF_SWITCHES)
    named = sa.func.unnest(sa.bindparam("names", names, ARRAY(sa.Text))).table_valued("name").render_derived()
    inside = [
        events.c.name == named.c.name,
        events.c.position >= first_position(since),
        events.c.position <= last_position(until),
        sa.between(events.c.time, since, until),
    ]
    if tenants is not None:
        inside.append(_moves(tenants))
    # Each name by its own index: among a million events a handful are marks.
    of_name = sa.select(events.c.position, events.c.time, events.c.name, events.c.data).where(*inside)
    newest = of_name.order_by(events.c.position.desc()).limit(most).lateral("newest")
    query = sa.select(newest).select_from(named.join(newest, sa.true()))
    return query.order_by(newest.c.position.desc()).limit(most)


def _moves(tenants: Collection[str]) -> ColumnElement[bool]:
    """Return a condition on events of switches that move clients of one of these tenants."""
    started = events.alias("started")
    theirs = sa.or_(
        sa.false(),
        *(started.c.data["moves"].op("@>")(sa.cast([{"tenant": tenant}], JSONB)) for tenant in sorted(tenants)),
    )
    # A switch's events are on one stream, which begins with its start.
    of_switch = sa.and_(started.c.stream == events.c.stream, started.c.version == 1)
    return sa.exists().where(of_switch, theirs)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
