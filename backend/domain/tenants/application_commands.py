"""Event stream `application-<name>`: the commands of users, and their decisions. Its story: `application.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from backend.domain.base.errors import TAKEN, AlreadyExists, FieldError, NotFound, StateConflict, ValueInvalid
from backend.domain.base.limits import range_errors, refuse
from backend.domain.names.names import ApplicationName, StreamName, check_name, is_name
from backend.domain.offsets.application_groups import ClusterGroups, check_groups
from backend.domain.tenants.application import (
    BY_APPLICATION,
    BY_OWNER,
    CONSUME,
    OPERATIONS,
    PRODUCE,
    AccessGranted,
    AccessRefused,
    AccessRequested,
    AccessWithdrawn,
    Application,
    ApplicationChanged,
    ApplicationDeclared,
    ApplicationDeleted,
    ApplicationEvent,
    ApplicationSettings,
    CredentialsIssued,
    CredentialsRevoked,
    GrantState,
    evolve,
)
from backend.domain.tenants.application_records import ApplicationRecord, decide_record

MOST_APPLICATIONS = 1000
"""Limit for one environment."""
MOST_STREAMS = 100
MOST_GROUPS = 50
MOST_BYTES_PER_SECOND = 2**53 - 1  # Kafka keeps quotas as doubles
MOST_PERCENT = 100_000  # of one request handler; a broker has several
GRANT, REFUSE, WITHDRAW = DECISIONS = ("grant", "refuse", "withdraw")
FIELDS = {PRODUCE: "produces", CONSUME: "consumes"}
"""Operation -> field in which an application names its streams."""

# --- commands


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts for a decision: what exists, and what the caller may decide."""

    may_decide: frozenset[str] | None = frozenset()
    """Tenants for whose streams the caller may decide; None means all."""
    missing: frozenset[str] = frozenset()
    """Named STREAMs that do not exist, of tenants that the caller may read; other tenants' are not checked."""
    clusters: Sequence[ClusterGroups] = ()
    """Clusters of the instance's tree."""
    taken_groups: Mapping[tuple[str, str], ApplicationName] = field(default_factory=dict)
    applications: int = 0
    """Number of applications that the environment has."""


@dataclass(frozen=True, kw_only=True)
class DeclareApplication:
    """Declare an application. Streams are named as `orders`, if of its own environment, or in full."""

    name: ApplicationName
    groups: tuple[str, ...] | None = None
    """None means one group that has the application's name."""
    produces: tuple[str, ...] = ()
    consumes: tuple[str, ...] = ()
    quotas: Mapping[str, int | None] = field(default_factory=dict)
    facts: Facts


@dataclass(frozen=True, kw_only=True)
class ChangeApplication:
    """Change an application. None keeps a list; a quota that is not given stays, a quota of None is removed."""

    groups: tuple[str, ...] | None = None
    produces: tuple[str, ...] | None = None
    consumes: tuple[str, ...] | None = None
    quotas: Mapping[str, int | None] = field(default_factory=dict)
    facts: Facts


@dataclass(frozen=True, kw_only=True)
class DeleteApplication:
    """Delete an application with its grants and credentials."""

    clusters: frozenset[str]
    """Clusters that may have something of the application, recorded or not; all of them exist."""


@dataclass(frozen=True, kw_only=True)
class DecideAccess:
    """Grant, refuse or withdraw an application's access; the caller may decide for the stream's tenant."""

    application: ApplicationName
    stream: str
    operation: str
    decision: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class IssueCredentials:
    """Issue a new password to the application."""


@dataclass(frozen=True, kw_only=True)
class RevokeCredentials:
    """Revoke the application's password."""


ApplicationCommand = (
    DeclareApplication
    | ChangeApplication
    | DeleteApplication
    | DecideAccess
    | IssueCredentials
    | RevokeCredentials
    | ApplicationRecord
)

# --- decide


