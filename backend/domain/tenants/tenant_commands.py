"""Event stream `tenant-<name>`: the commands and their decisions. The stream's story is in `tenant.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from backend.domain.base.errors import (
    TAKEN,
    AlreadyExists,
    DomainError,
    FieldError,
    NotFound,
    StateConflict,
    ValueInvalid,
)
from backend.domain.base.limits import range_errors, refuse
from backend.domain.names import formats
from backend.domain.names.formats import ClusterFormats
from backend.domain.names.names import LONGEST_STREAM, StreamName, check_name
from backend.domain.tenants.stream import Stream, StreamChanged, StreamDeclared, StreamDeleted, Topic
from backend.domain.tenants.stream_records import StreamRecord, decide_record
from backend.domain.tenants.tenant import (
    DEFAULT_MARGIN_SECONDS,
    DEFAULT_OFFSET_MODE,
    OFFSET_MODES,
    Environment,
    EnvironmentChanged,
    EnvironmentCreated,
    Instance,
    InstanceCreated,
    Tenant,
    TenantCreated,
    TenantEvent,
)
from backend.domain.topics.stream_settings import CLUSTER_DEFAULT, StreamSettings, check_settings, removed_by
from backend.domain.topics.topic_settings import canonical

LONGEST_MARGIN_SECONDS = 7 * 24 * 3600

# --- commands


@dataclass(frozen=True, kw_only=True)
class CreateTenant:
    """Create a tenant."""

    tenant: str


@dataclass(frozen=True, kw_only=True)
class CreateInstance:
    """Create an instance of the tenant on a tree."""

    instance: str
    tree: str = "main"
    known_trees: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class CreateEnvironment:
    """Create an environment of an instance."""

    instance: str
    environment: str
    margin_seconds: int = DEFAULT_MARGIN_SECONDS
    offset_mode: str = DEFAULT_OFFSET_MODE
    record_name_subjects: bool = True


@dataclass(frozen=True, kw_only=True)
class ChangeEnvironment:
    """Change an environment's settings; None keeps a value."""

    instance: str
    environment: str
    margin_seconds: int | None = None
    offset_mode: str | None = None
    record_name_subjects: bool | None = None


@dataclass(frozen=True, kw_only=True)
class DeclareStream:
    """Declare a stream. The facts give its technical names and the owners of names that are taken."""

    instance: str
    environment: str
    stream: str
    settings: StreamSettings = field(default_factory=StreamSettings)
    clusters: Sequence[ClusterFormats] = ()
    """Formats of each cluster of the instance's tree."""
    taken_topics: Mapping[tuple[str, str], StreamName] = field(default_factory=dict)
    """(cluster, clash key) -> stream that has the name; see `formats.refuse_taken`."""
    taken_subjects: Mapping[tuple[str, str], StreamName] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DeclareStreams:
    """Declare several streams of one environment, all or none. The facts are those of `DeclareStream`."""

    instance: str
    environment: str
    streams: Sequence[tuple[str, StreamSettings]]
    clusters: Sequence[ClusterFormats] = ()
    taken_topics: Mapping[tuple[str, str], StreamName] = field(default_factory=dict)
    taken_subjects: Mapping[tuple[str, str], StreamName] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ChangeStream:
    """Change a stream's settings; None keeps a value.

    `confirm` is STREAM, needed if the change removes records.
    """

    instance: str
    environment: str
    stream: str
    partitions: int | None = None
    replication_factor: int | Literal["default"] | None = None
    """`default` (here and in the next field) stops declaring it: each cluster's default applies."""
    min_insync_replicas: int | Literal["default"] | None = None
    retention_ms: int | None = None
    cleanup_policy: str | None = None
    max_message_bytes: int | None = None
    distributed: bool | None = None
    config: Mapping[str, str] | None = None
    """The complete other topic settings, by Kafka's names."""
    clusters_with_records: tuple[str, ...] | None = None
    """Clusters whose topic has records, or could not be checked; None: nothing was checked."""
    confirm: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeleteStream:
    """Delete a stream and its topics. `confirm` is STREAM, needed if any topic has records."""

    instance: str
    environment: str
    stream: str
    clusters_with_records: tuple[str, ...] = ()
    """Clusters whose topic has records, or could not be checked."""
    confirm: str | None = None


_StreamCommand = DeclareStream | ChangeStream | DeleteStream | StreamRecord
_ScopeCommand = CreateTenant | CreateInstance | CreateEnvironment | ChangeEnvironment
TenantCommand = _ScopeCommand | _StreamCommand | DeclareStreams

