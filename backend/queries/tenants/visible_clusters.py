"""Clusters whose names a caller may learn from lists of groups and offsets, and from their filters."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import NotFound
from backend.queries.clusters.clusters import leaves, list_clusters
from backend.queries.tenants.tenants import clusters_of_tenants


def visible_clusters(connection: Connection, caller: Caller) -> list[str]:
    """Return clusters by number: all, or, without `read-estate`, those in the trees of the caller's tenants.

    Streams and discovery name these to members of a tenant anyway.
    """
    return _seen_by(connection, caller, [row.name for row in list_clusters(connection)])


def visible_leaves(connection: Connection, caller: Caller, at: int | None = None) -> list[str]:
    """Return those of the visible clusters that are in a tree, now or as of a position, by number."""
    return _seen_by(connection, caller, leaves(connection, at), at)


def _seen_by(connection: Connection, caller: Caller, names: list[str], at: int | None = None) -> list[str]:
    tenants = caller.tenants_for(Action.READ_TENANT)
    if tenants is None:
        return names
    theirs = clusters_of_tenants(connection, tenants, at)
    return [name for name in names if name in theirs]


def check_visible(connection: Connection, caller: Caller, cluster: str | None) -> None:
    """Raise NotFound for a cluster that does not exist, or that the caller may not know of."""
    if cluster is not None and cluster not in visible_clusters(connection, caller):
        raise NotFound(f"there is no cluster {cluster[:300]!r}")
