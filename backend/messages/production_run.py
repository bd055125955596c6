"""A production carried out: a turn, the write to the cluster, and the event that records what is known of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import structlog
from sqlalchemy import Connection, Engine

from backend.changes.change import Change
from backend.changes.messages import record_produced
from backend.domain.base.errors import ClusterSilent, ClusterUnreachable, StateConflict
from backend.domain.base.event import Event
from backend.domain.tenants.produced_messages import MessageProduced, Produced, RecordProduced
from backend.eventlog import held_lock
from backend.eventlog.faults import DatabaseUnavailable, OutcomeUnknown
from backend.eventlog.held_lock import HeldLock
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search.message_writing import MessageRefused, OutcomeUncertain, Written, write_message
from backend.kafka.search.topic_reader import TopicPlace
from backend.messages.production import Production, switch_since
from backend.slots import Slots

AT_ONCE = 4
"""Messages that one process writes at once: each may keep a thread and a client waiting for a silent cluster."""
OF_A_USER = 2
LOCKS = 1024
"""Locks for repeated requests. Each is a row for ever, so there is not one for each Idempotency-Key."""
_WAIT_SECONDS = 20.0
"""Time to wait for the same request, sent twice, while the first one is carried out."""
_SLOTS = Slots(AT_ONCE, OF_A_USER, "producing messages")

A = TypeVar("A")
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Result:
    """Outcome of a message that was given to a cluster."""

    written: Written | None
    """Place of the message; None: the cluster did not confirm it."""
    doubt: str = ""
    """Sentence for the user about a message that was not confirmed."""


@contextmanager
def turn(engine: Engine, user: str, request: str | None) -> Iterator[HeldLock | None]:
    """Hold a place among those who produce, and the lock that keeps a request from being carried out twice.

    `request`: key of a request that may be repeated; None: it has none, and there is no lock. Raises MessagesBusy,
    LockBusy.
    """
    with _SLOTS.one(user):
        if request is None:
            yield None
            return
        digest = hashlib.sha256(f"{user}\n{request}".encode()).digest()
        name = f"produce {int.from_bytes(digest[:4], 'big') % LOCKS}"
        with held_lock.hold(engine, name, wait_seconds=_WAIT_SECONDS) as lock:
            yield lock


def write(production: Production, lock: HeldLock | None) -> Result:
    """Write a message, which takes 17 seconds at most. Raises StateConflict, ClusterSilent, LockLost.

    After each of these nothing was written.
    """
    if lock is not None:
        lock.check()
    facts = production.facts
    place = TopicPlace(facts.bootstrap_servers, facts.properties, facts.topic, ())
    try:
        return Result(write_message(place, production.message))
    except MessageRefused as error:
        raise StateConflict(f"{facts.cluster} refuses the message: {error}") from error
    except OutcomeUncertain as error:
        return Result(
            None,
            f"{facts.cluster} did not confirm the message in time: {error.reason}. It may have been written: look "
            f"at the newest messages of {facts.stream} before you produce it again",
        )
    except KafkaCallFailed as error:
        does = "refuses the message" if error.is_lasting else "does not answer"
        raise ClusterSilent(f"{facts.cluster} {does}, and it was not written: {error.reason}") from error
    except ClusterUnreachable as error:
        raise ClusterSilent(
            f"{facts.cluster} cannot be reached, and the message was not written: {error.detail}"
        ) from error


def recorded(production: Production, result: Result | None = None) -> Change[Produced, RecordProduced]:
    """Return the record of a message that was written; without a result, one to try whether it can be appended."""
    facts, message = production.facts, production.message
    written = None if result is None else result.written

    def build(connection: Connection) -> RecordProduced:
        return RecordProduced(
            stream=str(facts.stream),
            cluster=facts.cluster,
            partition=message.partition if written is None else written.partition,
            offset=None if written is None else written.offset,
            key_bytes=None if message.key is None else len(message.key),
            value_bytes=None if message.value is None else len(message.value),
            header_count=len(message.headers),
            # Under the append lock: a switch that began to hold before this event is seen.
            switch=switch_since(connection, production),
        )

    return record_produced(facts.stream.tenant, build)


def append(production: Production, result: Result, save: Callable[[], A], *, is_keyed: bool) -> A:
    """Append the event of a message that was written, with a second try; `save` appends it.

    Without a key, a second try after an unknown outcome might record the message twice. Raises DatabaseUnavailable
    that says what was written.
    """
    try:
        return save()
    except DatabaseUnavailable as error:
        failure = error
    if is_keyed or not isinstance(failure, OutcomeUnknown):
        try:
            return save()
        except DatabaseUnavailable as error:
            failure = error
    facts, written = production.facts, result.written
    place = {} if written is None else {"partition": written.partition, "offset": written.offset}
    log.error(
        "a message was produced, and its event could not be appended",
        stream=str(facts.stream),
        cluster=facts.cluster,
        confirmed=written is not None,
        **place,
        error=failure.detail,
    )
    where = "it may be there" if written is None else f"partition {written.partition}, offset {written.offset}"
    raise DatabaseUnavailable(
        f"The message was produced to {facts.stream} on {facts.cluster} ({where}), but its event could not be "
        f"saved: {failure.detail} Do not produce it again."
    ) from failure


def warning(production: Production, event: Event) -> str | None:
    """Return what the user has to check, if a switch held or moved the clients while the message was written."""
    assert isinstance(event, MessageProduced)
    if event.switch is None:
        return None
    return (
        f"it was written while switch {event.switch} held or moved the clients of "
        f"{'/'.join(production.place)}: check that it arrived on the other clusters"
    )
