"""Event stream `schemas-<cluster>`: what of the primary's schemas a target cannot have, and what is there alone.

The schema distributor compares again and again; an event tells of a conflict once, when it is first seen, and once
more when it is gone. Nothing on the target is written over meanwhile (decision 23).

    (none) --RecordConflicts--> open --RecordConflicts--> resolved
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backend.domain.base.event import Event

ID_TAKEN = "id-taken"
VERSION_TAKEN = "version-taken"
NAME_TAKEN = "name-taken"
REFERS_TO_CONFLICT = "refers-to-conflict"
ONLY_THERE = "only-there"
RECORD_NAME = "record-name"
TOO_LARGE = "too-large"
MOST_AT_ONCE = 500
"""Events of one command: the event log is locked for all of them."""

# --- events


@dataclass(frozen=True, kw_only=True)
class SchemaConflictFound(Event, name="SchemaConflictFound", version=1):
    """Something of the primary is not written on a target, or something there is nobody else's."""

    cluster: str
    kind: str
    """id-taken, version-taken, name-taken, refers-to-conflict, only-there, record-name, or too-large."""
    subject: str
    """On the target; of a name that is taken, on the primary."""
    version: int | None
    """Null: the subject as a whole."""
    schema_id: int | None
    detail: str


@dataclass(frozen=True, kw_only=True)
class SchemaConflictResolved(Event, name="SchemaConflictResolved", version=1):
    """It is not in the way any more."""

    cluster: str
    kind: str
    subject: str
    version: int | None
    schema_id: int | None


ConflictEvent = SchemaConflictFound | SchemaConflictResolved

# --- commands


@dataclass(frozen=True, kw_only=True, order=True)
class Conflict:
    """What cannot be made equal on a target without taking something away from somebody; see the event."""

    kind: str
    subject: str
    version: int | None = None
    schema_id: int | None = None
    detail: str = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class RecordConflicts:
    """Say which conflicts a target has, all of them."""

    cluster: str
    conflicts: tuple[Conflict, ...]


# --- state


@dataclass(frozen=True, kw_only=True)
class TargetConflicts:
    """Those that are open."""

    open: Mapping[Conflict, None] = field(default_factory=dict)


INITIAL = TargetConflicts()

# --- decide


def decide(state: TargetConflicts, command: RecordConflicts) -> list[ConflictEvent]:
    """Events for what is new and what is gone, at most MOST_AT_ONCE: the same command again gives the next."""
    there = frozenset(command.conflicts)
    found: list[ConflictEvent] = [
        SchemaConflictFound(cluster=command.cluster, **vars(each))
        for each in sorted(there)
        if each not in state.open
    ]
    gone = [
        SchemaConflictResolved(
            cluster=command.cluster,
            kind=each.kind,
            subject=each.subject,
            version=each.version,
            schema_id=each.schema_id,
        )
        for each in state.open
        if each not in there
    ]
    return [*found, *gone][:MOST_AT_ONCE]


# --- evolve


def evolve(state: TargetConflicts, event: Event) -> TargetConflicts:
    """The state after an event; events of other versions of this program never make it fail."""
    match event:
        case SchemaConflictFound():
            return TargetConflicts(open={**state.open, _conflict(event, event.detail): None})
        case SchemaConflictResolved():
            gone = _conflict(event, "")
            return TargetConflicts(open={each: None for each in state.open if each != gone})
        case _:
            return state


def _conflict(event: ConflictEvent, detail: str) -> Conflict:
    return Conflict(
        kind=event.kind,
        subject=event.subject,
        version=event.version,
        schema_id=event.schema_id,
        detail=detail,
    )
