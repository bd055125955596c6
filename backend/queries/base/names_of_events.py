"""Names of switches and placements for people: their running number, and the clusters that they are about.

Ids are random. The number counts the starts up to its own, in the order of the event log, so it never changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Table

from backend.eventlog.recorded import StoredEvent
from backend.projections.placements import placements
from backend.projections.switches import switches
from backend.projections.temporal import as_of

ARROW = "→"


@dataclass(frozen=True, kw_only=True)
class SwitchNamed:
    """The parts of a switch's name."""

    number: int
    source: str
    target: str

    @property
    def short(self) -> str:
        """Return the short name, such as `Switch 12`."""
        return f"Switch {self.number}"

    @property
    def full(self) -> str:
        """Return the name, such as `Switch 12 · cluster-1 → cluster-2`."""
        return f"{self.short} · {self.source} {ARROW} {self.target}"

    @property
    def unnumbered(self) -> str:
        """Return the name for readers who may not know how many switches there were."""
        return f"Switch {self.source} {ARROW} {self.target}"

    @property
    def in_sentence(self) -> str:
        """Return what follows the word `switch` in a sentence, such as `12 (cluster-1 → cluster-2)`."""
        return f"{self.number} ({self.source} {ARROW} {self.target})"


@dataclass(frozen=True, kw_only=True)
class PlacementNamed:
    """The parts of a placement's name."""

    number: int
    cluster: str

    @property
    def short(self) -> str:
        """Return the short name, such as `Placement 3`."""
        return f"Placement {self.number}"

    @property
    def full(self) -> str:
        """Return the name, such as `Placement 3 · cluster-2`."""
        return f"{self.short} · {self.cluster}"


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names by id; an id that is not known is missing."""

    switches: Mapping[str, SwitchNamed] = field(default_factory=dict)
    placements: Mapping[str, PlacementNamed] = field(default_factory=dict)


NO_NAMES = Names()


def name_switches(connection: Connection, ids: Collection[str]) -> dict[str, SwitchNamed]:
    """Return the names of switches by id, with one statement, or none for no ids."""
    rows = _of_ids(connection, switches_numbered(), ids)
    return {row.id: SwitchNamed(number=row.number, source=row.source, target=row.target) for row in rows}


def name_placements(connection: Connection, ids: Collection[str]) -> dict[str, PlacementNamed]:
    """Return the names of placements by id, with one statement, or none for no ids."""
    rows = _of_ids(connection, placements_numbered(), ids)
    return {row.id: PlacementNamed(number=row.number, cluster=row.cluster) for row in rows}


def names_in(connection: Connection, events: Iterable[StoredEvent]) -> Names:
    """Return the names of all switches and placements that events mention by id, with two statements at most."""
    return names_of(connection, (event.data for event in events))


def names_of(connection: Connection, data: Iterable[Mapping[str, Any]]) -> Names:
    """Return the same for the data of events."""
    found: dict[str, set[str]] = {"switch": set(), "placement": set()}
    for each in data:
        for kind, ids in found.items():
            if isinstance(each.get(kind), str):
                ids.add(each[kind])
    return Names(
        switches=name_switches(connection, found["switch"]),
        placements=name_placements(connection, found["placement"]),
    )


def switches_numbered() -> sa.Subquery:
    """Return all switches with the parts of their names."""
    return _numbered(switches, switches.c.started, ("source", "target"))


def placements_numbered() -> sa.Subquery:
    """Return all placements with the parts of their names."""
    return _numbered(placements, placements.c.requested, ("cluster",))


def _numbered(table: Table, start: sa.Column[int], parts: Collection[str]) -> sa.Subquery:
    number = sa.func.row_number().over(order_by=start).label("number")
    columns = [table.c[part] for part in parts]
    return sa.select(table.c.id, number, *columns).where(as_of(table, None)).subquery()


def _of_ids(connection: Connection, rows: sa.Subquery, ids: Collection[str]) -> Collection[Row[Any]]:
    if not ids:
        return ()
    return connection.execute(sa.select(rows).where(rows.c.id.in_(sorted(ids)))).all()
