"""Projection of tenants, their instances and the instances' environments."""

from __future__ import annotations

import sqlalchemy as sa

from backend.domain.tenants.tenant import EnvironmentChanged, EnvironmentCreated, InstanceCreated, TenantCreated
from backend.eventlog.recorded import RecordedEvent
from backend.eventlog.tables import METADATA
from backend.projections.framework import Projection
from backend.projections.temporal import Rows, replace, temporal_table

# `version` is that of the event that last described the row, within the tenant's event stream.
tenants = temporal_table(
    "tenants",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
)
instances = temporal_table(
    "instances",
    METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("tree", sa.Text, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
environments = temporal_table(
    "environments",
    METADATA,
    sa.Column("tenant", sa.Text, primary_key=True),
    sa.Column("instance", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("margin_seconds", sa.Integer, nullable=False),
    sa.Column("offset_mode", sa.Text, nullable=False),
    sa.Column("record_name_subjects", sa.Boolean, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)


def _apply(rows: Rows, recorded: RecordedEvent) -> None:
    version = {"version": recorded.version}
    match recorded.event:
        case TenantCreated() as event:
            replace(rows, tenants, {"name": event.tenant}, version, recorded.position)
        case InstanceCreated() as event:
            key = {"tenant": event.tenant, "name": event.instance}
            replace(rows, instances, key, {"tree": event.tree, **version}, recorded.position)
        case EnvironmentCreated() | EnvironmentChanged() as event:
            key = {"tenant": event.tenant, "instance": event.instance, "name": event.environment}
            values = {
                "margin_seconds": event.margin_seconds,
                "offset_mode": event.offset_mode,
                "record_name_subjects": event.record_name_subjects,
                **version,
            }
            replace(rows, environments, key, values, recorded.position)


PROJECTION = Projection(
    name="tenants",
    events=frozenset({TenantCreated, InstanceCreated, EnvironmentCreated, EnvironmentChanged}),
    tables=(tenants, instances, environments),
    apply=_apply,
)
