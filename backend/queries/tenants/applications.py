"""Read applications: their grants, technical names and applied state, now or as of a position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, Table

from backend.domain.access import acls
from backend.domain.base.errors import NotFound
from backend.domain.names.formats import technical_name
from backend.domain.names.names import ApplicationName, StreamName
from backend.domain.offsets.application_groups import ClusterGroups
from backend.domain.tenants.application import CONSUME, PRODUCE, GrantState
from backend.projections.applications import APPLICATION, application_clusters, applications, grants
from backend.projections.streams import STREAM, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import instances
from backend.queries.clusters.clusters import ClusterRow, leaves_by_tree
from backend.queries.tenants.tenants import find_environment

Key = tuple[str, ...]
Conditions = Sequence[ColumnElement[bool]]


@dataclass(frozen=True)
class ClusterApplied:
    """State of an application on a cluster."""

    state: str
    """pending, applied or failed."""
    revision: int
    """Revision that was applied last; 0 if none was."""
    failure: str | None
    parts: Mapping[str, str]
    """credentials, acls, quotas -> `applied`, or the reason why the cluster does not support the part."""


@dataclass(frozen=True)
class GrantRow:
    """An application's grant or request for one stream; `owner` is the stream's tenant."""

    tenant: str
    instance: str
    environment: str
    application: str
    operation: str
    stream: str
    owner: str
    state: str
    reason: str | None
    requested_by: str
    decided_by: str | None
    position: int

    @property
    def principal(self) -> str:
        """Return the application's full name."""
        return str(ApplicationName(self.tenant, self.instance, self.environment, self.application))


@dataclass(frozen=True)
class ApplicationRow:
    """An application.

    What is due on a cluster may change without a new revision: as streams are declared and deleted, and as
    clusters join the tree.
    """

    tenant: str
    instance: str
    environment: str
    name: str
    revision: int
    groups: tuple[str, ...]
    """Logical groups."""
    produces: tuple[str, ...]
    """STREAMs that are granted and declared, sorted; `consumes` likewise."""
    consumes: tuple[str, ...]
    producer_bytes_per_second: int | None
    consumer_bytes_per_second: int | None
    request_percentage: int | None
    credentials: int | None
    """Number of the password; None if it has none."""
    deleted: bool
    """True for a deleted one, which is kept until it is removed from all clusters, and may do nothing."""
    topics: Mapping[str, Mapping[str, str]]
    """Cluster of the instance's tree -> STREAM -> technical topic, of `produces` and `consumes`."""
    technical_groups: Mapping[str, tuple[str, ...]]
    """Cluster of the instance's tree -> technical groups."""
    applied: Mapping[str, ClusterApplied]
    """Cluster of the instance's tree -> state; for a deleted one, clusters that may still have something of it."""
    leaving: Mapping[str, ClusterApplied] = field(default_factory=dict)
    """Cluster that has left the tree -> state, while it may still have something to be removed."""
    grants: tuple[GrantRow, ...] = field(default=())
    """All grants that were requested, in every state."""
    version: int = 0
    position: int = 0

    @property
    def principal(self) -> str:
        """Return the full name, which is the principal on every cluster."""
        return str(self.full_name)

    @property
    def full_name(self) -> ApplicationName:
        """Return the full name in its parts."""
        return ApplicationName(self.tenant, self.instance, self.environment, self.name)

    @property
    def transactional_prefix(self) -> str:
        """Return the prefix of its transactional ids."""
        return f"{self.principal}/"


