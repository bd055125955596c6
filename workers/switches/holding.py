"""The clients of a switch, and whether they keep their word to hold."""

from __future__ import annotations

import time
from dataclasses import replace

from sqlalchemy import Connection, Engine

from backend.domain.cluster_switch import Phase
from backend.queries import discovery_clients, switch_progress
from backend.queries.switch_clients import SILENT_TTLS, clients_of, missing
from backend.queries.switches import SwitchRow
from backend.settings import Settings

_AWAIT_SECONDS = 1.0


class Hold:
    """Of one switch; used by one thread."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._awaited_at = 0.0
        self._marked_at: float | None = None

    @property
    def is_marked(self) -> bool:
        """Whether this process has measured the drain since clients began to hold."""
        return self._marked_at is not None

    def note_mark(self) -> None:
        """The drain is measured from now on: who has not held since before may have written since."""
        self._marked_at = time.monotonic()

    def forget_mark(self) -> None:
        """The hold begins again."""
        self._marked_at = None

    def begin(self, switch: SwitchRow) -> None:
        """Clients are about to be told to hold: those there now are waited for, whatever becomes of them."""
        with self._engine.begin() as connection:
            switch_progress.begin_hold(connection, switch.id)
            self._await(connection, switch)

    def held_ms(self, connection: Connection, switch: SwitchRow) -> int:
        """For how long clients have been held by now, whoever carried the switch out."""
        return switch_progress.held_ms(connection, switch.id)

    def missing(self, switch: SwitchRow) -> tuple[list[str], int]:
        """Clients that are waited for in the phase of the switch, and how many there are in all."""
        with self._engine.begin() as connection:
            if time.monotonic() - self._awaited_at > _AWAIT_SECONDS:
                # Those that have come since as well: also of them none may fall silent unnamed.
                self._await(connection, switch)
            clients = clients_of(connection, switch, self._settings)
        return missing(switch, clients, self._settings, self._still_for_ms()), len(clients)

    def lost(self, switch: SwitchRow) -> list[str]:
        """Producers that had held, and may write again, or may have written since the drain was measured."""
        return self.missing(replace(switch, state=Phase.HOLDING))[0]

    def missing_now(self, connection: Connection, switch: SwitchRow) -> list[str]:
        """As `missing`, at the moment of a command."""
        clients = clients_of(connection, switch, self._settings)
        return missing(switch, clients, self._settings, self._still_for_ms())

    def _still_for_ms(self) -> int:
        return 0 if self._marked_at is None else int((time.monotonic() - self._marked_at) * 1000)

    def _await(self, connection: Connection, switch: SwitchRow) -> None:
        places = sorted({moving.place for moving in switch.moves})
        within_ms = SILENT_TTLS * self._settings.discovery_ttl_ms
        discovery_clients.await_all(connection, switch.id, places, within_ms)
        self._awaited_at = time.monotonic()
