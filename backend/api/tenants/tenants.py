"""`/tenants`: tenants, their instances, and the instances' environments."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import At, Body, Paging, Reading, Writing, etag, listed, plausible_names, shown_at
from backend.changes import tenants as changes
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.tenants.tenant import DEFAULT_MARGIN_SECONDS, DEFAULT_OFFSET_MODE
from backend.queries.tenants import tenants as queries
from backend.queries.tenants.tenants import (
    EnvironmentRow,
    InstanceRow,
    TenantRow,
    find_environment,
    find_instance,
    find_tenant,
)

router = APIRouter(prefix="/tenants", tags=["tenants"], dependencies=[Depends(plausible_names)])
INSTANCE = "/{tenant}/instances/{instance}"
ENVIRONMENT = INSTANCE + "/environments/{environment}"


class NewTenant(Body):
    """A tenant to create."""

    name: str


class NewInstance(Body):
    """An instance to create."""

    name: str
    tree: str = "main"


class NewEnvironment(Body):
    """An environment to create."""

    name: str
    margin_seconds: int = Field(
        DEFAULT_MARGIN_SECONDS, description="Subtracted from a committed offset's timestamp."
    )
    offset_mode: str = Field(DEFAULT_OFFSET_MODE, description="margin | exact")
    record_name_subjects: bool = Field(
        True, description="Whether the tenant may use subjects by record name, which all tenants share."
    )


class EnvironmentChanges(Body):
    """Changes of an environment; fields left out, or null, stay."""

    margin_seconds: int | None = None
    offset_mode: str | None = None
    record_name_subjects: bool | None = None


@router.get("", openapi_extra=needs(Action.READ_TENANT))
def list_tenants(connection: Reading, caller: Asking, at: At, page: Paging) -> dict[str, Any]:
    """List the tenants that the caller may read, by name."""
    known = caller.tenants_for(Action.READ_TENANT)
    rows = [row for row in queries.list_tenants(connection, at) if known is None or row.name in known]
    return listed(rows, page, lambda row: row.name, show_tenant)


@router.post("", status_code=201, openapi_extra=needs(Action.CHANGE_ESTATE))
def create_tenant(body: NewTenant, write: Writing) -> Response:
    """Create a tenant."""

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        return _created(show_tenant(find_tenant(connection, body.name)), outcome, f"/{body.name}")

    return write.carry_out(changes.create_tenant(body.name), answer)


@router.get("/{tenant}", openapi_extra=needs(Action.READ_TENANT))
def get_tenant(tenant: str, connection: Reading, at: At) -> Response:
    """Show one tenant."""
    row = find_tenant(connection, tenant, at)
    return shown_at(row.version, show_tenant(row))


@router.get("/{tenant}/instances", openapi_extra=needs(Action.READ_TENANT))
def list_instances(tenant: str, connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List a tenant's instances, by name."""
    find_tenant(connection, tenant, at)
    return listed(queries.list_instances(connection, tenant, at), page, lambda row: row.name, show_instance)


@router.post("/{tenant}/instances", status_code=201, openapi_extra=needs(Action.MANAGE_TENANT))
def create_instance(tenant: str, body: NewInstance, write: Writing) -> Response:
    """Create an instance of a tenant on a tree."""

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        row = find_instance(connection, tenant, body.name)
        return _created(show_instance(row), outcome, f"/{tenant}/instances/{body.name}")

    return write.carry_out(changes.create_instance(tenant, body.name, body.tree), answer)


@router.get(INSTANCE, openapi_extra=needs(Action.READ_TENANT))
def get_instance(tenant: str, instance: str, connection: Reading, at: At) -> Response:
    """Show one instance."""
    row = find_instance(connection, tenant, instance, at)
    return shown_at(row.version, show_instance(row))


@router.get(INSTANCE + "/environments", openapi_extra=needs(Action.READ_TENANT))
def list_environments(tenant: str, instance: str, connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List an instance's environments, by name."""
    find_instance(connection, tenant, instance, at)
    rows = queries.list_environments(connection, tenant, instance, at)
    return listed(rows, page, lambda row: row.name, show_environment)


@router.post(INSTANCE + "/environments", status_code=201, openapi_extra=needs(Action.MANAGE_TENANT))
def create_environment(tenant: str, instance: str, body: NewEnvironment, write: Writing) -> Response:
    """Create an environment of an instance."""
    change = changes.create_environment(
        tenant,
        instance,
        body.name,
        margin_seconds=body.margin_seconds,
        offset_mode=body.offset_mode,
        record_name_subjects=body.record_name_subjects,
    )

    def answer(connection: Connection, outcome: Outcome) -> Answer:
        row = find_environment(connection, tenant, instance, body.name)
        place = f"/{tenant}/instances/{instance}/environments/{body.name}"
        return _created(show_environment(row), outcome, place)

    return write.carry_out(change, answer)


@router.get(ENVIRONMENT, openapi_extra=needs(Action.READ_TENANT))
def get_environment(tenant: str, instance: str, environment: str, connection: Reading, at: At) -> Response:
    """Show one environment."""
    row = find_environment(connection, tenant, instance, environment, at)
    return shown_at(row.version, show_environment(row))


@router.patch(ENVIRONMENT, openapi_extra=needs(Action.MANAGE_TENANT))
def change_environment(
    tenant: str, instance: str, environment: str, body: EnvironmentChanges, write: Writing
) -> Response:
    """Change an environment's settings."""

    change = changes.change_environment(tenant, instance, environment, **body.model_dump(), match=write.match)

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = find_environment(connection, tenant, instance, environment)
        return Answer(200, show_environment(row), {"ETag": etag(row.version)})

    return write.carry_out(change, answer)


def show_tenant(row: TenantRow) -> dict[str, Any]:
    """Return a tenant as responses show it."""
    return {"name": row.name, "position": row.position}


def show_instance(row: InstanceRow) -> dict[str, Any]:
    """Return an instance as responses show it."""
    return {"name": row.name, "tenant": row.tenant, "tree": row.tree, "position": row.position}


def show_environment(row: EnvironmentRow) -> dict[str, Any]:
    """Return an environment as responses show it."""
    return {
        "name": row.name,
        "tenant": row.tenant,
        "instance": row.instance,
        "margin_seconds": row.margin_seconds,
        "offset_mode": row.offset_mode,
        "record_name_subjects": row.record_name_subjects,
        "position": row.position,
    }


def _created(body: dict[str, Any], outcome: Outcome, place: str) -> Answer:
    return Answer(201, body, {"Location": f"/api/v1/tenants{place}", "ETag": etag(outcome.version)})
