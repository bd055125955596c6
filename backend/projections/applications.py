"""Projection of applications, of their grants on streams, and of what was applied on clusters.

A row of `application_clusters` exists from the first record about a cluster. A deleted application keeps its row,
marked as deleted, until no cluster has anything of it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.clusters.cluster import ClusterRemoved
from backend.domain.tenants.application import (
    BY_OWNER,
    AccessEvent,
    AccessGranted,
    AccessRefused,
    AccessRequested,
    AccessWithdrawn,
    ApplicationApplied,
    ApplicationApplyFailed,
    ApplicationChanged,
    ApplicationDeclared,
    ApplicationDeleted,
    ApplicationDrifted,
    ApplicationRemoved,
    ClusterEvent,
    CredentialsIssued,
    CredentialsRevoked,
    GrantState,
)
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, change, current, open_rows, replace, temporal_table

APPLICATION = ("tenant", "instance", "environment", "application")

applications = temporal_table(
    "applications",
    METADATA,
    *(sa.Column(part, sa.Text, primary_key=True) for part in APPLICATION),
    # Rises with every change of what clusters must have.
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("groups", JSONB, nullable=False),
    sa.Column("producer_bytes_per_second", sa.BigInteger),
    sa.Column("consumer_bytes_per_second", sa.BigInteger),
    sa.Column("request_percentage", sa.Integer),
    # Number of the password; NULL: none.
    sa.Column("credentials", sa.Integer),
    sa.Column("deleted", sa.Boolean, nullable=False),
    # Version of the event that last described the application, its grants or its credentials.
    sa.Column("version", sa.BigInteger, nullable=False),
)
grants = temporal_table(
    "grants",
    METADATA,
    *(sa.Column(part, sa.Text, primary_key=True) for part in APPLICATION),
    sa.Column("operation", sa.Text, primary_key=True),
    # tenant/instance/environment/stream, which may not exist.
    sa.Column("stream", sa.Text, primary_key=True),
    # The tenant of the stream, which decides on the grant.
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("requested_by", sa.Text, nullable=False),
    sa.Column("decided_by", sa.Text),
)
sa.Index("grants_owner", grants.c.owner)
application_clusters = temporal_table(
    "application_clusters",
    METADATA,
    *(sa.Column(part, sa.Text, primary_key=True) for part in APPLICATION),
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    # The revision applied last; 0: none yet.
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("failure", sa.Text),
    # credentials | acls | quotas -> applied, or the reason why the cluster cannot have them.
    sa.Column("parts", JSONB, nullable=False),
)
_NOTHING: dict[str, Any] = {"state": "pending", "revision": 0, "failure": None, "parts": {}}


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    event, position = recorded.event, recorded.position
    if isinstance(event, ClusterRemoved):
        _forget_cluster(rows, recorded.stream.removeprefix("cluster-"), position)
        return
    fields = vars(event)
    key = {name: fields[name] for name in APPLICATION}
    match event:
        case ApplicationApplied() | ApplicationApplyFailed() | ApplicationDrifted() | ApplicationRemoved():
            _on_cluster(rows, key, event, position)
            return
        case ApplicationDeclared():
            values = {name: value for name, value in fields.items() if name not in APPLICATION}
            new = {**values, "groups": list(event.groups), "credentials": None, "deleted": False, "version": 0}
            replace(rows, applications, key, {**new, "revision": 0}, position)
        case ApplicationChanged():
            values = {name: value for name, value in fields.items() if name not in (*APPLICATION, "revision")}
            change(rows, applications, key, {**values, "groups": list(event.groups)}, position)
        case CredentialsIssued():
            change(rows, applications, key, {"credentials": event.number}, position)
        case CredentialsRevoked():
            change(rows, applications, key, {"credentials": None}, position)
        case ApplicationDeleted():
            _delete(rows, key, event, position)
        case AccessRequested() | AccessGranted() | AccessRefused() | AccessWithdrawn():
            _grant(rows, key, recorded, event)
    _describe(rows, key, recorded)


def _describe(rows: Rows, key: dict[str, Any], recorded: RecordedEvent) -> None:
    """Set the application's version; a new revision has to be applied everywhere again."""
    present = current(rows, applications, key)
    if present is None:
        return
    revision = vars(recorded.event).get("revision", present["revision"])
    changes = {"version": recorded.version, "revision": revision}
    change(rows, applications, key, changes, recorded.position)
    if revision != present["revision"]:
        for each in open_rows(rows, application_clusters, key):
            due = {"state": "pending", "failure": None}
            change(rows, application_clusters, {**key, "cluster": each["cluster"]}, due, recorded.position)