# --- decide


def decide(state: Tenant | None, command: TenantCommand) -> list[TenantEvent]:
    """Return the events that carry the command out; none if it changes nothing.

    Raises NameInvalid, ValueInvalid, AlreadyExists, NotFound, StateConflict, TechnicalNameTaken.
    """
    if isinstance(command, CreateTenant):
        check_name(command.tenant, "tenant")
        if state is not None:
            raise AlreadyExists(f"tenant {command.tenant!r} already exists", TAKEN)
        return [TenantCreated(tenant=command.tenant)]
    if state is None:
        raise NotFound("there is no such tenant; GET /tenants lists them")
    match command:
        case CreateInstance():
            return _create_instance(state, command)
        case CreateEnvironment():
            return _create_environment(state, command)
        case ChangeEnvironment():
            return _change_environment(state, command)
        case DeclareStreams():
            return _declare_all(state, command)
        case _:
            return _decide_stream(state, command)


def _decide_stream(state: Tenant, command: _StreamCommand) -> list[TenantEvent]:
    environment = _environment(state, command.instance, command.environment)
    name = StreamName(state.name, command.instance, command.environment, command.stream)
    stream = environment.streams.get(command.stream)
    if isinstance(command, DeclareStream):
        return [_declare(name, stream, command)]
    if stream is None or (stream.settings is None and isinstance(command, ChangeStream | DeleteStream)):
        raise NotFound(f"there is no stream {name}")
    match command:
        case ChangeStream():
            return _change(name, stream, command)
        case DeleteStream():
            return [_delete(name, stream, command)]
        case _:
            return decide_record(name, stream, command)


def _create_instance(state: Tenant, command: CreateInstance) -> list[TenantEvent]:
    check_name(command.instance, "instance")
    if command.tree not in command.known_trees:
        known = ", ".join(sorted(command.known_trees)) or "none yet; PUT /trees/main first"
        detail = f"unknown tree {command.tree[:60]!r}; known: {known}"
        raise ValueInvalid(detail, (FieldError("/tree", detail),))
    if command.instance in state.instances:
        raise AlreadyExists(f"{state.name} has an instance {command.instance!r} already", TAKEN)
    return [InstanceCreated(tenant=state.name, instance=command.instance, tree=command.tree)]


def _instance(state: Tenant, name: str) -> Instance:
    instance = state.instances.get(name)
    if instance is None:
        raise NotFound(f"{state.name} has no instance {name!r}")
    return instance


def _environment(state: Tenant, instance: str, name: str) -> Environment:
    environment = _instance(state, instance).environments.get(name)
    if environment is None:
        raise NotFound(f"{state.name}/{instance} has no environment {name!r}")
    return environment


def _create_environment(state: Tenant, command: CreateEnvironment) -> list[TenantEvent]:
    check_name(command.environment, "environment")
    _check_environment(command.margin_seconds, command.offset_mode)
    if command.environment in _instance(state, command.instance).environments:
        raise AlreadyExists(
            f"{state.name}/{command.instance} has an environment {command.environment!r} already", TAKEN
        )
    return [
        EnvironmentCreated(
            tenant=state.name,
            instance=command.instance,
            environment=command.environment,
            margin_seconds=command.margin_seconds,
            offset_mode=command.offset_mode,
            record_name_subjects=command.record_name_subjects,
        )
    ]


def _change_environment(state: Tenant, command: ChangeEnvironment) -> list[TenantEvent]:
    present = _environment(state, command.instance, command.environment)
    margin = present.margin_seconds if command.margin_seconds is None else command.margin_seconds
    mode = present.offset_mode if command.offset_mode is None else command.offset_mode
    allowed = command.record_name_subjects
    names = present.record_name_subjects if allowed is None else allowed
    _check_environment(margin, mode)
    if (margin, mode, names) == (present.margin_seconds, present.offset_mode, present.record_name_subjects):
        return []
    return [
        EnvironmentChanged(
            tenant=state.name,
            instance=command.instance,
            environment=command.environment,
            margin_seconds=margin,
            offset_mode=mode,
            record_name_subjects=names,
        )
    ]


def _check_environment(margin_seconds: int, offset_mode: str) -> None:
    errors = range_errors((("margin_seconds", margin_seconds, 0, LONGEST_MARGIN_SECONDS),))
    if offset_mode not in OFFSET_MODES:
        errors.append(FieldError("/offset_mode", f"must be one of {', '.join(OFFSET_MODES)}"))
    refuse(errors)


