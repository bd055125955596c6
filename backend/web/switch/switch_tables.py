"""The tables of switches and of active clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from backend.queries.base.names_of_events import SwitchNamed
from backend.queries.switch.active_clusters import ActiveRow
from backend.queries.switch.switches import SwitchRow
from backend.web.switch.active_cluster_view import ActiveClusterView
from backend.web.switch.switch_view import SwitchView
from backend.web.tables.table import Column, Table
from backend.web.words.names import switch_name

SWITCHES_TABLE = Table[SwitchView](
    "switches",
    "switches",
    (
        Column("id", "Switch", lambda each: each.short_name, lambda each: f"{each.short_name} {each.row.id}"),
        Column("way", "From and to", lambda each: f"{each.row.source} {each.row.target}"),
        Column("mode", "Mode", lambda each: each.row.mode),
        Column("scope", "Scope", lambda each: each.scope),
        Column("state", "State", lambda each: each.label),
        Column("started", "Started", lambda each: each.began, time=True),
        Column("hold", "Hold time", lambda each: each.hold_ms, lambda each: each.held or "", number=True),
        Column("result", "Result", lambda each: each.result),
    ),
    sort="-started",
    within="switches-part",
)


@dataclass(frozen=True)
class PlaceView:
    """The active cluster of an environment, or of one zone of it."""

    name: str
    row: ActiveRow
    zone: str
    """The zone, in words."""
    moving: SwitchRow | None
    """Switch that is about to move its clients; on the first row of an environment."""

    since: str
    """Reason why this cluster is the active one, in words."""


def place_views(found: Iterable[ActiveClusterView], named: Mapping[str, SwitchNamed]) -> Iterator[PlaceView]:
    """Yield a row for each environment and zone."""
    for each in found:
        for number, row in enumerate(each.rows):
            rest = "all others" if len(each.rows) > 1 else "all"
            since = switch_name(named.get(row.switch), row.switch) if row.switch else "primary cluster"
            yield PlaceView(each.name, row, row.zone or rest, each.moving if number == 0 else None, since)


PLACES_TABLE = Table[PlaceView](
    "places",
    "environments",
    (
        Column("name", "Environment", lambda each: each.name),
        Column("zone", "Zone", lambda each: each.zone),
        Column(
            "cluster",
            "Active cluster",
            lambda each: each.row.cluster,
            lambda each: f"{each.row.cluster or 'none yet'} {each.moving.target if each.moving else ''}",
        ),
        Column("generation", "Generation", lambda each: each.row.generation, number=True),
        Column("since", "Since", lambda each: each.since, lambda each: f"{each.since} {each.row.switch or ''}"),
    ),
    prefix="places",
    sort="name",
    within="places-part",
)