def list_applications(
    connection: Connection,
    at: int | None = None,
    tenant: str | None = None,
    instance: str | None = None,
    environment: str | None = None,
    *,
    name: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    deleted: bool = False,
) -> list[ApplicationRow]:
    """Return the applications of all tenants, or of one tenant, instance, environment, by name.

    `after` and `limit` page by `name`, so they make sense within one environment. `deleted`: with those that
    are still to be removed from clusters.
    """
    scope = {"tenant": tenant, "instance": instance, "environment": environment, "application": name}
    of_instance = sa.and_(
        instances.c.tenant == applications.c.tenant,
        instances.c.name == applications.c.instance,
        as_of(instances, at),
    )
    query = sa.select(applications, instances.c.tree).join(instances, of_instance)
    query = query.where(as_of(applications, at), *_scoped(applications, scope))
    if after is not None:
        query = query.where(applications.c.application > after)
    if not deleted:
        query = query.where(applications.c.deleted.is_(False))
    rows = connection.execute(query.order_by(*(applications.c[part] for part in APPLICATION)).limit(limit)).all()
    if not rows:
        return []
    # A page reads only rows that belong to its own applications.
    span = None if limit is None else (rows[0].application, rows[-1].application)
    leaves = leaves_by_tree(connection, at)
    related = _Related(
        leaves=leaves,
        names=defaultdict(frozenset, {tree: frozenset(each.name for each in of) for tree, of in leaves.items()}),
        grants=_grants(connection, at, _scoped(grants, scope, span)),
        trees=_trees_of_granted(connection, at, _scoped(grants, scope, span)),
        clusters=_clusters(connection, at, _scoped(application_clusters, scope, span)),
    )
    return [_application(row, related) for row in rows]


def get_application(connection: Connection, name: ApplicationName, at: int | None = None) -> ApplicationRow | None:
    """Return one application, or None."""
    place = (name.tenant, name.instance, name.environment)
    return next(iter(list_applications(connection, at, *place, name=name.application)), None)


def find_application(connection: Connection, name: ApplicationName, at: int | None = None) -> ApplicationRow:
    """Return the application, or raise NotFound naming what is missing."""
    find_environment(connection, name.tenant, name.instance, name.environment, at)
    row = get_application(connection, name, at)
    if row is None:
        raise NotFound(f"there is no application {name}")
    return row


def due_acls(row: ApplicationRow, cluster: str) -> list[str]:
    """Return the ACLs due to an application on a cluster, one a line."""
    topics = row.topics[cluster]
    due = acls.acls_of(
        produces=[topics[stream] for stream in row.produces if stream in topics],
        consumes=[topics[stream] for stream in row.consumes if stream in topics],
        groups=row.technical_groups[cluster],
        transactional_prefix=row.transactional_prefix if row.produces else None,
    )
    return [acls.text(acl) for acl in sorted(due)]


def clusters_of(connection: Connection, row: ApplicationRow) -> frozenset[str]:
    """Return clusters that may have something of an application: those of the tree, and those that were in it."""
    of = application_clusters
    same = (of.c[part] == value for part, value in zip(APPLICATION, astuple(row.full_name), strict=True))
    recorded = connection.execute(sa.select(of.c.cluster).where(as_of(of, None), *same)).scalars()
    return frozenset(row.applied).union(recorded)


def list_grants(
    connection: Connection,
    owner: str,
    at: int | None = None,
    *,
    state: str | None = None,
    stream: str | None = None,
) -> list[GrantRow]:
    """Return all requests and grants for a tenant's streams, or for one, by stream, application and operation."""
    wanted = grants.c.owner == owner
    if stream is not None:
        wanted &= grants.c.stream == stream
    if state is not None:
        wanted &= grants.c.state == state
    rows = connection.execute(sa.select(grants).where(as_of(grants, at), wanted))
    return sorted(map(_grant, rows), key=lambda row: (row.stream, row.principal, row.operation))


def count_applications(connection: Connection, tenant: str, instance: str, environment: str) -> int:
    """Count the applications of an environment."""
    scope = {"tenant": tenant, "instance": instance, "environment": environment}
    query = sa.select(sa.func.count()).select_from(applications).where(*_scoped(applications, scope))
    found = connection.execute(query.where(as_of(applications, None), applications.c.deleted.is_(False)))
    return int(found.scalar_one())


def failures_by_cluster(connection: Connection) -> dict[str, int]:
    """Return cluster -> number of applications whose access could not be set or removed there, if above 0."""
    of = application_clusters
    query = sa.select(of.c.cluster, sa.func.count()).where(as_of(of, None), of.c.failure.is_not(None))
    return dict(connection.execute(query.group_by(of.c.cluster)).tuples().all())


@dataclass(frozen=True)
class _Related:
    """Rows that applications are composed from, read once for all of them."""

    leaves: Mapping[str, Sequence[ClusterRow]]
    names: Mapping[str, frozenset[str]]
    grants: Mapping[Key, Sequence[GrantRow]]
    trees: Mapping[str, str]
    clusters: Mapping[Key, Mapping[str, ClusterApplied]]


