"""Clients that a switch moves, and those of them that it waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlalchemy import Connection

from backend.domain.switch import discovery
from backend.domain.switch.cluster_switch import CLOSED, HELD, Moving
from backend.domain.switch.discovery import LatestReport
from backend.queries.switch import discovery_clients
from backend.queries.switch.active_clusters import ActiveRow, by_client, list_active
from backend.queries.switch.discovery_clients import ClientRow
from backend.queries.switch.switches import SwitchRow
from backend.settings import Settings

SILENT_TTLS = 3
"""Number of `ttl_ms` without a report after which a client counts as gone."""
_CLOCKS_MS = 2_000
"""Upper bound of the safety margin: clocks drift, and a report may wait for the database."""


def clients_of(connection: Connection, switch: SwitchRow, settings: Settings) -> list[ClientRow]:
    """Return the clients that the switch moves: seen recently, or awaited since it told them to hold."""
    return _by_presence(connection, switch, settings)[0]


def silent_clients(connection: Connection, switch: SwitchRow, settings: Settings) -> list[ClientRow]:
    """Return the other clients that it moves: seen within a day but not recently, and not in its generation."""
    others = _by_presence(connection, switch, settings)[1]
    return [row for row in others if row.works_in < switch.generation]


def _by_presence(
    connection: Connection, switch: SwitchRow, settings: Settings
) -> tuple[list[ClientRow], list[ClientRow]]:
    active = list_active(connection, places={moving.place for moving in switch.moves})
    recent_ms = presence_ms(settings)
    there: list[ClientRow] = []
    others: list[ClientRow] = []
    for row in moved_clients(connection, active, switch.moves):
        (there if row.silent_ms <= recent_ms or row.awaited_by == switch.id else others).append(row)
    return there, others


def moved_clients(
    connection: Connection, active: Iterable[ActiveRow], moves: Collection[Moving]
) -> list[ClientRow]:
    """Return the clients that a move concerns: of a moved zone, or of a moved environment without a zone row.

    `active`: rows of these environments, at least.
    """
    if not moves:
        return []
    rows = list(active)
    goes_by = by_client(rows)
    own_zones = {(row.place, row.zone) for row in rows if row.zone is not None}
    moved = {(moving.place, moving.zone) for moving in moves}

    def is_moved(row: ClientRow) -> bool:
        by_zone = (row.place, row.zone)
        return by_zone in moved or (by_zone not in own_zones and (row.place, None) in moved)

    places = sorted({moving.place for moving in moves})

    def with_present(row: ClientRow) -> ClientRow:
        present = goes_by(row.place, row.zone)
        return row if present is None else replace(row, present_generation=present.generation)

    return [with_present(row) for row in discovery_clients.list_clients(connection, places) if is_moved(row)]


def presence_ms(settings: Settings) -> int:
    """Return within how many milliseconds a client must have reported to count as present."""
    return SILENT_TTLS * settings.discovery_ttl_ms


def sure_hold_ms(settings: Settings) -> int:
    """Return for how many milliseconds after its last report a client that confirmed the hold surely holds."""
    return settings.discovery_hold_ms - margin_ms(settings)


def margin_ms(settings: Settings) -> int:
    """Return the safety margin by which a hold counts for less time than the client keeps it, in milliseconds."""
    return min(_CLOCKS_MS, settings.discovery_hold_ms // 4)


def missing(
    switch: SwitchRow,
    clients: Collection[ClientRow],
    settings: Settings,
    marked_at: int | None = None,
) -> list[str]:
    """Return the clients that the switch waits for in its phase; `marked_at`: see `discovery.missing`."""
    if switch.state not in HELD:
        return []
    words = {
        row.client_id: LatestReport(
            role=row.role,
            phase=row.phase,
            silent_ms=row.silent_ms,
            given_at=row.given_at,
            is_of_now=row.is_of_now,
        )
        for row in clients
    }
    return discovery.missing(
        words,
        hold_ms=sure_hold_ms(settings),
        closing=switch.state in CLOSED,
        forced=switch.forced,
        marked_at=marked_at,
    )