def decide(state: Application | None, command: ApplicationCommand) -> Sequence[ApplicationEvent]:
    """Return the events that carry the command out; none if it changes nothing.

    Raises NameInvalid, ValueInvalid, AlreadyExists, NotFound, StateConflict, TechnicalNameTaken.
    """
    match command:
        case DeclareApplication():
            return _declare(state, command)
        case DecideAccess():
            return _decide_access(state, command)
        case ChangeApplication() | DeleteApplication() | IssueCredentials() | RevokeCredentials():
            if state is None or state.settings is None:
                raise NotFound("there is no such application")
            return _change_existing(state, state.settings, command)
        case _:
            return [] if state is None else decide_record(state, command)


def not_requested(application: object, operation: str, stream: str) -> NotFound:
    """Return the one error for access that was not requested and for an application that does not exist."""
    return NotFound(f"{str(application)[:1000]!r} does not ask to {operation[:60]}: {stream[:1000]!r}")


def stream_named(text: str, within: ApplicationName) -> StreamName | None:
    """Return the stream that a text names:

    `orders`, of the own environment, or a full name; None if it is no name.
    """
    parts = text.split("/")
    if len(parts) == 1:
        parts = [within.tenant, within.instance, within.environment, text]
    if len(parts) != 4 or not all(map(is_name, parts)):
        return None
    return StreamName(*parts)


def _declare(state: Application | None, command: DeclareApplication) -> list[ApplicationEvent]:
    name = command.name
    check_name(name.application, "application")
    if state is not None and state.settings is not None:
        raise AlreadyExists(f"application {name} already exists", TAKEN)
    if command.facts.applications >= MOST_APPLICATIONS:
        raise StateConflict(f"the environment has {MOST_APPLICATIONS} applications, which is the limit")
    settings = replace(ApplicationSettings(), **_quotas(command.quotas), groups=_groups(name, command))
    wished = {operation: _wished(name, command, operation) for operation in OPERATIONS}
    revision = state.revision + 1 if state else 1
    declared = ApplicationDeclared(**asdict(name), revision=revision, **asdict(settings))
    return _follow(state, [declared], wished, command.facts)


def _change_existing(
    state: Application,
    settings: ApplicationSettings,
    command: ChangeApplication | DeleteApplication | IssueCredentials | RevokeCredentials,
) -> list[ApplicationEvent]:
    revision, name = state.revision + 1, asdict(state.name)
    match command:
        case ChangeApplication():
            return _change(state, settings, command)
        case DeleteApplication():
            return [ApplicationDeleted(**name, revision=revision, clusters=tuple(sorted(command.clusters)))]
        case IssueCredentials():
            return [CredentialsIssued(**name, number=state.issued + 1, revision=revision)]
        case RevokeCredentials():
            if state.credentials is None:
                raise NotFound(f"{state.name} has no credentials")
            return [CredentialsRevoked(**name, revision=revision)]


def _change(
    state: Application, settings: ApplicationSettings, command: ChangeApplication
) -> list[ApplicationEvent]:
    wished = {
        operation: _wished(state.name, command, operation, state.streams(operation))
        for operation in OPERATIONS
        if getattr(command, FIELDS[operation]) is not None
    }
    changed = replace(settings, **_quotas(command.quotas))
    if command.groups is not None:
        changed = replace(changed, groups=_groups(state.name, command))
    events: list[ApplicationEvent] = []
    if changed != settings:
        fields = {**asdict(state.name), **asdict(changed)}
        events = [ApplicationChanged(**fields, revision=state.revision + 1)]
    return _follow(state, events, wished, command.facts)


def _quotas(quotas: Mapping[str, int | None]) -> dict[str, Any]:
    most = {"request_percentage": MOST_PERCENT}
    given = [(name, value) for name, value in quotas.items() if value is not None]
    refuse(range_errors([(name, value, 1, most.get(name, MOST_BYTES_PER_SECOND)) for name, value in given]))
    return dict(quotas)


