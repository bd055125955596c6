"""Read tenants, instances and environments, now or as of a position."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Table

from backend.domain.access.access import no_tenant
from backend.domain.base.errors import NotFound
from backend.domain.tenants.tenant import EXACT
from backend.projections.temporal import as_of
from backend.projections.tenants import environments, instances, tenants
from backend.projections.trees import tree_leaves


@dataclass(frozen=True)
class TenantRow:
    """A tenant. In all rows here `version` and `position` are those of the event that last described it."""

    name: str
    version: int
    position: int


@dataclass(frozen=True)
class InstanceRow:
    """An instance and its tree."""

    tenant: str
    name: str
    tree: str
    version: int
    position: int


@dataclass(frozen=True)
class EnvironmentRow:
    """An environment of an instance."""

    tenant: str
    instance: str
    name: str
    margin_seconds: int
    offset_mode: str
    record_name_subjects: bool
    version: int
    position: int


def list_tenants(connection: Connection, at: int | None = None) -> list[TenantRow]:
    """Return every tenant, by name."""
    return [TenantRow(**row) for row in _rows(connection, tenants, at)]


def get_tenant(connection: Connection, name: str, at: int | None = None) -> TenantRow | None:
    """Return one tenant, or None."""
    return next((TenantRow(**row) for row in _rows(connection, tenants, at, name=name)), None)


def known_tenants(connection: Connection, names: Collection[str]) -> frozenset[str]:
    """Return the names that are names of tenants."""
    query = sa.select(tenants.c.name).where(as_of(tenants, None), tenants.c.name.in_(names))
    return frozenset(connection.execute(query).scalars())


def list_instances(connection: Connection, tenant: str, at: int | None = None) -> list[InstanceRow]:
    """Return a tenant's instances, by name."""
    return [InstanceRow(**row) for row in _rows(connection, instances, at, tenant=tenant)]


def get_instance(connection: Connection, tenant: str, name: str, at: int | None = None) -> InstanceRow | None:
    """Return one instance, or None."""
    return next((InstanceRow(**row) for row in _rows(connection, instances, at, tenant=tenant, name=name)), None)


def list_environments(
    connection: Connection, tenant: str, instance: str, at: int | None = None
) -> list[EnvironmentRow]:
    """Return an instance's environments, by name."""
    found = _rows(connection, environments, at, tenant=tenant, instance=instance)
    return [EnvironmentRow(**row) for row in found]


def find_environments(
    connection: Connection, words: Sequence[str], most: int, tenants_seen: Collection[str] | None
) -> list[EnvironmentRow]:
    """Return at most `most` environments whose full name has all words, by name.

    `tenants_seen`: only these tenants'; None: all.
    """
    t = environments.c
    name = t.tenant + "/" + t.instance + "/" + t.name
    query = sa.select(environments).where(as_of(environments, None))
    query = query.where(*(name.icontains(word, autoescape=True) for word in words))
    if tenants_seen is not None:
        query = query.where(t.tenant.in_(tenants_seen))
    rows = connection.execute(query.order_by(t.tenant, t.instance, t.name).limit(most))
    return [EnvironmentRow(**_values(row)) for row in rows]


@dataclass(frozen=True, kw_only=True)
class OffsetRules:
    """Rules of an environment for translating its groups' offsets."""

    margin_ms: int
    """Milliseconds that are subtracted from the timestamps of their progress."""
    exact: bool
    """True if a group resumes at its first unread record; otherwise it resumes by timestamp and margin."""


def offset_rules(connection: Connection) -> dict[tuple[str, str, str], OffsetRules]:
    """Return the offset rules of all environments, by (tenant, instance, environment)."""
    t = environments.c
    query = sa.select(t.tenant, t.instance, t.name, t.margin_seconds, t.offset_mode)
    return {
        (row.tenant, row.instance, row.name): OffsetRules(
            margin_ms=row.margin_seconds * 1000, exact=row.offset_mode == EXACT
        )
        for row in connection.execute(query.where(as_of(environments, None)))
    }


def places_by_tree(connection: Connection) -> dict[str, list[tuple[str, str, str]]]:
    """Return tree -> (tenant, instance, environment) of the environments on it."""
    same = sa.and_(instances.c.tenant == environments.c.tenant, instances.c.name == environments.c.instance)
    query = sa.select(instances.c.tree, environments.c.tenant, environments.c.instance, environments.c.name)
    query = query.join_from(environments, instances, same).where(as_of(environments, None), as_of(instances, None))
    found: dict[str, list[tuple[str, str, str]]] = {}
    for row in connection.execute(query):
        found.setdefault(row.tree, []).append((row.tenant, row.instance, row.name))
    return found


def clusters_of_tenants(connection: Connection, names: Collection[str], at: int | None = None) -> frozenset[str]:
    """Return the clusters in the trees that instances of these tenants are on."""
    query = sa.select(tree_leaves.c.cluster).join_from(
        tree_leaves, instances, tree_leaves.c.tree == instances.c.tree
    )
    query = query.where(as_of(tree_leaves, at), as_of(instances, at), instances.c.tenant.in_(names))
    return frozenset(connection.execute(query).scalars())


def get_environment(
    connection: Connection, tenant: str, instance: str, name: str, at: int | None = None
) -> EnvironmentRow | None:
    """Return one environment, or None."""
    found = _rows(connection, environments, at, tenant=tenant, instance=instance, name=name)
    return next((EnvironmentRow(**row) for row in found), None)


def find_tenant(connection: Connection, tenant: str, at: int | None = None) -> TenantRow:
    """Return the tenant, or raise NotFound."""
    row = get_tenant(connection, tenant, at)
    if row is None:
        raise no_tenant(tenant)
    return row


def find_instance(connection: Connection, tenant: str, instance: str, at: int | None = None) -> InstanceRow:
    """Return the instance, or raise NotFound naming what is missing."""
    find_tenant(connection, tenant, at)
    row = get_instance(connection, tenant, instance, at)
    if row is None:
        raise NotFound(f"{tenant} has no instance {instance!r}")
    return row


def find_environment(
    connection: Connection, tenant: str, instance: str, environment: str, at: int | None = None
) -> EnvironmentRow:
    """Return the environment, or raise NotFound naming what is missing."""
    find_instance(connection, tenant, instance, at)
    row = get_environment(connection, tenant, instance, environment, at)
    if row is None:
        raise NotFound(f"{tenant}/{instance} has no environment {environment!r}")
    return row


def _rows(connection: Connection, table: Table, at: int | None, **key: str) -> list[dict[str, Any]]:
    matches = (table.c[name] == value for name, value in key.items())
    query = sa.select(table).where(as_of(table, at), *matches).order_by(*table.primary_key.columns)
    return [_values(row) for row in connection.execute(query)]


def _values(row: Row[Any]) -> dict[str, Any]:
    values = dict(row._mapping)
    values["position"] = values.pop("valid_from")
    del values["valid_to"]
    return values
