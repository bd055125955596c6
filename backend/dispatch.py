"""The path of a command: load -> decide -> append -> project -> answer, in one transaction.

The append lock is taken first. So neither the state on which a decision is based nor anything that `build` reads
from projections (names taken, numbers assigned) can change before the events are appended, and no conflict needs a
retry. The price is that commands run one after another; each takes milliseconds. A transaction that the database
ended because this process stalled is run once more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from itertools import groupby, islice
from typing import Any, Generic, ParamSpec, TypeVar

import structlog
from sqlalchemy import Connection, Engine

from backend.domain.base.errors import StaleVersion
from backend.domain.base.event import Event
from backend.eventlog import provenance
from backend.eventlog.faults import DatabaseUnavailable, OutcomeUnknown, TransactionEnded
from backend.eventlog.idempotency import Answer, IdempotencyKey, recall, remember
from backend.eventlog.recorded import Metadata, RecordedEvent, Write
from backend.eventlog.registry import EventRegistry
from backend.eventlog.store import PostgresEventLog
from backend.projections import rebuilding, runner
from backend.projections.framework import Projection
from backend.spans import part

__all__ = ["Answer", "Decider", "Directed", "Dispatcher", "IdempotencyKey", "Outcome"]

log = structlog.get_logger("events")

S = TypeVar("S")
C = TypeVar("C")
A = TypeVar("A")
P = ParamSpec("P")

STATES_KEPT = 256


def _again_if_ended(run: Callable[P, A]) -> Callable[P, A]:
    """Run a command a second time if the database ended its transaction because this process stalled.

    A machine that pauses for some seconds is no reason to refuse a command: the server has rolled the first
    transaction back, even if it was about to be committed.
    """

    @wraps(run)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> A:
        try:
            return run(*args, **kwargs)
        except TransactionEnded as error:
            log.warning("command is run again", error=str(error))
            return run(*args, **kwargs)

    return repeated


@dataclass(frozen=True, eq=False)
class Decider(Generic[S, C]):
    """Rules of one kind of event stream; states are immutable."""

    initial: S
    decide: Callable[[S, C], Sequence[Event]]
    evolve: Callable[[S, Event], S]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command: the stream's version after it, and the appended events (empty if nothing changed)."""

    stream: str
    version: int
    events: list[RecordedEvent]


@dataclass(frozen=True)
class Directed:
    """One command of several: the command, its decider, its stream and its metadata."""

    decider: Decider[Any, Any]
    stream: str
    command: Any
    metadata: Metadata


