"""Event stream `schemas-<cluster>`: schemas of the primary that a target cannot have, and schemas only it has.

The schema distributor compares periodically; an event reports a conflict once, when it is first seen, and once
more when it is resolved. Nothing on the target is overwritten meanwhile (decision 23).

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
"""Most events of one command: the event log is locked while they are appended."""

# --- events


@dataclass(frozen=True, kw_only=True)
class SchemaConflictFound(Event, name="SchemaConflictFound", version=1):
    """A schema of the primary cannot be written to a target, or a schema exists only on the target."""

    cluster: str
    kind: str
    """id-taken, version-taken, name-taken, refers-to-conflict, only-there, record-name, or too-large."""
    subject: str
    """Subject on the target; for name-taken, the subject on the primary."""
    version: int | None
    """Version of the subject; null if the conflict is about the whole subject."""
    schema_id: int | None
    detail: str


@dataclass(frozen=True, kw_only=True)
class SchemaConflictResolved(Event, name="SchemaConflictResolved", version=1):
    """The conflict no longer exists."""

    cluster: str
    kind: str
    subject: str
    version: int | None
    schema_id: int | None


ConflictEvent = SchemaConflictFound | SchemaConflictResolved

# --- commands


@dataclass(frozen=True, kw_only=True, order=True)
class Conflict:
    """A difference on a target that cannot be removed without a loss for somebody; see the event."""

    kind: str
    subject: str
    version: int | None = None
    schema_id: int | None = None
    detail: str = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class RecordConflicts:
    """Record all conflicts that a target has."""

    cluster: str
    conflicts: tuple[Conflict, ...]


# --- state


@dataclass(frozen=True, kw_only=True)
class TargetConflicts:
    """The open conflicts of a target."""

    open: Mapping[Conflict, None] = field(default_factory=dict)


INITIAL = TargetConflicts()

# --- decide


def decide(state: TargetConflicts, command: RecordConflicts) -> list[ConflictEvent]:
    """Return events for new and resolved conflicts, at most MOST_AT_ONCE.

    Repeating the same command returns the next ones.
    """
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
    """Return the state after an event; events of other versions of this program never make it fail."""
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
