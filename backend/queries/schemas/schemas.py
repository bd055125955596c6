"""Facts for the schema distributor, and its observation of each target.

`schema_targets` is an observation: a worker replaces its rows, and they may be lost without harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import JSONB

from backend.domain.distribution.edges import Endpoint
from backend.domain.names.names import StreamName
from backend.domain.tree.primary_move import Move
from backend.domain.tree.tree import clusters_of
from backend.eventlog.tables import METADATA
from backend.projections.temporal import as_of
from backend.projections.tenants import environments
from backend.queries.base.naming import declared_streams
from backend.queries.clusters.clusters import list_clusters
from backend.queries.tree.trees import MAIN, get_tree

schema_targets = sa.Table(
    "schema_targets",
    METADATA,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("primary_cluster", sa.Text, nullable=False),
    # starting, running, degraded (conflicts) or blocked.
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    # Subjects of the primary at the last comparison; NULL before.
    sa.Column("subjects", sa.Integer),
    # Records still to be written to the target.
    sa.Column("behind", sa.Integer),
    # [{kind, subject, version, schema_id, detail}], the first ones.
    sa.Column("conflicts", JSONB, nullable=False),
    sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
)


@dataclass(frozen=True)
class SchemaTargetRow:
    """State of a target; `conflicts` as the events report them, the first ones."""

    cluster: str
    primary_cluster: str
    state: str
    reason: str | None
    subjects: int | None
    behind: int | None
    conflicts: list[dict[str, Any]]
    written_at: datetime


@dataclass(frozen=True)
class SchemaLeaf:
    """A leaf of the tree, as the schema distributor needs it."""

    endpoint: Endpoint
    subject_format: str


@dataclass(frozen=True)
class WantedSchemas:
    """Desired schemas: the primary, the clusters that get its schemas, and the streams that name subjects."""

    primary: str
    move: Move | None
    leaves: Mapping[str, SchemaLeaf]
    streams: tuple[StreamName, ...]
    record_names: bool = True
    """True if subjects by record name are distributed, too."""


def list_schema_targets(connection: Connection) -> list[SchemaTargetRow]:
    """Return every target, by name."""
    rows = connection.execute(sa.select(schema_targets).order_by(schema_targets.c.cluster))
    return [SchemaTargetRow(**row._mapping) for row in rows]


def wanted_schemas(connection: Connection, at: int | None = None) -> WantedSchemas | None:
    """Return the desired schemas; None while there is no tree."""
    tree = get_tree(connection, at)
    if tree is None:
        return None
    names = clusters_of(tree.root)
    leaves = {
        row.name: SchemaLeaf(row.endpoint, row.subject_format)
        for row in list_clusters(connection, at)
        if row.name in names
    }
    return WantedSchemas(
        tree.primary_cluster,
        tree.move,
        leaves,
        tuple(declared_streams(connection, MAIN, at)),
        _allows_record_names(connection, at),
    )


def _allows_record_names(connection: Connection, at: int | None) -> bool:
    """Return False if there are environments and none of them allows subjects by record name, else True."""
    t = environments.c
    allowed = sa.select(sa.func.coalesce(sa.func.bool_or(t.record_name_subjects), sa.true()))
    return bool(connection.execute(allowed.where(as_of(environments, at))).scalar_one())
