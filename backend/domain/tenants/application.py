"""Event stream `application-<tenant>/<instance>/<environment>/<application>`: what an application is, may and has.

An application belongs to an environment. It produces to and consumes from streams, of its own tenant or of others,
by grants; the owner of a stream's tenant decides. Its principal on every cluster is its full name. What clusters
must have is applied to each of them by the reconcile loop, which records here what it achieved. `revision` rises
with all that changes what clusters must have; what was recorded for an older one says nothing any more.

    grant: (none) --asks--> requested --Decide grant--> granted --Decide withdraw--> withdrawn
                                |--Decide refuse--> refused        (refused, withdrawn --Decide grant--> granted)
           any --the application no longer names the stream--> (none); named again, it asks again
    cluster: pending --RecordAccessApplied--> applied --anything new--> pending ...
                |--RecordAccessFailed--> failed --RecordAccessApplied--> applied
             any --the cluster leaves the tree--> (none), by RecordAccessRemoved
    application: declared --Delete--> deleted, until RecordAccessRemoved on each cluster; can be declared anew

Its password is no part of it (`backend/queries/tenants/secrets_of_applications.py`). What people ask for is
decided in `application_commands.py`, what workers record in `application_records.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from backend.domain.base.event import Event
from backend.domain.names.names import ApplicationName

PRODUCE, CONSUME = OPERATIONS = ("produce", "consume")
BY_APPLICATION, BY_OWNER = "application", "owner"

# --- events


@dataclass(frozen=True, kw_only=True)
class ApplicationDeclared(Event, name="ApplicationDeclared", version=1):
    """The environment has an application; its access is due on every cluster of the instance's tree."""

    tenant: str
    instance: str
    environment: str
    application: str
    revision: int
    groups: tuple[str, ...]
    """Logical names of the consumer groups that are its own."""
    producer_bytes_per_second: int | None
    """Most bytes that it may produce on a broker; null: as many as it can. So the others."""
    consumer_bytes_per_second: int | None
    request_percentage: int | None
    """Most of a broker's request handlers that it may keep busy, in per cent of one."""


@dataclass(frozen=True, kw_only=True)
class ApplicationChanged(Event, name="ApplicationChanged", version=1):
    """The application's groups and quotas are these from now on."""

    tenant: str
    instance: str
    environment: str
    application: str
    revision: int
    groups: tuple[str, ...]
    producer_bytes_per_second: int | None
    consumer_bytes_per_second: int | None
    request_percentage: int | None


@dataclass(frozen=True, kw_only=True)
class ApplicationDeleted(Event, name="ApplicationDeleted", version=1):
    """The application is gone, with its grants and credentials; what clusters have of it is to be removed."""

    tenant: str
    instance: str
    environment: str
    application: str
    revision: int
    clusters: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AccessRequested(Event, name="AccessRequested", version=1):
    """The application asks to produce to a stream, or to consume from it."""

    tenant: str
    instance: str
    environment: str
    application: str
    stream: str
    """tenant/instance/environment/stream; of another tenant, it may be one that there is not."""
    operation: str
    """`produce` or `consume`."""


@dataclass(frozen=True, kw_only=True)
class AccessGranted(Event, name="AccessGranted", version=1):
    """The application may do it."""

    tenant: str
    instance: str
    environment: str
    application: str
    stream: str
    operation: str
    revision: int


@dataclass(frozen=True, kw_only=True)
class AccessRefused(Event, name="AccessRefused", version=1):
    """The application may not do what it asked for."""

    tenant: str
    instance: str
    environment: str
    application: str
    stream: str
    operation: str
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class AccessWithdrawn(Event, name="AccessWithdrawn", version=1):
    """The application may no longer do it, or does not ask for it any more."""

    tenant: str
    instance: str
    environment: str
    application: str
    stream: str
    operation: str
    revision: int
    """As before, if it had not been granted."""
    by: str
    """`application`: it no longer names the stream; `owner`: of the stream's tenant."""
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class CredentialsIssued(Event, name="CredentialsIssued", version=1):
    """The application has a new password, shown once; the one before is to open nothing any more."""

    tenant: str
    instance: str
    environment: str
    application: str
    number: int
    """1 for the first, one more for each next."""
    revision: int


@dataclass(frozen=True, kw_only=True)
class CredentialsRevoked(Event, name="CredentialsRevoked", version=1):
    """The application has no password any more."""

    tenant: str
    instance: str
    environment: str
    application: str
    revision: int


@dataclass(frozen=True, kw_only=True)
class ApplicationApplied(Event, name="ApplicationApplied", version=1):
    """The cluster has what the application needs there, as far as the cluster can."""

    tenant: str
    instance: str
    environment: str
    application: str
    cluster: str
    revision: int
    parts: dict[str, str]
    """`credentials`, `acls`, `quotas` -> `applied`, or why the cluster cannot have them."""


@dataclass(frozen=True, kw_only=True)
class ApplicationApplyFailed(Event, name="ApplicationApplyFailed", version=1):
    """The cluster refused something; it is tried again."""

    tenant: str
    instance: str
    environment: str
    application: str
    cluster: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ApplicationDrifted(Event, name="ApplicationDrifted", version=1):
    """Somebody had changed on the cluster what the application has there; it was set back, or was not."""

    tenant: str
    instance: str
    environment: str
    application: str
    cluster: str
    found: tuple[str, ...]
    """What was there and not due, or due and not there."""
    reason: str | None
    """Why it could not be set back; null if it was."""


@dataclass(frozen=True, kw_only=True)
class ApplicationRemoved(Event, name="ApplicationRemoved", version=1):
    """The cluster has nothing of the application any more: it was deleted, or the cluster has left the tree."""

    tenant: str
    instance: str
    environment: str
    application: str
    cluster: str


