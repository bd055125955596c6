"""Observes the clients of a switch, and whether they keep the hold."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, Engine

from backend.domain.switch.cluster_switch import CLOSED, Phase
from backend.domain.switch.discovery import CONSUMER
from backend.queries.switch import discovery_clients, switch_progress
from backend.queries.switch.discovery_clients import ClientRow
from backend.queries.switch.switch_clients import clients_of, missing, presence_ms
from backend.queries.switch.switches import SwitchRow
from backend.settings import Settings

_AWAIT_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class HoldObservation:
    """One observation of the clients."""

    clients: int
    """Number of all clients."""
    waiting: list[str]
    """Clients that the switch waits for in its phase."""
    lost: list[str]
    """Producers that confirmed the hold but may have written since the drain was marked."""


class Hold:
    """Hold of one switch; used by one thread."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._awaited_at = 0.0
        self._marked_at: int | None = None
        self._words: dict[str, datetime | None] = {}
        self._closed: dict[str, datetime | None] | None = None

    @property
    def is_marked(self) -> bool:
        """Return whether this process has marked the drain since clients began to hold."""
        return self._marked_at is not None

    @property
    def marked_at(self) -> int | None:
        """Return the position of the event after which the drain was marked."""
        return self._marked_at

    def note_mark(self, switch: SwitchRow) -> None:
        """Record the mark of the drain: a client that has not held since before it may have written since."""
        # Compare event positions: two clocks, read one after the other, would misjudge holds in both directions.
        self._marked_at = switch.position

    def forget_mark(self) -> None:
        """Forget the mark, because the hold starts again."""
        self._marked_at = self._closed = None

    def note_closed(self) -> None:
        """Record that offsets are translated from now on.

        Consumers must keep the hold of the last observation: one that released it and closed again may have
        committed in between.
        """
        self._closed = self._words

    def forget_closed(self) -> None:
        """Forget the recorded holds, because offsets are translated again."""
        self._closed = None

    def begin(self, switch: SwitchRow) -> None:
        """Start the hold: wait for all clients known now, even if they never report again."""
        with self._engine.begin() as connection:
            switch_progress.begin_hold(connection, switch.id)
            self._await(connection, switch)

    def held_ms(self, connection: Connection, switch: SwitchRow) -> int:
        """Return for how many milliseconds clients have held, whichever process ran the switch."""
        return switch_progress.held_ms(connection, switch.id)

    def observe(self, switch: SwitchRow) -> HoldObservation:
        """Observe all clients of the switch in its present phase."""
        with self._engine.begin() as connection:
            if time.monotonic() - self._awaited_at > _AWAIT_SECONDS:
                # Include clients that appeared since, so that none of them can go silent unnoticed.
                self._await(connection, switch)
            clients = clients_of(connection, switch, self._settings)
        self._words = {row.client_id: row.still_since for row in clients}
        holding = replace(switch, state=Phase.HOLDING)
        return HoldObservation(
            clients=len(clients), waiting=self._missing(switch, clients), lost=self._missing(holding, clients)
        )

    def missing_now(self, connection: Connection, switch: SwitchRow) -> list[str]:
        """Return the clients that are waited for, at the moment of a command."""
        return self._missing(switch, clients_of(connection, switch, self._settings))

    def _missing(self, switch: SwitchRow, clients: Collection[ClientRow]) -> list[str]:
        found = missing(switch, clients, self._settings, self._marked_at)
        if self._closed is None or switch.state not in CLOSED:
            return found
        broken = {
            row.client_id
            for row in clients
            if row.role == CONSUMER and row.still_since != self._closed.get(row.client_id)
        }
        return sorted({*found, *(broken - set(switch.forced))})

    def _await(self, connection: Connection, switch: SwitchRow) -> None:
        places = sorted({moving.place for moving in switch.moves})
        discovery_clients.await_all(connection, switch.id, places, presence_ms(self._settings))
        self._awaited_at = time.monotonic()