def _grant(rows: Rows, key: dict[str, Any], recorded: RecordedEvent, event: AccessEvent) -> None:
    of, actor = {**key, "operation": event.operation, "stream": event.stream}, recorded.metadata.actor
    decided: dict[str, Any] = {"reason": None, "decided_by": actor}
    match event:
        case AccessRequested():
            asked = {"owner": event.stream.partition("/")[0], "state": GrantState.REQUESTED.value}
            values = {**asked, "reason": None, "requested_by": actor, "decided_by": None}
            replace(rows, grants, of, values, recorded.position)
        case AccessGranted():
            change(rows, grants, of, {**decided, "state": GrantState.GRANTED.value}, recorded.position)
        case AccessRefused():
            refused = {**decided, "state": GrantState.REFUSED.value, "reason": event.reason}
            change(rows, grants, of, refused, recorded.position)
        case AccessWithdrawn() if event.by == BY_OWNER:
            withdrawn = {**decided, "state": GrantState.WITHDRAWN.value, "reason": event.reason}
            change(rows, grants, of, withdrawn, recorded.position)
        case AccessWithdrawn():
            replace(rows, grants, of, None, recorded.position)


def _delete(rows: Rows, key: dict[str, Any], event: ApplicationDeleted, position: int) -> None:
    for grant in open_rows(rows, grants, key):
        of = {name: grant[name] for name in ("operation", "stream")}
        replace(rows, grants, {**key, **of}, None, position)
    # The revision applied last tells the reconcile loop what may remain on clusters that it can no longer reach.
    parts = {each["cluster"]: each["parts"] for each in open_rows(rows, application_clusters, key)}
    for cluster in parts.keys() - set(event.clusters):
        replace(rows, application_clusters, {**key, "cluster": cluster}, None, position)
    for cluster in event.clusters:
        left = {**_NOTHING, "parts": parts.get(cluster, {})}
        replace(rows, application_clusters, {**key, "cluster": cluster}, left, position)
    change(rows, applications, key, {"deleted": True, "credentials": None}, position)
    _end_if_gone(rows, key, position)


def _on_cluster(rows: Rows, key: dict[str, Any], event: ClusterEvent, position: int) -> None:
    of = {**key, "cluster": event.cluster}
    present = current(rows, application_clusters, of) or of | _NOTHING
    values = {name: present[name] for name in _NOTHING}
    match event:
        case ApplicationApplied():
            values = {"state": "applied", "revision": event.revision, "failure": None, "parts": event.parts}
        case ApplicationApplyFailed():
            values |= {"state": "failed", "failure": event.reason}
        case ApplicationDrifted():
            values |= {"failure": event.reason}
        case ApplicationRemoved():
            replace(rows, application_clusters, of, None, position)
            _end_if_gone(rows, key, position)
            return
    replace(rows, application_clusters, of, values, position)


def _end_if_gone(rows: Rows, key: dict[str, Any], position: int) -> None:
    """End a deleted application's row when no cluster has anything of it."""
    present = current(rows, applications, key)
    if present is not None and present["deleted"] and not open_rows(rows, application_clusters, key):
        replace(rows, applications, key, None, position)


def _forget_cluster(rows: Rows, cluster: str, position: int) -> None:
    for each in open_rows(rows, application_clusters, {"cluster": cluster}):
        key = {name: each[name] for name in APPLICATION}
        replace(rows, application_clusters, {**key, "cluster": cluster}, None, position)
        _end_if_gone(rows, key, position)


PROJECTION = Projection(
    name="applications",
    events=frozenset(
        {
            ApplicationDeclared,
            ApplicationChanged,
            ApplicationDeleted,
            AccessRequested,
            AccessGranted,
            AccessRefused,
            AccessWithdrawn,
            CredentialsIssued,
            CredentialsRevoked,
            ApplicationApplied,
            ApplicationApplyFailed,
            ApplicationDrifted,
            ApplicationRemoved,
            ClusterRemoved,
        }
    ),
    tables=(applications, grants, application_clusters),
    apply=_apply,
)
