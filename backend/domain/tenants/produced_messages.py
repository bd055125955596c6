"""Event stream `messages-<tenant>`: messages that users produced through the control plane.

What was produced is in the stream's log, and not here: events are kept for ever, and messages may hold personal
data.

    (message) --RecordProduced--> produced, any number of times
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.event import Event


@dataclass(frozen=True, kw_only=True)
class MessageProduced(Event, name="MessageProduced", version=1):
    """A user produced a message to a stream."""

    stream: str
    """tenant/instance/environment/stream."""
    cluster: str
    partition: int | None
    """None: the key decides, and the cluster did not confirm the message."""
    offset: int | None
    """None: the cluster did not confirm the message in time; it may have been written."""
    key_bytes: int | None
    """Size of the key; None: the message has no key."""
    value_bytes: int | None
    """Size of the value; None: the message is a tombstone."""
    header_count: int
    switch: str | None
    """Switch that held or moved the environment's clients meanwhile: the message may not have been copied."""


@dataclass(frozen=True, kw_only=True)
class RecordProduced:
    """Record that a message was produced."""

    stream: str
    cluster: str
    partition: int | None
    offset: int | None
    key_bytes: int | None
    value_bytes: int | None
    header_count: int
    switch: str | None


@dataclass(frozen=True)
class Produced:
    """State of the stream: empty, since no message restricts a later one."""


INITIAL = Produced()


def decide(state: Produced, command: RecordProduced) -> list[MessageProduced]:
    """Record every message."""
    return [MessageProduced(**vars(command))]


def evolve(state: Produced, event: Event) -> Produced:
    """Keep the state: messages do not change it."""
    return state
