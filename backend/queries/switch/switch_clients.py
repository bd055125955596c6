"""The clients that a switch moves, and those of them that it waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlalchemy import Connection

from backend.domain.switch import discovery
from backend.domain.switch.cluster_switch import CLOSED, HELD, Moving
from backend.domain.switch.discovery import Word
from backend.queries.switch import discovery_clients
from backend.queries.switch.active_clusters import ActiveRow, by_client, list_active
from backend.queries.switch.discovery_clients import ClientRow
from backend.queries.switch.switches import SwitchRow
from backend.settings import Settings

SILENT_TTLS = 3
"""A client that was not heard of for as many times `ttl_ms` is not there any more, as far as anybody can tell."""
_CLOCKS_MS = 2_000
"""At most: clocks run differently, and a report may wait for the database for a while."""


def clients_of(connection: Connection, switch: SwitchRow, settings: Settings) -> list[ClientRow]:
    """Clients that the switch moves: seen not long ago, or waited for since it told them to hold."""
    return _told_apart(connection, switch, settings)[0]


def silent_clients(connection: Connection, switch: SwitchRow, settings: Settings) -> list[ClientRow]:
    """The others that it moves: heard of within a day, but not lately, and not in its generation."""
    others = _told_apart(connection, switch, settings)[1]
    return [row for row in others if row.works_in < switch.generation]


def _told_apart(
    connection: Connection, switch: SwitchRow, settings: Settings
) -> tuple[list[ClientRow], list[ClientRow]]:
    active = list_active(connection, places={moving.place for moving in switch.moves})
    recent_ms = heard_ms(settings)
    there: list[ClientRow] = []
    others: list[ClientRow] = []
    for row in moved_clients(connection, active, switch.moves):
        (there if row.silent_ms <= recent_ms or row.awaited_by == switch.id else others).append(row)
    return there, others


def moved_clients(
    connection: Connection, active: Iterable[ActiveRow], moves: Collection[Moving]
) -> list[ClientRow]:
    """Clients that go by what is moved: by their zone, or with all of the environment that go by no zone's row.
    `active`: of the environments, at least."""
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


def heard_ms(settings: Settings) -> int:
    """A client that was heard of within so long is there, as far as anybody can tell."""
    return SILENT_TTLS * settings.discovery_ttl_ms


def sure_ms(settings: Settings) -> int:
    """For so long after it was heard of a client that has given its word keeps still for sure."""
    return settings.discovery_hold_ms - margin_ms(settings)


def margin_ms(settings: Settings) -> int:
    """By so much less the word of a client that it holds counts than the client keeps it."""
    return min(_CLOCKS_MS, settings.discovery_hold_ms // 4)


def missing(
    switch: SwitchRow,
    clients: Collection[ClientRow],
    settings: Settings,
    marked_at: int | None = None,
) -> list[str]:
    """Those that are waited for in the phase that the switch is in; `marked_at`: see the rule."""
    if switch.state not in HELD:
        return []
    words = {
        row.client_id: Word(
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
        hold_ms=sure_ms(settings),
        closing=switch.state in CLOSED,
        forced=switch.forced,
        marked_at=marked_at,
    )
