"""Verifies a switch after the move: whether clients arrived, and what was left behind."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine

from backend.domain.switch import switch_report
from backend.domain.switch.cluster_switch import EMERGENCY, MARKED, Phase
from backend.domain.switch.discovery import IS_ACTIVE, IS_HELD, PRODUCER, held_before
from backend.domain.switch.switch_report import Found, PhaseTimes
from backend.queries.distribution.leaf_routes import list_leaves
from backend.queries.switch import discovery_clients
from backend.queries.switch.active_clusters import by_client, list_active
from backend.queries.switch.discovery_clients import ClientRow
from backend.queries.switch.switch_clients import clients_of, presence_ms, silent_clients, sure_hold_ms
from backend.queries.switch.switches import SwitchRow, list_phases
from backend.settings import Settings
from workers.switches.outcome import NAMED
from workers.switches.residual_writes import Residuals, measured_last

_NOTE_SECONDS = 1.0
_UNHEARD_SECONDS = 120.0
"""Time to wait for a first report of any client: clients may be silent for a while and then continue."""


class Verification:
    """Verification of one switch; used by one thread."""

    def __init__(self, engine: Engine, settings: Settings, switch: SwitchRow, left: Residuals) -> None:
        self._engine, self._settings, self._switch, self._left = engine, settings, switch, left
        self._began = time.monotonic()
        self._heard_at: float | None = None
        self._at_work_noted = 0.0
        self.progress: dict[str, Any] = {}
        """Progress of the verification."""

    def observe(self) -> dict[str, Any] | None:
        """Return the report, once all clients have arrived or the wait is over; else None."""
        # Take the time before the query, since what follows it takes a while.
        since_ms = 1000 * (time.monotonic() - self._began)
        with self._engine.connect() as connection:
            clients = clients_of(connection, self._switch, self._settings)
            behind = [each for each in clients if each.works_in < self._switch.generation]
            closed = self._closed_leaves(connection)
            over = self._is_over(connection)
            phases = list_phases(connection, [self._switch.id])[self._switch.id]
        if self._heard_at is None and any(each.silent_ms < since_ms for each in clients):
            self._heard_at = time.monotonic()
        if self._left.had_members or any(self._may_read_on(each, since_ms) for each in behind):
            self._note_at_work()
        if not over:
            # If clients were moved on, discovery sends them to a cluster that may lack records of this one.
            self._let_late_go_on(behind, phases)
        late = [each.client_id for each in behind]
        self.progress = {"clients": len(clients) - len(late), "late": late, "leaves_to_enter": closed}
        if (late or closed) and not self._waited_long() and not over:
            return None
        found = self._found(clients, late, phases)
        return switch_report.report(phases, self._switch.forced, found)

    def _may_read_on(self, late: ClientRow, since_ms: float) -> bool:
        """Return whether a late client is a consumer that may read on the source, since its hold has expired."""
        is_awake = late.phase == IS_ACTIVE and late.silent_ms < since_ms
        return late.role != PRODUCER and (is_awake or late.silent_ms > sure_hold_ms(self._settings))

    def _note_at_work(self) -> None:
        if time.monotonic() - self._at_work_noted > _NOTE_SECONDS:
            self._at_work_noted = time.monotonic()
            self._left.note_at_work()

    def _waited_long(self) -> bool:
        """Return whether the wait since the first report is over; without one, discovery may be unreachable."""
        now = time.monotonic()
        if self._heard_at is None:
            return now - self._began > _UNHEARD_SECONDS
        return 1000 * (now - self._heard_at) > presence_ms(self._settings)

    def _found(self, clients: Sequence[ClientRow], late: Sequence[str], phases: Sequence[PhaseTimes]) -> Found:
        with self._engine.connect() as connection:
            silent = silent_clients(connection, self._switch, self._settings)
        left_behind = self._left.groups()
        return Found(
            clients=len(clients) - len(late),
            late=late,
            silent=[each.client_id for each in silent][:NAMED],
            silent_in_all=len(silent),
            left_behind=left_behind[:NAMED],
            left_behind_in_all=len(left_behind),
            stray_records=self._left.stray_records(phases),
            read_on=self._left.read_on(phases),
            stranded=self._left.stranded(),
        )

    def _let_late_go_on(self, late: Sequence[ClientRow], phases: Sequence[PhaseTimes]) -> None:
        """Tell late producers that hold when all their records have arrived on the target.

        They learned of the move too late for the switch to wait for them.
        """
        if self._switch.mode == EMERGENCY:
            return
        # Producers that held through the drain are covered by its mark. A query of unreachable clusters takes
        # long, and meanwhile reads on the source go unseen.
        marked = measured_last(phases, Phase.MOVING).get(MARKED)
        held = [
            each
            for each in late
            if each.phase == IS_HELD
            and each.arrived_in != self._switch.generation
            and not (marked and held_before(marked, each.given_at))
        ]
        if not held:
            return
        with self._engine.connect() as connection:
            active = list_active(connection, places={each.place for each in held})
        goes_by = by_client(active)
        # A client that missed an earlier switch as well has written on another cluster.
        mine = [
            each
            for each in held
            if (row := goes_by(each.place, each.zone)) is not None and row.left_generation == each.generation
        ]
        if mine and self._left.has_arrived(mine):
            with self._engine.begin() as connection:
                discovery_clients.mark_arrived(connection, mine, self._switch.generation)

    def _closed_leaves(self, connection: Connection) -> list[str]:
        """Return the leaves that have not entered the routes that the switch gave them."""
        if not self._switch.retargets:
            return []
        return [name for name, leaf in list_leaves(connection).items() if leaf.entered != leaf.wanted]

    def _is_over(self, connection: Connection) -> bool:
        """Return whether another switch has moved these clients on, so that this one stops waiting for them."""
        moved = {(moving.place, moving.zone) for moving in self._switch.moves}
        active = list_active(connection, places={moving.place for moving in self._switch.moves})
        now = [row for row in active if (row.place, row.zone) in moved]
        return any(row.generation > self._switch.generation for row in now)
