"""After the move: are the clients where they were sent, and what was left behind?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine

from backend.domain import switch_report
from backend.domain.cluster_switch import EMERGENCY
from backend.domain.discovery import IS_HELD
from backend.domain.switch_report import Found, PhaseTimes
from backend.queries import discovery_clients
from backend.queries.active_clusters import generations, list_active
from backend.queries.discovery_clients import ClientRow
from backend.queries.leaf_routes import list_leaves
from backend.queries.switch_clients import SILENT_TTLS, clients_of, silent_clients
from backend.queries.switches import SwitchRow, list_phases
from backend.settings import Settings
from workers.switches.left import Left
from workers.switches.outcome import NAMED


class Verification:
    """Of one switch; used by one thread."""

    def __init__(self, engine: Engine, settings: Settings, switch: SwitchRow, left: Left) -> None:
        self._engine, self._settings, self._switch, self._left = engine, settings, switch, left
        self._began = time.monotonic()
        self.told: dict[str, Any] = {}
        """How far it is."""

    def look(self) -> dict[str, Any] | None:
        """The report, once everybody is there, or was waited for long enough."""
        with self._engine.connect() as connection:
            clients = clients_of(connection, self._switch, self._settings)
            behind = [each for each in clients if each.generation < self._switch.generation]
            closed = self._closed_leaves(connection)
            over = self._is_over(connection)
            phases = list_phases(connection, [self._switch.id])[self._switch.id]
        self._let_late_go_on(behind)
        late = [each.client_id for each in behind]
        self.told = {"clients": len(clients) - len(late), "late": late, "leaves_to_enter": closed}
        waited_long = time.monotonic() - self._began > SILENT_TTLS * self._settings.discovery_ttl_ms / 1000
        if (late or closed) and not waited_long and not over:
            return None
        found = self._found(clients, late, phases)
        return switch_report.report(phases, self._switch.forced, found)

    def _found(self, clients: Sequence[ClientRow], late: Sequence[str], phases: Sequence[PhaseTimes]) -> Found:
        with self._engine.connect() as connection:
            silent = silent_clients(connection, self._switch, self._settings)
        return Found(
            clients=len(clients) - len(late),
            late=late,
            silent=[each.client_id for each in silent][:NAMED],
            left_behind=self._left.groups(),
            stray_records=self._left.stray_records(phases),
            stranded=self._left.stranded(),
        )

    def _let_late_go_on(self, late: Sequence[ClientRow]) -> None:
        """Producers that hold, but heard of the move too late to be waited for: tell them when what they had sent
        has come to the target."""
        held = [each for each in late if each.phase == IS_HELD and not each.arrived]
        if self._switch.mode == EMERGENCY or not held:
            return
        with self._engine.connect() as connection:
            left_in = generations(connection)
        # One that missed an earlier switch, too, has written elsewhere.
        mine = [each for each in held if each.generation == left_in.get((*each.place, self._switch.source))]
        if mine and self._left.has_arrived(mine):
            with self._engine.begin() as connection:
                discovery_clients.let_go_on(connection, mine)

    def _closed_leaves(self, connection: Connection) -> list[str]:
        """Leaves that have not entered the routes that the switch gave them."""
        if not self._switch.retargets:
            return []
        return [name for name, leaf in list_leaves(connection).items() if leaf.entered != leaf.wanted]

    def _is_over(self, connection: Connection) -> bool:
        """Whether another switch has moved these clients on: they are not to be looked for here any more."""
        moved = {(moving.place, moving.zone) for moving in self._switch.moves}
        active = list_active(connection, places={moving.place for moving in self._switch.moves})
        now = [row for row in active if (row.place, row.zone) in moved]
        return any(row.generation > self._switch.generation for row in now)