def _application(row: Row[Any], related: _Related) -> ApplicationRow:
    key = _key(row)
    asked, leaves = related.grants.get(key, ()), related.leaves.get(row.tree, ())
    granted = [each for each in asked if each.state == GrantState.GRANTED and each.stream in related.trees]
    name, recorded = ApplicationName(*key), related.clusters.get(key, {})
    pending = {} if row.deleted else {leaf.name: ClusterApplied("pending", 0, None, {}) for leaf in leaves}
    known = {cluster: each for cluster, each in recorded.items() if row.deleted or cluster in pending}
    leaving = {cluster: each for cluster, each in recorded.items() if cluster not in known}
    return ApplicationRow(
        tenant=row.tenant,
        instance=row.instance,
        environment=row.environment,
        name=row.application,
        revision=row.revision,
        groups=tuple(row.groups),
        produces=tuple(sorted(each.stream for each in granted if each.operation == PRODUCE)),
        consumes=tuple(sorted(each.stream for each in granted if each.operation == CONSUME)),
        producer_bytes_per_second=row.producer_bytes_per_second,
        consumer_bytes_per_second=row.consumer_bytes_per_second,
        request_percentage=row.request_percentage,
        credentials=row.credentials,
        deleted=row.deleted,
        topics={leaf.name: _topics(leaf, granted, related) for leaf in leaves},
        technical_groups={
            leaf.name: tuple(
                ClusterGroups(leaf.name, leaf.group_format).technical(name, each) for each in row.groups
            )
            for leaf in leaves
        },
        applied={**pending, **known},
        leaving=leaving,
        grants=tuple(asked),
        version=row.version,
        position=row.valid_from,
    )


def _topics(leaf: ClusterRow, granted: Sequence[GrantRow], related: _Related) -> dict[str, str]:
    """Return the streams' names on a cluster, of those whose own tree includes it."""
    return {
        each.stream: technical_name(leaf.topic_format, StreamName(*each.stream.split("/")))
        for each in granted
        if leaf.name in related.names[related.trees[each.stream]]
    }


def _grants(connection: Connection, at: int | None, of: Conditions) -> dict[Key, list[GrantRow]]:
    found: dict[Key, list[GrantRow]] = defaultdict(list)
    query = sa.select(grants).where(as_of(grants, at), *of)
    for row in connection.execute(query.order_by(grants.c.stream, grants.c.operation)):
        found[_key(row)].append(_grant(row))
    return found


def _trees_of_granted(connection: Connection, at: int | None, of: Conditions) -> dict[str, str]:
    """Return STREAM -> tree, of what is granted and declared."""
    same = (
        streams.c[part] == sa.func.split_part(grants.c.stream, "/", number)
        for number, part in enumerate(STREAM, 1)
    )
    of_instance = sa.and_(instances.c.tenant == streams.c.tenant, instances.c.name == streams.c.instance)
    query = (
        sa.select(grants.c.stream, instances.c.tree)
        .join(streams, sa.and_(*same, as_of(streams, at)))
        .join(instances, sa.and_(of_instance, as_of(instances, at)))
        .where(as_of(grants, at), grants.c.state == GrantState.GRANTED.value, *of)
    )
    return {row.stream: row.tree for row in connection.execute(query.distinct())}


def _clusters(connection: Connection, at: int | None, of: Conditions) -> dict[Key, dict[str, ClusterApplied]]:
    found: dict[Key, dict[str, ClusterApplied]] = defaultdict(dict)
    query = sa.select(application_clusters).where(as_of(application_clusters, at), *of)
    for row in connection.execute(query):
        found[_key(row)][row.cluster] = ClusterApplied(row.state, row.revision, row.failure, row.parts)
    return found


def _grant(row: Row[Any]) -> GrantRow:
    columns = dict(row._mapping)
    position = columns.pop("valid_from")
    del columns["valid_to"]
    return GrantRow(**columns, position=position)


def _scoped(
    table: Table, scope: Mapping[str, str | None], span: tuple[str, str] | None = None
) -> list[ColumnElement[bool]]:
    """Return conditions on a table: parts of names, and the first and the last application by name."""
    found = [table.c[part] == value for part, value in scope.items() if value is not None]
    return found if span is None else [*found, table.c.application.between(*span)]


def _key(row: Row[Any]) -> Key:
    return row.tenant, row.instance, row.environment, row.application
