"""Facts about groups of applications for decisions, read under the append lock like those of `naming.py`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.names.names import ApplicationName
from backend.domain.offsets.application_groups import ClusterGroups
from backend.projections.applications import APPLICATION, application_clusters, applications
from backend.projections.clusters import clusters
from backend.projections.temporal import as_of
from backend.projections.tenants import instances
from backend.projections.trees import tree_leaves
from backend.queries.base.matching import among
from backend.queries.base.naming import rendered
from backend.queries.clusters.clusters import leaves_by_tree


def group_formats(connection: Connection, tree: str) -> tuple[ClusterGroups, ...]:
    """Return the formats of the tree's clusters, by number."""
    leaves = leaves_by_tree(connection).get(tree, [])
    return tuple(ClusterGroups(leaf.name, leaf.group_format) for leaf in leaves)


def taken_groups(
    connection: Connection, formats: Collection[ClusterGroups], name: ApplicationName, groups: Collection[str]
) -> dict[tuple[str, str], ApplicationName]:
    """Return technical groups that other applications have already: (cluster, technical group) -> application."""
    wanted = {(of.cluster, of.technical(name, group)) for of in formats for group in groups}
    parts = tuple(applications.c[part] for part in APPLICATION)
    technical = rendered(clusters.c.group_format, (*parts[:3], _GROUP.c.value), "group")
    query = sa.select(*parts, clusters.c.name.label("cluster"), technical.label("technical"))
    query = query.select_from(_ON_CLUSTERS).where(among((clusters.c.name, technical), wanted), *_NOW)
    found = {(row.cluster, row.technical): _name(row) for row in connection.execute(query)}
    return {place: other for place, other in found.items() if other != name}


def declared_groups(connection: Connection, tree: str) -> list[tuple[ApplicationName, str]]:
    """Return every group of every application on a tree, with its application."""
    query = sa.select(*(applications.c[part] for part in APPLICATION), _GROUP.c.value)
    query = query.select_from(_WITH_TREE).where(instances.c.tree == tree, *_NOW)
    return sorted((_name(row), row.value) for row in connection.execute(query))


def application_on(connection: Connection, cluster: str) -> ApplicationName | None:
    """Return an application with groups that has, or will get, something on the cluster; None if there is none."""
    parts = [applications.c[part] for part in APPLICATION]
    due = sa.select(*parts).select_from(_ON_CLUSTERS).where(clusters.c.name == cluster, *_NOW)
    of = application_clusters
    there = sa.select(*(of.c[part] for part in APPLICATION)).where(of.c.cluster == cluster, as_of(of, None))
    for query in (due, there):
        row = connection.execute(query.limit(1)).one_or_none()
        if row is not None:
            return _name(row)
    return None


_GROUP = (
    sa.func.jsonb_array_elements_text(applications.c.groups)
    .table_valued(sa.column("value", sa.Text))
    .lateral("named_groups")
)
_NOW = (as_of(applications, None), applications.c.deleted.is_(False))
_WITH_TREE = applications.join(
    instances,
    sa.and_(
        instances.c.tenant == applications.c.tenant,
        instances.c.name == applications.c.instance,
        as_of(instances, None),
    ),
).join(_GROUP, sa.true())
_ON_CLUSTERS = _WITH_TREE.join(
    tree_leaves, sa.and_(tree_leaves.c.tree == instances.c.tree, as_of(tree_leaves, None))
).join(clusters, sa.and_(clusters.c.name == tree_leaves.c.cluster, as_of(clusters, None)))


def _name(row: Any) -> ApplicationName:
    return ApplicationName(row.tenant, row.instance, row.environment, row.application)