ClusterEvent = ApplicationApplied | ApplicationApplyFailed | ApplicationDrifted | ApplicationRemoved
AccessEvent = AccessRequested | AccessGranted | AccessRefused | AccessWithdrawn
ApplicationEvent = (
    ApplicationDeclared
    | ApplicationChanged
    | ApplicationDeleted
    | AccessEvent
    | CredentialsIssued
    | CredentialsRevoked
    | ClusterEvent
)

# --- state


class GrantState(StrEnum):
    """How far a grant is."""

    REQUESTED = "requested"
    GRANTED = "granted"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    """By the owner; what the application takes back itself is gone."""


@dataclass(frozen=True, kw_only=True)
class ApplicationSettings:
    """What an application declares besides its streams; quotas hold for each broker, None: no limit."""

    groups: tuple[str, ...] = ()
    producer_bytes_per_second: int | None = None
    consumer_bytes_per_second: int | None = None
    request_percentage: int | None = None


@dataclass(frozen=True, kw_only=True)
class OnCluster:
    """What is recorded of the application on one cluster."""

    applied: bool = False
    """The latest revision is applied."""
    parts: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None
    """Why it is not applied, or why what drifted was not set back."""
    removing: bool = False
    """The application was deleted, and the cluster may still have something of it."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """An application as its events left it; `settings` None once it is deleted."""

    name: ApplicationName
    settings: ApplicationSettings | None
    revision: int
    grants: Mapping[tuple[str, str], GrantState] = field(default_factory=dict)
    """(operation, STREAM) -> how far it is; what the application names is what stands here."""
    credentials: int | None = None
    """Number of the password that it has."""
    issued: int = 0
    """How many passwords it ever had."""
    clusters: Mapping[str, OnCluster] = field(default_factory=dict)

    def streams(self, operation: str) -> frozenset[str]:
        """STREAMs that it names, in whatever state their grants are."""
        return frozenset(stream for of, stream in self.grants if of == operation)


INITIAL: Application | None = None

# --- evolve


def evolve(state: Application | None, event: Event) -> Application | None:
    """The state after an event; what does not apply leaves the state as it was."""
    if isinstance(event, ApplicationDeclared):
        name = ApplicationName(event.tenant, event.instance, event.environment, event.application)
        before = state or Application(name=name, settings=None, revision=0)
        new = Application(name=name, settings=None, revision=0, issued=before.issued, clusters=before.clusters)
        return _due(replace(new, settings=settings_of(event)), event.revision)
    if state is None:
        return None
    match event:
        case ApplicationChanged():
            settings = settings_of(event) if state.settings is not None else None
            return _due(replace(state, settings=settings), event.revision)
        case ApplicationDeleted():
            return _deleted(state, event)
        case CredentialsIssued():
            return _due(replace(state, credentials=event.number, issued=event.number), event.revision)
        case CredentialsRevoked():
            return _due(replace(state, credentials=None), event.revision)
        case AccessRequested() | AccessGranted() | AccessRefused() | AccessWithdrawn():
            return _with_grant(state, event)
        case ApplicationApplied() | ApplicationApplyFailed() | ApplicationDrifted() | ApplicationRemoved():
            return _on_cluster(state, event)
        case _:
            return state


def settings_of(event: ApplicationDeclared | ApplicationChanged) -> ApplicationSettings:
    """The settings that an event carries."""
    return ApplicationSettings(
        groups=event.groups,
        producer_bytes_per_second=event.producer_bytes_per_second,
        consumer_bytes_per_second=event.consumer_bytes_per_second,
        request_percentage=event.request_percentage,
    )


def _due(state: Application, revision: int) -> Application:
    """Something else is due on every cluster from this revision on."""
    if revision == state.revision:
        return state
    clusters = {
        cluster: replace(each, applied=False, failure=None, removing=False)
        for cluster, each in state.clusters.items()
    }
    return replace(state, revision=revision, clusters=clusters)


def _deleted(state: Application, event: ApplicationDeleted) -> Application:
    gone = replace(state, settings=None, grants={}, credentials=None, revision=event.revision)
    # What was applied is kept: it may be left where a cluster can no longer be asked.
    parts = {cluster: state.clusters[cluster].parts for cluster in event.clusters if cluster in state.clusters}
    clusters = {cluster: OnCluster(removing=True, parts=parts.get(cluster, {})) for cluster in event.clusters}
    return replace(gone, clusters=clusters)


def _with_grant(state: Application, event: AccessEvent) -> Application:
    key = (event.operation, event.stream)
    match event:
        case AccessRequested():
            return replace(state, grants={**state.grants, key: GrantState.REQUESTED})
        case AccessGranted():
            return _due(replace(state, grants={**state.grants, key: GrantState.GRANTED}), event.revision)
        case AccessRefused():
            return replace(state, grants={**state.grants, key: GrantState.REFUSED})
        case AccessWithdrawn():
            left = {other: grant for other, grant in state.grants.items() if other != key}
            if event.by == BY_OWNER:
                left[key] = GrantState.WITHDRAWN
            return _due(replace(state, grants=left), event.revision)


def _on_cluster(state: Application, event: ClusterEvent) -> Application:
    present = state.clusters.get(event.cluster, OnCluster())
    match event:
        case ApplicationApplied():
            current = event.revision == state.revision
            present = replace(present, applied=current, parts=event.parts, failure=None)
        case ApplicationApplyFailed():
            present = replace(present, applied=False, failure=event.reason)
        case ApplicationDrifted():
            present = replace(present, failure=event.reason)
        case ApplicationRemoved():
            others = {cluster: each for cluster, each in state.clusters.items() if cluster != event.cluster}
            return replace(state, clusters=others)
    return replace(state, clusters={**state.clusters, event.cluster: present})
