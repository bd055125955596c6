"""Event stream `application-<full name>`: an application's settings, grants, credentials and state on clusters.

The full name is `<tenant>/<instance>/<environment>/<application>`. An application belongs to an environment. It
produces to and consumes from streams, of its own tenant or of others, by grants; the owner of a stream's tenant
decides. Its principal on every cluster is its full name. The reconcile loop applies what clusters must have, and
records here what it achieved. `revision` rises with every change of what clusters must have; what was recorded for
an older revision no longer counts.

    grant: (none) --request--> requested --Decide grant--> granted --Decide withdraw--> withdrawn
                                   |--Decide refuse--> refused     (refused, withdrawn --Decide grant--> granted)
           any --the application no longer names the stream--> (none); named again, it is requested again
    cluster: pending --RecordAccessApplied--> applied --any change--> pending ...
                |--RecordAccessFailed--> failed --RecordAccessApplied--> applied
             any --the cluster leaves the tree--> (none), by RecordAccessRemoved
    application: declared --Delete--> deleted, until RecordAccessRemoved on each cluster; can be declared again

Its password is no part of it (`backend/queries/tenants/secrets_of_applications.py`). Users' commands are decided
in `application_commands.py`, workers' records in `application_records.py`.
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
    """An application was declared; its access is due on every cluster of the instance's tree."""

    tenant: str
    instance: str
    environment: str
    application: str
    revision: int
    groups: tuple[str, ...]
    """Logical names of the consumer groups that the application owns."""
    producer_bytes_per_second: int | None
    """Quota for producing, in bytes per second and broker; null means no limit. The same holds for the next two.
    """
    consumer_bytes_per_second: int | None
    request_percentage: int | None
    """Quota of a broker's request handlers, in per cent of one handler."""


@dataclass(frozen=True, kw_only=True)
class ApplicationChanged(Event, name="ApplicationChanged", version=1):
    """The application's groups or quotas have changed."""

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
    """The application was deleted, with its grants and credentials; clusters must remove its access."""

    tenant: str
    instance: str
    environment: str
    application: str
    revision: int
    clusters: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AccessRequested(Event, name="AccessRequested", version=1):
    """The application requests to produce to a stream, or to consume from it."""

    tenant: str
    instance: str
    environment: str
    application: str
    stream: str
    """Full name, tenant/instance/environment/stream; another tenant's stream may not exist."""
    operation: str
    """`produce` or `consume`."""


@dataclass(frozen=True, kw_only=True)
class AccessGranted(Event, name="AccessGranted", version=1):
    """The application may produce to the stream, or consume from it."""

    tenant: str
    instance: str
    environment: str
    application: str
    stream: str
    operation: str
    revision: int


@dataclass(frozen=True, kw_only=True)
class AccessRefused(Event, name="AccessRefused", version=1):
    """The application's request was refused."""

    tenant: str
    instance: str
    environment: str
    application: str
    stream: str
    operation: str
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class AccessWithdrawn(Event, name="AccessWithdrawn", version=1):
    """The application may no longer produce or consume, or its request is withdrawn."""

    tenant: str
    instance: str
    environment: str
    application: str
    stream: str
    operation: str
    revision: int
    """The revision is the same as before if access had not been granted."""
    by: str
    """`application`: it no longer names the stream; `owner`: the owner of the stream's tenant withdrew the grant.
    """
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class CredentialsIssued(Event, name="CredentialsIssued", version=1):
    """The application has a new password, which was shown once; the one before is no longer valid."""

    tenant: str
    instance: str
    environment: str
    application: str
    number: int
    """1 for the first password, then counting up."""
    revision: int


@dataclass(frozen=True, kw_only=True)
class CredentialsRevoked(Event, name="CredentialsRevoked", version=1):
    """The application no longer has a password."""

    tenant: str
    instance: str
    environment: str
    application: str
    revision: int


@dataclass(frozen=True, kw_only=True)
class ApplicationApplied(Event, name="ApplicationApplied", version=1):
    """The cluster has the access that the application needs, as far as the cluster supports it."""

    tenant: str
    instance: str
    environment: str
    application: str
    cluster: str
    revision: int
    parts: dict[str, str]
    """`credentials`, `acls`, `quotas` -> `applied`, or the reason why the cluster does not support the part."""


@dataclass(frozen=True, kw_only=True)
class ApplicationApplyFailed(Event, name="ApplicationApplyFailed", version=1):
    """The cluster refused a part of the access; it is retried."""

    tenant: str
    instance: str
    environment: str
    application: str
    cluster: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ApplicationDrifted(Event, name="ApplicationDrifted", version=1):
    """The application's access on the cluster was changed by somebody else; it was set back, or could not be."""

    tenant: str
    instance: str
    environment: str
    application: str
    cluster: str
    found: tuple[str, ...]
    """ACLs, credentials and quotas that were there in excess, or missing."""
    reason: str | None
    """Reason why it could not be set back; null if it was."""


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
    """State of a grant."""

    REQUESTED = "requested"
    GRANTED = "granted"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    """Withdrawn by the owner; a grant that the application itself gives up is gone."""


@dataclass(frozen=True, kw_only=True)
class ApplicationSettings:
    """Settings of an application besides its streams. Quotas hold for each broker; None means no limit."""

    groups: tuple[str, ...] = ()
    producer_bytes_per_second: int | None = None
    consumer_bytes_per_second: int | None = None
    request_percentage: int | None = None


@dataclass(frozen=True, kw_only=True)
class OnCluster:
    """State of the application's access on one cluster, as recorded."""

    applied: bool = False
    """True if the latest revision is applied."""
    parts: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None
    """Reason why it is not applied, or why its drift was not set back."""
    removing: bool = False
    """True if the application was deleted and the cluster may still have something of it."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """An application as its events left it; `settings` is None once it is deleted."""

    name: ApplicationName
    settings: ApplicationSettings | None
    revision: int
    grants: Mapping[tuple[str, str], GrantState] = field(default_factory=dict)
    """(operation, STREAM) -> state of the grant, for every stream that the application names."""
    credentials: int | None = None
    """Number of its current password."""
    issued: int = 0
    """Number of passwords that were ever issued."""
    clusters: Mapping[str, OnCluster] = field(default_factory=dict)

    def streams(self, operation: str) -> frozenset[str]:
        """Return the STREAMs that the application names for an operation, whatever the state of the grants."""
        return frozenset(stream for of, stream in self.grants if of == operation)


INITIAL: Application | None = None

# --- evolve


def evolve(state: Application | None, event: Event) -> Application | None:
    """Return the state after an event; an event that does not apply leaves the state unchanged."""
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
    """Return the settings that an event carries."""
    return ApplicationSettings(
        groups=event.groups,
        producer_bytes_per_second=event.producer_bytes_per_second,
        consumer_bytes_per_second=event.consumer_bytes_per_second,
        request_percentage=event.request_percentage,
    )


def _due(state: Application, revision: int) -> Application:
    """Set the new revision; access is due again on every cluster."""
    if revision == state.revision:
        return state
    clusters = {
        cluster: replace(each, applied=False, failure=None, removing=False)
        for cluster, each in state.clusters.items()
    }
    return replace(state, revision=revision, clusters=clusters)


def _deleted(state: Application, event: ApplicationDeleted) -> Application:
    gone = replace(state, settings=None, grants={}, credentials=None, revision=event.revision)
    # What was applied is kept: it may be left on a cluster that can no longer be reached.
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
