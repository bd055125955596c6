"""Worker session: one Celery task, limited in time, in which a pool process runs its distribution tasks.

The threads that run the tasks belong to the process, not to the Celery task: when a session ends, they continue,
and the next session in the same process takes over. So the end of a session costs nothing, and a task changes
hands only when another holder's share is too small or its process dies. A process without a session (its worker
is stopping, or Celery lost it) releases its tasks after two lease durations.

Leases are renewed by a separate thread (`lease_keeper.py`), which waits for nothing else. A process whose renewals
are late anyway is starved: its leases get longer, it leaves expired leases of others alone for a while, since they
are probably late as well, and it takes one task at a time.

While the database is unavailable no lease can be taken, so tasks continue; the target fences whatever goes wrong.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog
from sqlalchemy import Connection, Engine

from backend.domain.base.errors import DomainError
from backend.domain.distribution import assignment
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.edges import EdgePlan
from backend.domain.distribution.rescan import Checkpoint
from backend.kafka.copy.clients import CopyLimits
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.topic_ids import TopicIds
from backend.queries.distribution.leaf_routes import known_origins, why_not_entered
from backend.settings import Settings
from workers.distribution import checkpoints, desired, edge_losses, task_states
from workers.distribution.desired import Desired
from workers.distribution.distributor import DistributorThread
from workers.distribution.schema_gates import SchemaGates
from workers.leases import leases
from workers.leases.ended_holders import free_ended
from workers.leases.lease_keeper import LeaseKeeper
from workers.measures import MeasureBook

log = structlog.get_logger("shift")

_STOP_SECONDS = 1.0
_LET_GO_SECONDS = 10.0
_MOST_ABANDONED = 32


def copy_limits(settings: Settings) -> CopyLimits:
    """Return the settings of a copy session."""
    return CopyLimits(
        batch_records=settings.batch_records,
        transaction_timeout_ms=settings.transaction_timeout_ms,
        fetch_wait_max_ms=settings.fetch_wait_max_ms,
        fetch_buffer_kbytes=settings.fetch_buffer_kbytes,
        quarantine_topic=settings.quarantine_topic,
        record_loop=settings.record_loop,
    )


class TaskHost:
    """The tasks of one process; `_tick` is called about once a second by the current session."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.holder = leases.this_process()
        self._engine = engine
        self._settings = settings
        self._limits = copy_limits(settings)
        self._topic_ids = TopicIds()
        self._schema_gates = SchemaGates(settings.schemas_topic, settings.schema_wait_seconds)
        self._threads: dict[Task, DistributorThread] = {}
        self._desired = Desired(-1, {})
        self._seen_position: tuple[int, int] | None = None
        self._looked_after = time.monotonic()
        self._guard: threading.Thread | None = None
        self._leases = LeaseKeeper(engine, settings, self.holder, time.sleep)
        self._lock = threading.Lock()
        self._abandoned: list[DistributorThread] = []
        self._measures = MeasureBook(engine)

    def run_session(self, seconds: float, stopping: Callable[[float], bool]) -> None:
        """Run the tasks for a while; `stopping` waits that many seconds and returns whether to stop."""
        if self._guard is None or not self._guard.is_alive():
            # A thread can be started only once: a dead guard is replaced.
            self._guard = threading.Thread(target=self._release_if_orphaned, name="guard", daemon=True)
            self._guard.start()
        self._leases.start()
        try:
            self._look_after(seconds, stopping)
        finally:
            self._leases.rest()

    def _look_after(self, seconds: float, stopping: Callable[[float], bool]) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self._lock:
                self._looked_after = time.monotonic()
                try:
                    self._tick()
                except DomainError as error:
                    log.warning("the database is unavailable; tasks continue", reason=error.detail)
                # A hanging database makes a round long; that does not mean that the session has ended.
                self._looked_after = time.monotonic()
            if stopping(self._settings.lease_renew_seconds):
                self.let_go()
                return

    def let_go(self) -> None:
        """Stop every task and release its lease."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        self._stop(list(self._threads.values()), _LET_GO_SECONDS)
        self._schema_gates.tidy(())
        try:
            with self._engine.begin() as connection:
                leases.end_session(connection, self.holder)
        except DomainError as error:
            log.warning("end of session not recorded", reason=error.detail)

    def _tick(self) -> None:
        settings = self._settings
        if ended := free_ended(self._engine, settings.home):
            log.info("leases of ended processes released", holders=ended)
        with self._engine.begin() as connection:
            now = desired.position(connection)
            if now != self._seen_position:
                self._desired = desired.read(connection, settings)
                self._seen_position = now
                self._schema_gates.assign(self._desired.primary)
            grace = self._leases.grace_seconds
            sessions = leases.report_session(connection, self.holder, self._leases.seconds, grace)
            task_states.write(connection, [t.state(self.holder) for t in self._threads.values()])
            checkpointed = self._write_checkpoints(connection)
            taken = leases.taken(connection, grace)
        for thread, streams in checkpointed:
            thread.checkpoints_written(streams)
        plans = self._desired.plans
        self._schema_gates.tidy({plans[task].target.name for task in self._threads if task in plans})
        lost = [
            thread
            for task, thread in self._threads.items()
            if self._leases.is_lost(task.name, thread.epoch) or not thread.is_alive()
        ]
        self._abandon_hung()
        lost = [thread for thread in lost if thread.task in self._threads]
        surplus = [self._threads[task] for task in assignment.surplus(list(self._threads), plans, sessions)]
        self._stop(lost + [thread for thread in surplus if thread not in lost], _STOP_SECONDS)
        free = [task for task in sorted(plans) if task.name not in taken and task not in self._threads]
        wanted = assignment.wanted(free, len(self._threads), len(plans), sessions, is_late=self._leases.is_late)
        if wanted:
            self._take(wanted)
        for task, thread in self._threads.items():
            if task in plans:
                thread.assign(plans[task], self._desired.position)
        # Last, and after the leases' transaction: there may be many rows, and nothing waits for them.
        self._measures.take(self._threads.values())
        self._measures.write()
        self._measures.forget_others(plans.values())

    def _take(self, wanted: tuple[Task, ...]) -> None:
        with self._engine.begin() as connection:
            names = [task.name for task in wanted]
            got = leases.acquire(connection, self.holder, names, self._leases.seconds, self._leases.grace_seconds)
        for name, epoch in got.items():
            self._leases.hold(name, epoch)
        for task in wanted:
            if task.name not in got:
                continue
            thread = DistributorThread(
                task,
                got[task.name],
                self._limits,
                self._why_not(task.name, got[task.name]),
                self._control_plane(task),
                self._desired.plans[task],
                self._desired.position,
            )
            self._threads[task] = thread
            thread.start()
        log.info("tasks taken", tasks=sorted(got))

    def _why_not(self, task: str, epoch: int) -> Callable[[EdgePlan], str | None]:
        def why_not(plan: EdgePlan) -> str | None:
            with self._engine.connect() as connection:
                if not leases.holds(connection, self.holder, task, epoch):
                    return "another worker holds the lease"
                return why_not_entered(connection, plan.target.name, plan.routes_version, plan.buckets)

        return why_not

    def _control_plane(self, task: Task) -> ControlPlane:
        source = task.cluster

        def foreign(number: int) -> bool:
            with self._engine.connect() as connection:
                return number not in known_origins(connection)

        def read(places: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], Sequence[Checkpoint]]:
            with self._engine.connect() as connection:
                return checkpoints.read(connection, source, places)

        return ControlPlane(
            foreign=foreign,
            checkpoints=read,
            dead_letter=lambda what: edge_losses.dead_letter(task, what),
            lost=lambda what: edge_losses.lost(task, what),
            replaced=lambda what: edge_losses.replaced(task, what),
            truncated=lambda what: edge_losses.truncated(task, what),
            schema_gate=self._schema_gates.of,
            topic_ids=self._topic_ids,
        )

    def _write_checkpoints(self, connection: Connection) -> list[tuple[DistributorThread, set[str]]]:
        """Store new checkpoints; return their streams by thread, to be reported after the commit."""
        taken: dict[str, list[tuple[str, int, Checkpoint]]] = {}
        streams = []
        for thread in self._threads.values():
            if news := thread.take_checkpoints():
                taken.setdefault(thread.task.cluster, []).extend(news)
                streams.append((thread, {stream for stream, _, _ in news}))
        for cluster in sorted(taken):
            checkpoints.write(connection, cluster, taken[cluster])
        return streams

    def _stop(self, threads: list[DistributorThread], patience_seconds: float) -> None:
        """Stop tasks concurrently; release the leases of those that have ended.

        A task that is still in a transaction keeps its lease and is stopped again at the next tick: waiting longer
        here would let all other leases expire.
        """
        for thread in threads:
            thread.stop()
        deadline = time.monotonic() + patience_seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        ended = [thread for thread in threads if not thread.is_alive()]
        if not ended:
            return
        for thread in ended:
            self._threads.pop(thread.task, None)
            self._leases.drop(thread.task.name)
        log.info("tasks released", tasks=sorted(thread.task.name for thread in ended))
        self._measures.write_last(ended)
        try:
            with self._engine.begin() as connection:
                leases.release(connection, self.holder, [(t.task.name, t.epoch) for t in ended])
        except DomainError as error:
            log.warning("leases not released; they expire", reason=error.detail)

    def _abandon_hung(self) -> None:
        """Abandon hanging threads and release their tasks; the next session fences what they hold.

        Seen when a broker was killed: librdkafka's send_offsets_to_transaction waits for ever, whatever its
        timeout. A process with too many such threads ends itself; Celery starts another.
        """
        hung = [thread for thread in self._threads.values() if thread.hung()]
        if not hung:
            return
        for thread in hung:
            thread.stop()
            del self._threads[thread.task]
            self._leases.drop(thread.task.name)
        self._abandoned += hung
        log.error("hanging tasks abandoned", tasks=sorted(thread.task.name for thread in hung))
        self._measures.write_last(hung)
        with self._engine.begin() as connection:
            leases.release(connection, self.holder, [(t.task.name, t.epoch) for t in hung])
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        if len(self._abandoned) > _MOST_ABANDONED:
            log.error("too many abandoned tasks; this process exits")
            self._stop(list(self._threads.values()), _LET_GO_SECONDS)
            os._exit(1)

    def _release_if_orphaned(self) -> None:
        while True:
            time.sleep(self._settings.lease_ttl_seconds / 2)
            try:
                with self._lock:  # so never in the middle of a session's round, however long that takes
                    # On a starved machine the next session comes late as well.
                    patience = 2 * self._leases.seconds
                    if self._threads and time.monotonic() - self._looked_after > patience:
                        log.warning("this process has no worker session; releasing its tasks")
                        self._let_go()
            except Exception:
                # Without this thread a process without a session would keep its tasks for ever.
                log.exception("tasks without a worker session not released; it will be retried")
