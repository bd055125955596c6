"""Changes of tenants, their instances, and the instances' environments."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.changes.change import Change, Match, any_version
from backend.deciders import TENANT
from backend.domain.tenants.tenant import Tenant
from backend.domain.tenants.tenant_commands import (
    ChangeEnvironment,
    CreateEnvironment,
    CreateInstance,
    CreateTenant,
    TenantCommand,
)
from backend.queries.tenants.tenants import find_environment
from backend.queries.tree.trees import tree_names

TenantChange = Change[Tenant | None, TenantCommand]


def create_tenant(tenant: str) -> TenantChange:
    """Create a tenant."""
    return Change(TENANT, event_stream(tenant), lambda _: CreateTenant(tenant=tenant))


def create_instance(tenant: str, instance: str, tree: str) -> TenantChange:
    """Create a tenant's instance on a tree."""

    def build(connection: Connection) -> CreateInstance:
        return CreateInstance(instance=instance, tree=tree, known_trees=tree_names(connection))

    return Change(TENANT, event_stream(tenant), build)


def create_environment(
    tenant: str,
    instance: str,
    environment: str,
    *,
    margin_seconds: int,
    offset_mode: str,
    record_name_subjects: bool,
) -> TenantChange:
    """Create an environment of an instance."""
    command = CreateEnvironment(
        instance=instance,
        environment=environment,
        margin_seconds=margin_seconds,
        offset_mode=offset_mode,
        record_name_subjects=record_name_subjects,
    )
    return Change(TENANT, event_stream(tenant), lambda _: command)


def change_environment(
    tenant: str,
    instance: str,
    environment: str,
    *,
    margin_seconds: int | None,
    offset_mode: str | None,
    record_name_subjects: bool | None,
    match: Match = any_version,
) -> TenantChange:
    """Change an environment's settings; None keeps a value."""
    command = ChangeEnvironment(
        instance=instance,
        environment=environment,
        margin_seconds=margin_seconds,
        offset_mode=offset_mode,
        record_name_subjects=record_name_subjects,
    )

    def build(connection: Connection) -> ChangeEnvironment:
        match(find_environment(connection, tenant, instance, environment).version)
        return command

    return Change(TENANT, event_stream(tenant), build)


def event_stream(tenant: str) -> str:
    """Return the name of a tenant's event stream."""
    return f"tenant-{tenant}"