def _groups(name: ApplicationName, command: DeclareApplication | ChangeApplication) -> tuple[str, ...]:
    """Return the logical groups, after checking that each can be the application's own on every cluster."""
    if command.groups is None:
        places = {name.application: "/name"}
    else:
        places = {group: f"/groups/{number}" for number, group in enumerate(command.groups)}
    if len(places) > MOST_GROUPS:
        detail = f"has {len(places)} groups, at most {MOST_GROUPS} are allowed"
        raise ValueInvalid(f"{name} {detail}", (FieldError("/groups", detail),))
    check_groups(name, places, command.facts.clusters, command.facts.taken_groups)
    return tuple(sorted(places))


def _wished(
    name: ApplicationName,
    command: DeclareApplication | ChangeApplication,
    operation: str,
    known: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """Return the STREAMs that an application names for an operation; `known` ones may have been deleted since."""
    place, found = FIELDS[operation], set()
    errors: list[FieldError] = []
    for number, text in enumerate(getattr(command, place)):
        stream = stream_named(text, name)
        pointer = f"/{place}/{number}"
        if stream is None:
            detail = f"{text[:60]!r} names no stream: STREAM, or TENANT/INSTANCE/ENVIRONMENT/STREAM, is wanted"
            errors.append(FieldError(pointer, detail))
        elif str(stream) in command.facts.missing - known:
            errors.append(FieldError(pointer, f"there is no stream {stream}"))
        found.add(str(stream))
    if errors:
        detail = "; ".join(error.detail for error in errors[:3])
        raise ValueInvalid(detail, tuple(errors[:MOST_STREAMS]))
    if len(found) > MOST_STREAMS:
        detail = f"names {len(found)} streams, at most {MOST_STREAMS} are allowed"
        raise ValueInvalid(f"{name} {detail}", (FieldError(f"/{place}", detail),))
    return frozenset(found)


def _follow(
    state: Application | None,
    events: list[ApplicationEvent],
    wished: Mapping[str, frozenset[str]],
    facts: Facts,
) -> list[ApplicationEvent]:
    """Return `events`, followed by the events that lead from the streams named so far to those wished."""
    for event in events:
        state = evolve(state, event)
    assert state is not None
    name, revision, found = asdict(state.name), state.revision, list(events)
    for operation, streams in wished.items():
        for stream in sorted(state.streams(operation) - streams):
            access = {**name, "stream": stream, "operation": operation}
            revision += state.grants[operation, stream] is GrantState.GRANTED
            found.append(AccessWithdrawn(**access, revision=revision, by=BY_APPLICATION, reason=None))
        for stream in sorted(streams - state.streams(operation)):
            access = {**name, "stream": stream, "operation": operation}
            found.append(AccessRequested(**access))
            if facts.may_decide is None or stream.partition("/")[0] in facts.may_decide:
                revision += 1
                found.append(AccessGranted(**access, revision=revision))
    return found


def _decide_access(state: Application | None, command: DecideAccess) -> list[ApplicationEvent]:
    for value, words, pointer in (
        (command.operation, OPERATIONS, "/operation"),
        (command.decision, DECISIONS, "/decision"),
    ):
        if value not in words:
            detail = f"must be one of {', '.join(words)}, not {value[:60]!r}"
            raise ValueInvalid(detail, (FieldError(pointer, detail),))
    present = state.grants.get((command.operation, command.stream)) if state else None
    if state is None or present is None:
        # The answer hides whether the application exists: the caller may be of another tenant.
        raise not_requested(command.application, command.operation, command.stream)
    access = {**asdict(state.name), "stream": command.stream, "operation": command.operation}
    granted = present is GrantState.GRANTED
    match command.decision:
        case "grant":
            return [] if granted else [AccessGranted(**access, revision=state.revision + 1)]
        case "refuse":
            if present is GrantState.REFUSED:
                return []
            if present is not GrantState.REQUESTED:
                raise StateConflict(
                    f"this is {present}, so there is no request to answer; withdraw the grant instead"
                )
            return [AccessRefused(**access, reason=command.reason)]
        case _:
            if present is GrantState.WITHDRAWN:
                return []
            if not granted:
                raise StateConflict(f"this is {present}, not granted; refuse the request instead")
            revision, reason = state.revision + 1, command.reason
            return [AccessWithdrawn(**access, revision=revision, by=BY_OWNER, reason=reason)]
