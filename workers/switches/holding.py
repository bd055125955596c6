"""The clients of a switch, and whether they keep their word to hold."""

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
from backend.queries.switch.switch_clients import clients_of, heard_ms, missing
from backend.queries.switch.switches import SwitchRow
from backend.settings import Settings

_AWAIT_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What one look at the clients told."""

    clients: int
    """That there are in all."""
    waiting: list[str]
    """Those that are waited for in the phase of the switch."""
    lost: list[str]
    """Producers that had held, and may write again, or may have written since the drain was measured."""


class Hold:
    """Of one switch; used by one thread."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._awaited_at = 0.0
        self._marked_at: int | None = None
        self._words: dict[str, datetime | None] = {}
        self._closed: dict[str, datetime | None] | None = None

    @property
    def is_marked(self) -> bool:
        """Whether this process has measured the drain since clients began to hold."""
        return self._marked_at is not None

    @property
    def marked_at(self) -> int | None:
        """Position of the event after which it did."""
        return self._marked_at

    def note_mark(self, switch: SwitchRow) -> None:
        """The drain is measured from now on: who has not held since before may have written since."""
        # By no clock: of two, read one after the other, words are called broken that are not, or the reverse.
        self._marked_at = switch.position

    def forget_mark(self) -> None:
        """The hold begins again."""
        self._marked_at = self._closed = None

    def note_closed(self) -> None:
        """Offsets are carried over from now on: consumers must keep the word that the last look has found, for one
        that let go of it, and closed again, may have committed."""
        self._closed = self._words

    def forget_closed(self) -> None:
        """They are carried over once more."""
        self._closed = None

    def begin(self, switch: SwitchRow) -> None:
        """Clients are about to be told to hold: those there now are waited for, whatever becomes of them."""
        with self._engine.begin() as connection:
            switch_progress.begin_hold(connection, switch.id)
            self._await(connection, switch)

    def held_ms(self, connection: Connection, switch: SwitchRow) -> int:
        """For how long clients have been held by now, whoever carried the switch out."""
        return switch_progress.held_ms(connection, switch.id)

    def look(self, switch: SwitchRow) -> Looked:
        """At all clients of the switch, in the phase in which it is."""
        with self._engine.begin() as connection:
            if time.monotonic() - self._awaited_at > _AWAIT_SECONDS:
                # Those that have come since as well: also of them none may fall silent unnamed.
                self._await(connection, switch)
            clients = clients_of(connection, switch, self._settings)
        self._words = {row.client_id: row.still_since for row in clients}
        holding = replace(switch, state=Phase.HOLDING)
        return Looked(
            clients=len(clients), waiting=self._missing(switch, clients), lost=self._missing(holding, clients)
        )

    def missing_now(self, connection: Connection, switch: SwitchRow) -> list[str]:
        """Clients that are waited for, at the moment of a command."""
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
        discovery_clients.await_all(connection, switch.id, places, heard_ms(self._settings))
        self._awaited_at = time.monotonic()
