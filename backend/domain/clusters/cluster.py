"""Event stream `cluster-<name>`: one Kafka cluster, its connection, and the formats of names on it.

A cluster's number goes into every record's `copy-origin`, so numbers rise and are never used again, not even after
a removal. Whether a cluster answers is an observation that others act on, so it is an event too, but only when it
changes. The Kafka cluster id that first answered stays the cluster's identity: another one behind the same address
would make every position on it meaningless, so it counts as offline.

    (none) --Add--> online | offline --RecordOnline/RecordOffline--> online | offline --Remove--> (none)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from backend.domain.base.errors import TAKEN, AlreadyExists, FieldError, NotFound, StateConflict, ValueInvalid
from backend.domain.base.event import Event
from backend.domain.clusters.client_properties import check_properties, check_secrets_stay, unmasked
from backend.domain.names import formats
from backend.domain.names.formats import ClusterFormats, check_format
from backend.domain.names.names import ApplicationName, StreamName, check_name
from backend.domain.topics.replica_defaults import ClusterDefaultsSet, ReplicaDefaults, defaults_set

LONGEST_NAME = 63
LONGEST_BOOTSTRAP = 4096

# --- events


@dataclass(frozen=True, kw_only=True)
class ClusterAdded(Event, name="ClusterAdded", version=1):
    """A Kafka cluster was added; it may be used as a leaf."""

    name: str
    number: int
    """Number that stands for the cluster in `copy-origin`; from 1, never used again."""
    bootstrap_servers: str
    """`host:port`, several separated by commas."""
    zone: str | None
    topic_format: str
    group_format: str
    subject_format: str
    properties: dict[str, str]
    """Connection properties; secrets are references."""
    kafka_cluster_id: str | None
    """Kafka's cluster id; None while the cluster has never answered."""
    brokers: int | None
    """Number of brokers that answered; None while the cluster has never answered."""


@dataclass(frozen=True, kw_only=True)
class ClusterChanged(Event, name="ClusterChanged", version=1):
    """The cluster's description has changed; every field is the full new value."""

    bootstrap_servers: str
    zone: str | None
    topic_format: str
    group_format: str
    subject_format: str
    properties: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ClusterRemoved(Event, name="ClusterRemoved", version=1):
    """The cluster was removed. Its number stays taken."""


@dataclass(frozen=True, kw_only=True)
class ClusterCameOnline(Event, name="ClusterCameOnline", version=1):
    """The cluster answers, or its number of brokers has changed."""

    kafka_cluster_id: str
    brokers: int


@dataclass(frozen=True, kw_only=True)
class ClusterWentOffline(Event, name="ClusterWentOffline", version=1):
    """The cluster does not answer, or the reason has changed."""

    reason: str


ClusterEvent = (
    ClusterAdded | ClusterChanged | ClusterRemoved | ClusterCameOnline | ClusterWentOffline | ClusterDefaultsSet
)

# --- commands


@dataclass(frozen=True, kw_only=True)
class AddCluster:
    """Add a Kafka cluster. If it did not answer, `unreachable` is the reason, and the id and brokers are None."""

    name: str
    number: int
    bootstrap_servers: str
    zone: str | None = None
    topic_format: str = formats.DEFAULT_TOPIC_FORMAT
    group_format: str = formats.DEFAULT_GROUP_FORMAT
    subject_format: str = formats.DEFAULT_SUBJECT_FORMAT
    properties: Mapping[str, str] = field(default_factory=dict)
    kafka_cluster_id: str | None = None
    brokers: int | None = None
    unreachable: str | None = None
    known_kafka_clusters: Mapping[str, str] = field(default_factory=dict)
    """Kafka cluster id -> name of another cluster that has this id."""
    declared_streams: Sequence[StreamName] = ()
    """All streams: a leaf's formats must give each of them a unique name."""
    defaults: ReplicaDefaults | None = None


@dataclass(frozen=True, kw_only=True)
class ChangeCluster:
    """Change the cluster's description; None keeps a value, `clear_zone` removes the zone."""

    bootstrap_servers: str | None = None
    zone: str | None = None
    clear_zone: bool = False
    topic_format: str | None = None
    group_format: str | None = None
    subject_format: str | None = None
    properties: Mapping[str, str] | None = None
    defaults: ReplicaDefaults | None = None
    kafka_cluster_id: str | None = None
    """Kafka cluster id that answers at the new address; None if none was requested or none answered."""
    known_kafka_clusters: Mapping[str, str] = field(default_factory=dict)
    declared_streams: Sequence[StreamName] = ()
    live_stream: StreamName | None = None
    """A stream that has, or is about to get, a topic on this cluster."""
    live_application: ApplicationName | None = None
    """An application that has, or is about to get, its groups on this cluster."""


