"""Event stream `adoption-<cluster>`: turning topics that a cluster already holds into streams.

An adoption was planned and shown first (`adoption_plan.py`). Its beginning says which topics become which streams,
with the settings that the topics have; a worker then declares the streams, some hundreds in one transaction, and
ends the adoption with what was refused meanwhile. Nothing on the cluster is rewritten: the reconcile loop finds
the topics there and records them, and distribution begins with their first records.

    (none) --Begin--> open --End--> ended --Begin--> open ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backend.domain.base.errors import FieldError, StateConflict, ValueInvalid
from backend.domain.base.event import Event

MOST_TOPICS = 1000
"""Most topics of one adoption: an event has at most 1 MiB."""

# --- events


@dataclass(frozen=True, kw_only=True)
class AdoptedTopic:
    """A topic of the cluster and the stream that it becomes, with the topic's settings."""

    topic: str
    topic_id: str
    tenant: str
    instance: str
    environment: str
    stream: str
    partitions: int
    replication_factor: int | None
    """None: not declared, as for a topic that joins a stream which leaves it to each cluster."""
    min_insync_replicas: int | None
    retention_ms: int
    cleanup_policy: str
    max_message_bytes: int
    config: dict[str, str]
    """Other settings of the topic that the stream will declare."""


@dataclass(frozen=True, kw_only=True)
class AdoptionBegun(Event, name="AdoptionBegun", version=2):
    """The adoption of topics has begun: they become new streams, or join streams that are declared."""

    cluster: str
    topics: tuple[AdoptedTopic, ...]


@dataclass(frozen=True, kw_only=True)
class AdoptionEnded(Event, name="AdoptionEnded", version=1):
    """The adoption has ended: every topic's stream is declared, or was refused."""

    cluster: str
    refused: dict[str, str]
    """Topic -> reason why its stream could not be declared."""


AdoptionEvent = AdoptionBegun | AdoptionEnded

# --- commands


@dataclass(frozen=True, kw_only=True)
class BeginAdoption:
    """Begin the adoption of these topics."""

    cluster: str
    topics: tuple[AdoptedTopic, ...]


@dataclass(frozen=True, kw_only=True)
class EndAdoption:
    """End the adoption: everything that could be declared is declared."""

    refused: Mapping[str, str]


AdoptionCommand = BeginAdoption | EndAdoption

# --- state


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """The latest adoption on a cluster."""

    cluster: str
    open: bool


INITIAL: Adoption | None = None

# --- decide


def decide(state: Adoption | None, command: AdoptionCommand) -> list[AdoptionEvent]:
    """Return the events that carry the command out. Raises StateConflict or ValueInvalid."""
    if isinstance(command, EndAdoption):
        if state is None or not state.open:
            return []
        return [AdoptionEnded(cluster=state.cluster, refused=dict(command.refused))]
    if state is not None and state.open:
        raise StateConflict(f"an adoption on {command.cluster} is already running; try again when it has ended")
    if not 1 <= len(command.topics) <= MOST_TOPICS:
        detail = f"name 1 to {MOST_TOPICS} topics at once, not {len(command.topics)}"
        raise ValueInvalid(detail, (FieldError("/topics", detail),))
    return [AdoptionBegun(cluster=command.cluster, topics=command.topics)]


# --- evolve


def evolve(state: Adoption | None, event: Event) -> Adoption | None:
    """Return the state after an event; an event that does not apply leaves the state unchanged."""
    match event:
        case AdoptionBegun():
            return Adoption(cluster=event.cluster, open=True)
        case AdoptionEnded():
            return Adoption(cluster=event.cluster, open=False)
        case _:
            return state