class Dispatcher:
    """Runs commands; the only place that appends events. Safe to share between threads."""

    def __init__(self, engine: Engine, registry: EventRegistry, projections: Sequence[Projection]) -> None:
        self._engine = engine
        self._registry = registry
        self._projections = projections
        self._states = _StateCache()

    @_again_if_ended
    def execute(
        self,
        decider: Decider[S, C],
        stream: str,
        build: C | Callable[[Connection], C],
        *,
        metadata: Metadata,
        time: datetime,
        expected_version: int | None = None,
        dry_run: bool = False,
        idempotency: IdempotencyKey | None = None,
        answer: Callable[[Connection, Outcome], A],
    ) -> A:
        """Run one command on one stream and return what `answer` makes of the outcome.

        `build` is the command, or a function that makes it from what it reads on the connection, under the append
        lock. `answer` sees the projections with the new events applied. With `dry_run` everything happens and is
        then rolled back. With `idempotency` the answer must be an `Answer`; a repeated request gets the first one.

        Raises the domain's errors, StaleVersion if the stream is not at `expected_version`, IdempotencyKeyReused
        and DatabaseUnavailable; nothing is saved then. After OutcomeUnknown the events may or may not be saved.
        """
        with self._transaction(keep=not dry_run) as connection:
            log = self._locked(connection)
            if idempotency is not None:
                first = recall(connection, metadata.actor, idempotency)
                if first is not None:
                    return first  # type: ignore[return-value]  # A is Answer here, see _remember
            state, version = self._load(log, decider, stream)
            command = build(connection) if callable(build) else build
            if expected_version is not None and expected_version != version:
                raise StaleVersion(
                    f"{stream} is at version {version}, not {expected_version}. Read it again, then decide."
                )
            events = decider.decide(state, command)
            recorded = log.append(stream, version, events, metadata=metadata, time=time) if events else []
            self._project(connection, recorded)
            result = answer(connection, Outcome(stream, version + len(recorded), recorded))
            if idempotency is not None and not dry_run:
                _remember(connection, metadata.actor, idempotency, result, time)
        if not dry_run:
            _log(recorded)
        return result

    @_again_if_ended
    def execute_many(
        self, commands: Sequence[Directed] | Callable[[Connection], Sequence[Directed]], *, time: datetime
    ) -> list[Outcome]:
        """Run several commands in order in one transaction: all of them, or none if one is refused.

        `commands` is a sequence, or a function that makes one from what it reads on the connection, under the
        append lock. Each command is decided on the state that its predecessors left; projections see the events
        only when all commands are decided. Meant for bulk changes: lock, append, projection and commit are paid
        once. The lock is held for all of them, so pass a few hundred at most.

        Raises the same errors as `execute`.
        """
        with self._transaction(keep=True) as connection:
            log = self._locked(connection)
            writes, recorded = self._append_all(connection, log, commands, time)
        _log(recorded)
        news = iter(recorded)
        return [
            Outcome(
                write.stream, write.expected_version + len(write.events), list(islice(news, len(write.events)))
            )
            for write in writes
        ]

    @_again_if_ended
    def execute_together(
        self,
        build: Callable[[Connection], Sequence[Directed]],
        *,
        metadata: Metadata,
        time: datetime,
        dry_run: bool = False,
        idempotency: IdempotencyKey | None = None,
        answer: Callable[[Connection, list[RecordedEvent]], A],
    ) -> A:
        """Run several commands of one request, as `execute_many` does, and answer it as `execute` does.

        `answer` gets the events that all of them appended.
        """
        with self._transaction(keep=not dry_run) as connection:
            log = self._locked(connection)
            first = None if idempotency is None else recall(connection, metadata.actor, idempotency)
            if first is not None:
                return first  # type: ignore[return-value]  # A is Answer here, see _remember
            _, recorded = self._append_all(connection, log, build, time)
            result = answer(connection, recorded)
            if idempotency is not None and not dry_run:
                _remember(connection, metadata.actor, idempotency, result, time)
        if not dry_run:
            _log(recorded)
        return result

    def _append_all(
        self,
        connection: Connection,
        log: PostgresEventLog,
        commands: Sequence[Directed] | Callable[[Connection], Sequence[Directed]],
        time: datetime,
    ) -> tuple[list[Write], list[RecordedEvent]]:
        writes = self._decide(log, commands(connection) if callable(commands) else commands, time)
        recorded = log.append_all(writes)
        self._project(connection, recorded)
        return writes, recorded

    def _locked(self, connection: Connection) -> PostgresEventLog:
        """Take the append lock until the transaction ends and return the log."""
        log = PostgresEventLog(connection, self._registry)
        with part("wait for the log"):
            log.lock()
        return log

    def _project(self, connection: Connection, recorded: Sequence[RecordedEvent]) -> None:
        """Apply the appended events to the projections, if there are any, and record their provenance."""
        if not recorded:
            return
        last = recorded[-1]
        with part("project") as tell:
            tell("stream", last.stream)
            tell("position", last.position)
            tell("events", len(recorded))
            runner.project(connection, self._registry, self._projections, last.position, recorded)
            provenance.note(connection, recorded)

    def recall(self, actor: str, idempotency: IdempotencyKey) -> Answer | None:
        """Return the first answer to a request, for callers with slow work before the command (cluster probes)."""
        with self._transaction(keep=False) as connection:
            return recall(connection, actor, idempotency)

    def catch_up(self) -> None:
        """Bring projections to the log's head; a program does so before it serves, as a projection may be new."""
        rebuilding.rebuild_far_behind(self._engine, self._registry, self._projections)
        with self._transaction(keep=True) as connection:
            runner.catch_up(connection, self._registry, self._projections)

    def _decide(self, log: PostgresEventLog, commands: Sequence[Directed], time: datetime) -> list[Write]:
        reached: dict[tuple[object, str], tuple[Any, int]] = {}
        writes = []
        for each in commands:
            place = (each.decider, each.stream)
            state, version = reached.get(place) or self._load(log, each.decider, each.stream)
            events = each.decider.decide(state, each.command)
            writes.append(Write(each.stream, version, events, each.metadata, time))
            for event in events:
                state = each.decider.evolve(state, event)
            reached[place] = state, version + len(events)
        return writes

    @contextmanager
    def _transaction(self, *, keep: bool) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            yield connection
            if not keep:
                return  # leaving the block without a commit rolls back
            try:
                with part("commit"):
                    connection.commit()
            except TransactionEnded:
                raise  # before the server read the COMMIT
            except DatabaseUnavailable as error:
                # The server may have committed and died before it could confirm.
                raise OutcomeUnknown(
                    "Read the resource to see whether it changed, or repeat with the same Idempotency-Key."
                ) from error

    def _load(self, log: PostgresEventLog, decider: Decider[S, C], stream: str) -> tuple[S, int]:
        known = self._states.get(decider, stream)
        news: list[RecordedEvent] = []
        if known is not None:
            # The last known event is read again: if its hash differs, this is another log than before (a backup
            # was restored), and the state folded from the old one is invalid.
            last, news = _split(log.read(stream, after_version=known.version - 1))
            if last is None or last.hash != known.hash:
                known = None
        if known is None:
            known, news = _KnownState(decider.initial, 0, ""), log.read(stream)
        state = known.state
        for recorded in news:
            state = decider.evolve(state, recorded.event)
        if news:
            known = _KnownState(state, news[-1].version, news[-1].hash)
            self._states.put(decider, stream, known)
        return state, known.version