def _declare(name: StreamName, stream: Stream | None, command: DeclareStream) -> TenantEvent:
    check_name(command.stream, "stream", longest=LONGEST_STREAM)
    check_settings(command.settings)
    if stream is not None and stream.settings is not None:
        raise AlreadyExists(f"stream {name} already exists", TAKEN)
    topics = stream.topics if stream else {}
    left = [formats.cluster for formats in command.clusters if topics.get(formats.cluster, Topic()).removing]
    if left:
        raise StateConflict(
            f"{name} was deleted and its topic is still being removed from {', '.join(left)}; try again when "
            "it is gone"
        )
    formats.technical_names(name, command.clusters)
    formats.refuse_taken(name, command.clusters, command.taken_topics, command.taken_subjects)
    revision = stream.revision + 1 if stream else 1
    settings = replace(command.settings, config=canonical(command.settings.config))
    return StreamDeclared(**_fields(name, revision, settings))


def _declare_all(state: Tenant, command: DeclareStreams) -> list[TenantEvent]:
    """Declare one stream after the other; an error points at the stream that it is about."""
    environment = _environment(state, command.instance, command.environment)
    topics, subjects = dict(command.taken_topics), dict(command.taken_subjects)
    found: dict[str, TenantEvent] = {}
    for number, (stream, settings) in enumerate(command.streams):
        name = StreamName(state.name, command.instance, command.environment, stream)
        one = DeclareStream(
            instance=command.instance,
            environment=command.environment,
            stream=stream,
            settings=settings,
            clusters=command.clusters,
            taken_topics=topics,
            taken_subjects=subjects,
        )
        try:
            if stream in found:
                raise ValueInvalid(f"{name} is listed twice", (FieldError("/name", "it is listed twice"),))
            found[stream] = _declare(name, environment.streams.get(stream), one)
        except DomainError as error:
            raise error.within(f"/streams/{number}") from error
        formats.take_names(name, command.clusters, topics, subjects)
    return list(found.values())


def _change(name: StreamName, stream: Stream, command: ChangeStream) -> list[TenantEvent]:
    present = stream.settings
    assert present is not None
    settings = changed(present, command)
    check_settings(settings)
    settings = replace(settings, config=canonical(settings.config))
    errors = []
    if settings.partitions < present.partitions:
        errors.append(
            FieldError(
                "/partitions", f"cannot be reduced: it has {present.partitions}, and Kafka removes no partitions"
            )
        )
    refuse(errors)
    _check_confirmation(name, command.confirm)
    if settings == present:
        return []
    removed = removed_by(present, settings)
    if removed and command.confirm is None:
        if command.clusters_with_records is None:
            raise StateConflict(
                f"{name} was changed meanwhile, and this change would now remove records; reload it and try again"
            )
        if command.clusters_with_records:
            where = ", ".join(command.clusters_with_records)
            raise StateConflict(
                f"{name} has, or may have, records on {where}; Kafka would remove {removed}. "
                f"To confirm, repeat with ?confirm={name} (treeline: --confirm {name})"
            )
    return [StreamChanged(**_fields(name, stream.revision + 1, settings))]


def changed(present: StreamSettings, command: ChangeStream) -> StreamSettings:
    """Return a stream's settings with what a command changes."""
    wished: dict[str, Any] = {
        key: getattr(command, key) for key in asdict(present) if getattr(command, key) is not None
    }
    settings: dict[str, Any] = {key: None if value == CLUSTER_DEFAULT else value for key, value in wished.items()}
    return replace(present, **settings)


def _delete(name: StreamName, stream: Stream, command: DeleteStream) -> TenantEvent:
    _check_confirmation(name, command.confirm)
    if command.clusters_with_records and command.confirm is None:
        raise StateConflict(
            f"{name} has, or may have, records on {', '.join(command.clusters_with_records)}; all of them would "
            f"be deleted. To confirm, repeat with ?confirm={name} (treeline: --confirm {name})"
        )
    present = tuple(sorted(c for c, topic in stream.topics.items() if topic.replication_factor is not None))
    return StreamDeleted(**asdict(name), clusters=present, confirmed=command.confirm is not None)


def _check_confirmation(name: StreamName, confirm: str | None) -> None:
    if confirm is not None and confirm != str(name):
        raise StateConflict(f"the confirmation names {confirm[:300]!r}, not {name}")


def _fields(name: StreamName, revision: int, settings: StreamSettings) -> dict[str, Any]:
    return {**asdict(name), "revision": revision, **asdict(settings), "config": dict(settings.config)}
