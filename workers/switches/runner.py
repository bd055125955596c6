"""Runs one switch: observe its phase, do the work of that phase, go on to the next.

All state between two observations is in the event log and in clients' reports, so the next owner of the lease
resumes where a killed process stopped; work that was half done is repeated with the same result. While clients
hold, an observation takes milliseconds; everything slow is done before (`planned`) or after (`verifying`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, Engine

from backend import deciders
from backend.changes.switches import abort_commands, event_stream
from backend.dispatch import Directed
from backend.domain.base.errors import DomainError, StaleVersion, StateConflict
from backend.domain.switch.cluster_switch import ALL_LEAVES, EMERGENCY, HELD, MARKED, NEAR_RECORDS, Phase
from backend.domain.switch.switch_commands import WORKER, Abort, Advance, Complete, Move, SwitchCommand
from backend.domain.switch.switch_report import STOOD, WRITTEN
from backend.domain.tree.tree import SwitchTarget
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.recorded import Metadata
from backend.kafka.base.errors import KafkaCallFailed, OffsetsPending
from backend.queries.distribution.leaf_routes import list_leaves
from backend.queries.switch import switch_progress
from backend.queries.switch.switches import SwitchRow, find_switch
from backend.queries.tree.trees import get_tree
from backend.settings import Settings
from workers import context
from workers.switches.closing import GroupClosing
from workers.switches.drain import Drain
from workers.switches.estate_view import EstateView
from workers.switches.failure_log import FailureLog
from workers.switches.holding import Hold, HoldObservation
from workers.switches.lacking import drain_progress
from workers.switches.outcome import NAMED, retryable_groups, translation_summary
from workers.switches.read_on import translated_commits
from workers.switches.readiness import Readiness
from workers.switches.residual_writes import Residuals, produced_until
from workers.switches.scope import Scope
from workers.switches.unreplicated import UnreplicatedRecords
from workers.switches.verifying import Verification

log = structlog.get_logger("switches")

ACTOR = "worker:switches"
_HELD_SECONDS = 0.02
_CALM_SECONDS = 0.2
_FAR_SECONDS = 1.0
_RENEW_SECONDS = 1.0
_STRANDED_SECONDS = 2.0
_REPORT_SECONDS = 0.25
_AGAIN_SECONDS = 0.5
_PATIENCE_SECONDS = 120.0
"""Time limit for preparations that keep failing; no client holds meanwhile."""


class SwitchRunner:
    """Runner of one switch. Used by one thread."""

    def __init__(self, engine: Engine, settings: Settings, switch: str, is_mine: Callable[[str], bool]) -> None:
        """`is_mine`: returns whether the switch's lease is still held; called once a second."""
        self._engine, self._settings, self._id, self._is_mine = engine, settings, switch, is_mine
        self._estate = EstateView(engine, settings)
        self._drain: Drain | None = None
        self._closing: GroupClosing | None = None
        self._verification: Verification | None = None
        self._left: Residuals | None = None
        self._stranded: UnreplicatedRecords | None = None
        self._hold = Hold(engine, settings)
        self._failing_since: float | None = None
        self._failures = FailureLog()
        self._readiness = Readiness(engine, switch)
        self._asked_at = self._reported_at = 0.0
        self._walked = self._retargeted = False

    def run(self) -> None:
        """Run until the switch has ended or the lease is lost."""
        try:
            while self._go_on():
                pass
        except Exception:
            # The next tick restarts it; a thread that ends silently would leave clients holding.
            log.exception("the runner of a switch failed; it restarts", switch=self._id)
        finally:
            self._close_clients()

    def _go_on(self) -> bool:
        row: SwitchRow | None = None
        try:
            if time.monotonic() - self._asked_at > _RENEW_SECONDS:
                if not self._is_mine(self._id):
                    return False
                self._asked_at = time.monotonic()
            with self._engine.connect() as connection:
                row = find_switch(connection, self._id)
                held_ms = self._hold.held_ms(connection, row) if row.state in HELD else 0
            if row.state is Phase.COMPLETED and row.mode == EMERGENCY and row.arrived is None:
                return self._wait_for_stranded(row)
            if row.state not in (*HELD, Phase.PLANNED, Phase.VERIFYING):
                return False
            if held_ms > self._settings.switch_hold_seconds * 1000:
                self._abort_expired_hold(row)
                return True
            if row.state is Phase.HOLDING:
                # Measurements of a hold that timed out do not apply to this one.
                self._hold.forget_mark()
            advanced = self._step(row)
            self._failing_since = None
        except DatabaseUnavailable as error:
            self._failures.failed("a switch is waiting for the database", self._id, error.detail)
            time.sleep(_AGAIN_SECONDS)
            return True
        except (StateConflict, StaleVersion) as error:
            # Aborted or forced meanwhile, or a hold has expired: the next observation tells.
            log.info("a switch retries its step", switch=self._id, reason=error.detail)
            time.sleep(_CALM_SECONDS)
            return True
        except (KafkaCallFailed, DomainError) as error:
            self._failed(row, error.reason if isinstance(error, KafkaCallFailed) else error.detail)
            return True
        if not advanced:
            time.sleep(_HELD_SECONDS if row.state in HELD else _CALM_SECONDS)
        return True

    def _step(self, row: SwitchRow) -> bool:
        """Do the work of the phase; return whether the switch has entered another one."""
        match row.state:
            case Phase.PLANNED:
                return self._prepare(row)
            case Phase.HOLDING:
                return self._await_hold(row)
            case Phase.DRAINING:
                return self._drain_step(row)
            case Phase.CLOSING:
                return self._close(row)
            case Phase.RETARGETING:
                return self._advance(row, Phase.MOVING, {"distributors": len(row.retargets)})
            case Phase.MOVING:
                return self._move(row)
            case _:
                return self._verify(row)

    # --- the phases

    def _prepare(self, row: SwitchRow) -> bool:
        """Open all clients, and wait until the target has nearly caught up, while clients continue."""
        drain, closing = self._clients(row)
        drain.mark()
        seen = drain.observe()
        lacking = seen.missing_records
        if lacking > NEAR_RECORDS:
            self._readiness.begin_again()
            self._report(drain_progress(seen))
            time.sleep(_FAR_SECONDS)
            return False
        if not self._readiness.batches_rest(lacking) or not self._readiness.is_warm(closing):
            return False
        # Rehearse the decision: the first one in a process takes several times as long.
        context.dispatch(
            deciders.SWITCH,
            event_stream(self._id),
            Advance(phase=Phase.HOLDING, measured={}),
            ACTOR,
            self._id,
            dry_run=True,
        )
        self._hold.begin(row)
        return self._advance(
            row, Phase.HOLDING, {"missing_records": lacking, "beside_a_batch": self._readiness.beside_a_batch}
        )

    def _await_hold(self, row: SwitchRow) -> bool:
        seen = self._observe(row)
        if seen.waiting:
            _, closing = self._clients(row)
            if not self._walked:
                # While producers come to rest there is time to read what has arrived since. A failure is harmless.
                self._walked = True
                with contextlib.suppress(KafkaCallFailed):
                    closing.warm_up()
            return False
        if self._other_scope(row):
            return False
        return self._advance(row, Phase.DRAINING, {"clients": seen.clients, "forced": list(row.forced)})

    def _drain_step(self, row: SwitchRow) -> bool:
        lost = self._hold.observe(row).lost
        if lost:
            return self._restart_hold(row, lost)
        drain, _ = self._clients(row)
        if not self._hold.is_marked:
            drain.mark()
            # Only now: a mark that failed half-way with the database has measured nothing of this hold.
            self._hold.note_mark(row)
        seen = drain.observe()
        if not seen.is_drained:
            self._report(drain_progress(seen))
            return False
        measured = {"partitions": seen.total, "not_drained_records": seen.missing_records}
        return self._advance(row, Phase.CLOSING, {**measured, WRITTEN: produced_until(drain)})

    def _close(self, row: SwitchRow) -> bool:
        _, closing = self._clients(row)
        self._hold.forget_closed()
        seen = self._observe(row)
        if seen.lost or not self._hold.is_marked:
            return self._restart_hold(row, seen.lost)
        if seen.waiting:
            return False
        self._hold.note_closed()
        some_stay = any(moving.zone is not None for moving in row.moves)
        try:
            carried = closing.translate(
                row.generation, self._scope.flags, lambda: self._is_still(row), some_stay=some_stay
            )
        except OffsetsPending as pending:
            self._report({"pending": pending.reason})
            return False
        left = retryable_groups(carried)
        if left:
            self._report({"groups_to_set": left})
            return False
        if self._observe(row).waiting:
            return False  # a consumer has committed meanwhile: translate again
        measured = {**translation_summary(carried), STOOD: translated_commits(carried)}
        if row.retargets:
            return self._retarget(row, measured)
        return self._advance(row, Phase.MOVING, measured)

    def _is_still(self, row: SwitchRow) -> bool:
        """Return whether no other process has advanced the switch meanwhile."""
        with self._engine.connect() as connection:
            version = find_switch(connection, self._id).version
        return version == row.version and self._is_mine(self._id)

    def _retarget(self, row: SwitchRow, measured: Mapping[str, Any]) -> bool:
        """Change targets and phase in one transaction, so that an abort finds all of it or none."""

        def build(connection: Connection) -> list[Directed]:
            if find_switch(connection, self._id).version != row.version:
                raise StateConflict("another process has advanced the switch")
            advance = Advance(phase=Phase.RETARGETING, measured=measured)
            switch = Directed(deciders.SWITCH, event_stream(self._id), advance, self._metadata())
            return [switch, *self._targets(connection, row)]

        context.dispatch_all(build)
        return True

    def _targets(self, connection: Connection, row: SwitchRow) -> list[Directed]:
        """Return the commands that retarget the distributors which copy to the source."""
        tree = get_tree(connection)
        targets = {} if tree is None else tree.targets
        return [
            Directed(
                deciders.TREE,
                "tree-main",
                SwitchTarget(cluster=each.cluster, level=each.level, target=each.target),
                self._metadata(),
            )
            for each in row.retargets
            if targets.get((each.cluster, each.level)) == each.previous
        ]

    def _move(self, row: SwitchRow) -> bool:
        seen = self._observe(row)
        if seen.waiting or self._other_scope(row) or not self._hold.is_marked:
            return self._restart_hold(row, seen.lost)

        def build(connection: Connection) -> Move:
            # Under the append lock: no client whose hold has expired is moved, and both clusters are in the tree.
            leaves = list_leaves(connection)
            if row.source not in leaves or row.target not in leaves:
                raise StateConflict(f"{row.source} or {row.target} has left the tree")
            noted = {MARKED: self._hold.marked_at}
            return Move(measured=noted, missing=tuple(self._hold.missing_now(connection, row)))

        self._dispatch(row, build)
        return True

    def _verify(self, row: SwitchRow) -> bool:
        if row.mode == EMERGENCY and not self._retargeted:
            # The command that moved the clients was too urgent to change targets.
            context.dispatch_all(lambda connection: self._targets(connection, row))
            self._retargeted = True
        if self._verification is None:
            self._left = Residuals(self._estate, row, self._read_scope(row))
            self._verification = Verification(self._engine, self._settings, row, self._left)
        report = self._verification.observe()
        if report is None:
            self._report(self._verification.progress)
            return False
        return self._dispatch(row, Complete(measured=self._verification.progress, report=report))

    def _wait_for_stranded(self, row: SwitchRow) -> bool:
        """Wait after an emergency until the old cluster is back and the others have its unreplicated records."""
        if self._stranded is None:
            self._stranded = UnreplicatedRecords(self._estate, row, self._read_scope(row))
        arrived = self._stranded.arrived((row.report or {}).get("stranded", ()))
        if arrived is None:
            time.sleep(_STRANDED_SECONDS)
            return True
        self._dispatch(row, arrived)
        return False

    # --- what they share

    def _clients(self, row: SwitchRow) -> tuple[Drain, GroupClosing]:
        if self._drain is None or self._closing is None:
            scope = self._scope = self._read_scope(row)
            targets = scope.online_leaves if row.drain == ALL_LEAVES else (row.target,)
            self._drain = Drain(self._estate, row.source, targets, scope.streams)
            # A mark of an earlier drain object does not apply to this one.
            self._hold.forget_mark()
            self._closing = GroupClosing(self._estate, row.source, row.target, scope.environments, scope.streams)
            self._drain.warm_up()
            self._walked = False
        return self._drain, self._closing

    def _read_scope(self, row: SwitchRow) -> Scope:
        with self._engine.connect() as connection:
            return Scope.read(connection, row)

    def _close_clients(self) -> None:
        self._estate.close()
        self._drain = self._closing = self._left = self._stranded = self._verification = None

    def _other_scope(self, row: SwitchRow) -> bool:
        """Reopen clients if streams were declared, or awaited leaves came or went; return whether it did."""
        present = self._read_scope(row)
        if self._drain is not None and present.wanted(row) == self._scope.wanted(row):
            self._scope = present
            return False
        self._drain = self._closing = None
        self._clients(row)
        return True

    def _observe(self, row: SwitchRow) -> HoldObservation:
        seen = self._hold.observe(row)
        self._report({"clients": seen.clients})
        return seen

    def _restart_hold(self, row: SwitchRow, lost: Sequence[str]) -> bool:
        """Start the hold again, because these producers may have written since, or this process cannot tell."""
        return self._advance(row, Phase.HOLDING, {"ran_out": list(lost[:NAMED])})

    def _advance(self, row: SwitchRow, phase: Phase, measured: Mapping[str, Any]) -> bool:
        return self._dispatch(row, Advance(phase=phase, measured=measured))

    def _dispatch(self, row: SwitchRow, command: SwitchCommand | Callable[[Connection], SwitchCommand]) -> bool:
        """Dispatch a command decided on this process's observation; a stale version is refused."""
        stream = event_stream(self._id)
        context.dispatch(deciders.SWITCH, stream, command, ACTOR, self._id, expected_version=row.version)
        return True

    def _metadata(self) -> Metadata:
        return Metadata(actor=ACTOR, request_id=self._id)

    def _report(self, told: dict[str, Any]) -> None:
        if time.monotonic() - self._reported_at > _REPORT_SECONDS:
            self._reported_at = time.monotonic()
            with self._engine.begin() as connection:
                switch_progress.write(connection, self._id, told)

    def _abort_expired_hold(self, row: SwitchRow) -> None:
        waiting = self._observe(row).waiting
        what = (
            f"the switch was waiting for {', '.join(waiting[:10])}" if waiting else f"the switch was {row.state}"
        )
        seconds = self._settings.switch_hold_seconds
        self._abort(row, f"clients were held for {seconds:g} s, the maximum, while {what}")

    def _failed(self, row: SwitchRow | None, reason: str) -> None:
        self._failures.failed("a switch cannot continue at the moment", self._id, reason)
        time.sleep(_AGAIN_SECONDS)
        if row is None:
            return
        self._reported_at = 0.0
        self._readiness.begin_again()  # this report replaces the one that keeps batches from starting
        self._report({"failing": reason})
        self._close_clients()
        if row.state is Phase.DRAINING:
            self._hold.forget_mark()  # the marked log ends are lost with the clients
        self._failing_since = self._failing_since or time.monotonic()
        if row.state is Phase.PLANNED and time.monotonic() - self._failing_since > _PATIENCE_SECONDS:
            self._abort(row, reason)

    def _abort(self, row: SwitchRow, reason: str) -> None:
        abort = Abort(by=WORKER, reason=reason)
        context.dispatch_all(lambda connection: abort_commands(connection, row.id, abort, self._metadata()))