@dataclass(frozen=True)
class _KnownState:
    state: Any
    version: int
    hash: str


class _StateCache:
    """Cache of recently used streams' states, so that a command reads only the new events of a long stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[tuple[object, str], _KnownState] = OrderedDict()

    def get(self, decider: object, stream: str) -> _KnownState | None:
        with self._lock:
            return self._states.get((decider, stream))

    def put(self, decider: object, stream: str, known: _KnownState) -> None:
        with self._lock:
            self._states[decider, stream] = known
            self._states.move_to_end((decider, stream))
            while len(self._states) > STATES_KEPT:
                self._states.popitem(last=False)


def _split(events: list[RecordedEvent]) -> tuple[RecordedEvent | None, list[RecordedEvent]]:
    return (events[0] if events else None), events[1:]


def _log(recorded: Sequence[RecordedEvent]) -> None:
    """Log one line for each request that appended events, after the commit."""
    for request, events in groupby(recorded, key=lambda each: each.metadata):
        of = list(events)
        tenant = _tenant_of(of[0].stream)
        log.info(
            "events appended",
            request_id=request.request_id,
            actor=request.actor,
            stream=of[0].stream,
            position=of[-1].position,
            names=sorted({each.event.stored_name for each in of}),
            count=len(of),
            **({"tenant": tenant} if tenant else {}),
        )


def _tenant_of(stream: str) -> str | None:
    """Return the tenant that an event stream belongs to; None for streams of the estate."""
    kind, _, name = stream.partition("-")
    return name.partition("/")[0] if kind in ("tenant", "application", "messages") else None


def _remember(
    connection: Connection, actor: str, idempotency: IdempotencyKey, result: object, time: datetime
) -> None:
    if not isinstance(result, Answer):
        raise TypeError("A command with an Idempotency-Key must be answered by an Answer")
    remember(connection, actor, idempotency, result, time)