@dataclass(frozen=True, kw_only=True)
class RemoveCluster:
    """Remove the cluster."""

    trees: tuple[str, ...] = ()
    """Trees that it is a leaf of."""


@dataclass(frozen=True, kw_only=True)
class RecordOnline:
    """Record that the cluster answered."""

    kafka_cluster_id: str
    brokers: int
    known_kafka_clusters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RecordOffline:
    """Record that the cluster did not answer."""

    reason: str


ClusterCommand = AddCluster | ChangeCluster | RemoveCluster | RecordOnline | RecordOffline

# --- state


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster as its events left it."""

    name: str
    number: int
    bootstrap_servers: str
    zone: str | None
    topic_format: str
    group_format: str
    subject_format: str
    properties: Mapping[str, str]
    kafka_cluster_id: str | None
    brokers: int | None
    online: bool
    reason: str | None = None
    defaults: ReplicaDefaults = field(default_factory=ReplicaDefaults)


INITIAL: Cluster | None = None

# --- decide


def decide(state: Cluster | None, command: ClusterCommand) -> list[ClusterEvent]:
    """Return the events that carry the command out; none if it changes nothing.

    Raises NameInvalid, ValueInvalid, FormatInvalid, PropertiesInvalid, AlreadyExists, StateConflict,
    TechnicalNameTaken, NotFound.
    """
    if isinstance(command, AddCluster):
        return _add(state, command)
    if state is None:
        raise NotFound("there is no such cluster; GET /clusters lists them")
    match command:
        case ChangeCluster():
            return _change(state, command)
        case RemoveCluster():
            return _remove(state, command)
        case RecordOnline():
            return _record_online(state, command)
        case RecordOffline():
            return [] if (state.online, state.reason) == (False, command.reason) else [_offline(command.reason)]


def _add(state: Cluster | None, command: AddCluster) -> list[ClusterEvent]:
    check_name(command.name, "cluster", longest=LONGEST_NAME)
    event = ClusterAdded(
        name=command.name,
        number=command.number,
        bootstrap_servers=command.bootstrap_servers,
        zone=command.zone,
        topic_format=command.topic_format,
        group_format=command.group_format,
        subject_format=command.subject_format,
        properties=dict(command.properties),
        kafka_cluster_id=command.kafka_cluster_id,
        brokers=command.brokers,
    )
    check_description(event)
    if state is not None:
        raise AlreadyExists(f"cluster {command.name!r} already exists, with number {state.number}", TAKEN)
    _refuse_known(command.name, command.kafka_cluster_id, command.known_kafka_clusters)
    _check_names(event, command.name, command.declared_streams)
    offline = [] if command.unreachable is None else [_offline(command.unreachable)]
    return [event, *offline, *defaults_set(ReplicaDefaults(), command.defaults)]


def _change(state: Cluster, command: ChangeCluster) -> list[ClusterEvent]:
    properties = state.properties
    if command.properties is not None:
        properties = unmasked(command.properties, state.properties)
    event = ClusterChanged(
        bootstrap_servers=_given(command.bootstrap_servers, state.bootstrap_servers),
        zone=None if command.clear_zone else command.zone if command.zone is not None else state.zone,
        topic_format=_given(command.topic_format, state.topic_format),
        group_format=_given(command.group_format, state.group_format),
        subject_format=_given(command.subject_format, state.subject_format),
        properties=dict(properties),
    )
    check_description(event)
    check_secrets_stay(
        command.properties, state.properties, before=state.bootstrap_servers, now=event.bootstrap_servers
    )
    if _formats(event) != _formats(state):
        if command.live_stream is not None:
            raise StateConflict(
                f"{command.live_stream} has a topic on {state.name}; its formats cannot change while topics with "
                "these names exist, since their records would stay in the topics with the old names"
            )
        _check_names(event, state.name, command.declared_streams)
    if event.group_format != state.group_format and command.live_application is not None:
        raise StateConflict(
            f"{command.live_application} has its groups on {state.name}; the group format cannot change while "
            "applications use groups made from it"
        )
    answering, known = command.kafka_cluster_id, state.kafka_cluster_id
    if answering and known and answering != known:
        raise StateConflict(
            f"{event.bootstrap_servers} is Kafka cluster {answering}, but {state.name} is {known}; add it as a "
            "new cluster",
            (FieldError("/bootstrap_servers", f"not the Kafka cluster of {state.name}"),),
        )
    _refuse_known(state.name, answering, command.known_kafka_clusters)
    same = all(getattr(state, name) == value for name, value in vars(event).items())
    return [*([] if same else [event]), *defaults_set(state.defaults, command.defaults)]


def _remove(state: Cluster, command: RemoveCluster) -> list[ClusterEvent]:
    if command.trees:
        raise StateConflict(
            f"{state.name} is a leaf of tree {', '.join(command.trees)}; remove it from the tree first"
        )
    return [ClusterRemoved()]


def _record_online(state: Cluster, command: RecordOnline) -> list[ClusterEvent]:
    answering, known = command.kafka_cluster_id, state.kafka_cluster_id
    other = command.known_kafka_clusters.get(answering)
    reason = None
    if known and answering != known:
        reason = f"another Kafka cluster answers: {answering} instead of {known}"
    elif other and other != state.name:
        reason = f"it is the same Kafka cluster as {other!r}, {answering}"
    if reason:
        return [] if (state.online, state.reason) == (False, reason) else [_offline(reason)]
    if (state.online, known, state.brokers) == (True, answering, command.brokers):
        return []
    return [ClusterCameOnline(kafka_cluster_id=answering, brokers=command.brokers)]


def _given(value: str | None, present: str) -> str:
    return present if value is None else value


def _refuse_known(name: str, kafka_cluster_id: str | None, known: Mapping[str, str]) -> None:
    other = known.get(kafka_cluster_id or "")
    if other and other != name:
        raise StateConflict(
            f"this is Kafka cluster {kafka_cluster_id}, which exists as {other!r}; a Kafka cluster can be one "
            "leaf only",
            (FieldError("/bootstrap_servers", f"the same Kafka cluster as {other!r}"),),
        )


def _offline(reason: str) -> ClusterWentOffline:
    return ClusterWentOffline(reason=reason)


def _formats(source: ClusterChanged | Cluster) -> tuple[str, str, str]:
    return (source.topic_format, source.group_format, source.subject_format)


def _check_names(event: ClusterAdded | ClusterChanged, name: str, streams: Sequence[StreamName]) -> None:
    formats.check_deployment(
        streams, ClusterFormats(name, event.topic_format, event.subject_format), "/topic_format"
    )


def check_description(described: ClusterAdded | ClusterChanged) -> None:
    """Check a cluster's description as far as possible without a connection.

    Raises ValueInvalid, FormatInvalid, NameInvalid or PropertiesInvalid.
    """
    check_bootstrap_servers(described.bootstrap_servers)
    if described.zone is not None:
        check_name(described.zone, "zone", pointer="/zone")
    check_format(described.topic_format, "topic", "/topic_format")
    check_format(described.group_format, "group", "/group_format")
    check_format(described.subject_format, "topic", "/subject_format")
    check_properties(described.properties)


_HOST = re.compile(r"\[[0-9a-fA-F:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")


def check_bootstrap_servers(servers: str) -> None:
    """Raise ValueInvalid unless the text is `host:port[,host:port ...]`, without white space anywhere."""
    if any(character.isspace() for character in servers):
        # Clients interpret white space differently: some connect to a host whose name begins with a blank.
        detail = "contains white space: write host:port,host:port without any"
        raise ValueInvalid(f"bootstrap_servers {detail}", (FieldError("/bootstrap_servers", detail),))
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        number = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0
        if not _HOST.fullmatch(host) or not 1 <= number <= 65535 or len(servers) > LONGEST_BOOTSTRAP:
            detail = f"{server[:100]!r} is not host:port; give one or more, separated by commas"
            raise ValueInvalid(f"bootstrap_servers: {detail}", (FieldError("/bootstrap_servers", detail),))


# --- evolve


def evolve(state: Cluster | None, event: Event) -> Cluster | None:
    """Return the state after an event; an event that does not apply leaves the state unchanged."""
    if isinstance(event, ClusterAdded):
        return Cluster(
            name=event.name,
            number=event.number,
            bootstrap_servers=event.bootstrap_servers,
            zone=event.zone,
            topic_format=event.topic_format,
            group_format=event.group_format,
            subject_format=event.subject_format,
            properties=event.properties,
            kafka_cluster_id=event.kafka_cluster_id,
            brokers=event.brokers,
            online=event.kafka_cluster_id is not None,
        )
    if state is None:
        return None
    match event:
        case ClusterChanged():
            return replace(
                state,
                bootstrap_servers=event.bootstrap_servers,
                zone=event.zone,
                topic_format=event.topic_format,
                group_format=event.group_format,
                subject_format=event.subject_format,
                properties=event.properties,
            )
        case ClusterRemoved():
            return None
        case ClusterCameOnline():
            return replace(
                state, online=True, reason=None, kafka_cluster_id=event.kafka_cluster_id, brokers=event.brokers
            )
        case ClusterWentOffline():
            return replace(state, online=False, reason=event.reason)
        case ClusterDefaultsSet():
            return replace(state, defaults=ReplicaDefaults(**vars(event)))
        case _:
            return state
