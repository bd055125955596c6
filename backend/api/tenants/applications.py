"""`/tenants/{t}/instances/{i}/environments/{e}/applications`: clients that produce to and consume from streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field
from sqlalchemy import Connection

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import (
    At,
    Body,
    Paging,
    Reading,
    SharedServices,
    Writing,
    etag,
    listed,
    plausible_names,
    shown_at,
)
from backend.api.tenants.tenants import ENVIRONMENT
from backend.changes import applications as changes
from backend.dispatch import Answer, Outcome
from backend.domain.access.access import Action
from backend.domain.names.names import ApplicationName
from backend.domain.tenants.application import OPERATIONS
from backend.domain.tenants.application_commands import FIELDS
from backend.queries.tenants import applications as queries
from backend.queries.tenants import secrets_of_applications as secrets
from backend.queries.tenants.applications import ApplicationRow
from backend.queries.tenants.tenants import find_environment

router = APIRouter(
    prefix=f"/tenants{ENVIRONMENT}/applications", tags=["applications"], dependencies=[Depends(plausible_names)]
)
QUOTAS = ("producer_bytes_per_second", "consumer_bytes_per_second", "request_percentage")
MOST_NAMES = 1000
_Streams = Field(max_length=MOST_NAMES, description="STREAM of this environment, or its full name.")


class _Quotas(Body):
    """Quotas of an application on each broker; null, or left out when it is declared, means no limit."""

    producer_bytes_per_second: int | None = None
    consumer_bytes_per_second: int | None = None
    request_percentage: int | None = Field(
        None, description="Percent of a broker's request handlers; 100 is one handler."
    )


class NewApplication(_Quotas):
    """An application to declare, and the streams that it requests to produce to and to consume from."""

    name: str
    groups: list[str] | None = Field(
        None, max_length=MOST_NAMES, description="Left out: one group with the application's name."
    )
    produces: Annotated[list[str], _Streams] = Field(default_factory=list)
    consumes: Annotated[list[str], _Streams] = Field(default_factory=list)


class ApplicationChanges(_Quotas):
    """Changes of an application; lists replace the present ones.

    Lists left out or null stay; quotas left out stay.
    """

    groups: list[str] | None = Field(None, max_length=MOST_NAMES)
    produces: Annotated[list[str] | None, _Streams] = None
    consumes: Annotated[list[str] | None, _Streams] = None


@dataclass(frozen=True)
class Place:
    """The environment that a path names."""

    tenant: str
    instance: str
    environment: str

    def name(self, application: str) -> ApplicationName:
        return ApplicationName(self.tenant, self.instance, self.environment, application)

    def find_environment(self, connection: Connection, at: int | None = None) -> None:
        find_environment(connection, self.tenant, self.instance, self.environment, at)

    def find(self, connection: Connection, application: str, at: int | None = None) -> ApplicationRow:
        """Return the application, or raise NotFound naming what is missing."""
        return queries.find_application(connection, self.name(application), at)


In = Annotated[Place, Depends(Place)]


@router.get("", openapi_extra=needs(Action.READ_TENANT))
def list_applications(place: In, connection: Reading, at: At, page: Paging) -> dict[str, Any]:
    """List an environment's applications, by name."""
    place.find_environment(connection, at)
    after = None if page.after is None else str(page.after)
    rows = queries.list_applications(
        connection, at, place.tenant, place.instance, place.environment, after=after, limit=page.limit + 1
    )
    return listed(rows, page, lambda row: row.name, shown)


@router.post("", status_code=201, openapi_extra=needs(Action.DECLARE_STREAMS))
def declare_application(place: In, body: NewApplication, write: Writing, caller: Asking) -> Response:
    """Declare an application. Access that the caller may decide on is granted at once, the rest is requested."""
    change = changes.declare_application(
        place.name(body.name),
        caller,
        groups=body.groups,
        produces=body.produces,
        consumes=body.consumes,
        quotas=body.model_dump(include=set(QUOTAS)),
    )

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = place.find(connection, body.name)
        where = f"instances/{place.instance}/environments/{place.environment}/applications/{body.name}"
        headers = {"Location": f"/api/v1/tenants/{place.tenant}/{where}", "ETag": etag(row.version)}
        return Answer(201, shown(row), headers)

    return write.carry_out(change, answer)


@router.get("/{application}", openapi_extra=needs(Action.READ_TENANT))
def get_application(place: In, application: str, connection: Reading, at: At) -> Response:
    """Show one application: its access, technical names and state on each cluster."""
    row = place.find(connection, application, at)
    return shown_at(row.version, shown(row))


@router.patch("/{application}", openapi_extra=needs(Action.DECLARE_STREAMS))
def change_application(
    place: In, application: str, body: ApplicationChanges, write: Writing, caller: Asking
) -> Response:
    """Change an application. Access to streams that it no longer names ends, access to new ones is requested."""
    change = changes.change_application(
        place.name(application),
        caller,
        groups=body.groups,
        produces=body.produces,
        consumes=body.consumes,
        quotas=body.model_dump(exclude_unset=True, include=set(QUOTAS)),
        match=write.match,
    )

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = place.find(connection, application)
        return Answer(200, shown(row), {"ETag": etag(row.version)})

    return write.carry_out(change, answer)


@router.delete("/{application}", status_code=204, openapi_extra=needs(Action.DECLARE_STREAMS))
def delete_application(place: In, application: str, write: Writing) -> Response:
    """Delete an application, its grants and credentials; its access is removed from clusters asynchronously."""
    change = changes.delete_application(place.name(application), write.match)
    return write.carry_out(change, lambda connection, _: Answer(204, None))


@router.post("/{application}/credentials", status_code=201, openapi_extra=needs(Action.MANAGE_TENANT))
def issue_credentials(place: In, application: str, write: Writing, services: SharedServices) -> Response:
    """Issue a new password for an application, in place of the one before.

    `password` is in this response only; a repeat by Idempotency-Key has null there.
    """
    given = secrets.new_password()

    def answer(connection: Connection, _: Outcome) -> Answer:
        row = place.find(connection, application)
        body = {
            "username": row.principal,
            "password": None,
            "mechanisms": list(secrets.MECHANISMS),
            "number": row.credentials,
        }
        return Answer(201, body, {"ETag": etag(row.version)}, {} if write.dry_run else {"password": given})

    key = services.config.secrets_key
    return write.carry_out(changes.issue_credentials(place.name(application), given, key, write.match), answer)


@router.delete("/{application}/credentials", status_code=204, openapi_extra=needs(Action.MANAGE_TENANT))
def revoke_credentials(place: In, application: str, write: Writing) -> Response:
    """Revoke an application's password; clusters remove it asynchronously."""
    change = changes.revoke_credentials(place.name(application), write.match)
    return write.carry_out(change, lambda connection, _: Answer(204, None))


def shown(row: ApplicationRow) -> dict[str, Any]:
    """Return an application as responses show it; `acls` are due on each cluster."""
    asked = {
        FIELDS[operation]: [
            {"stream": grant.stream, "state": grant.state, "reason": grant.reason}
            for grant in row.grants
            if grant.operation == operation
        ]
        for operation in OPERATIONS
    }
    return {
        "name": row.name,
        "application": row.principal,
        "tenant": row.tenant,
        "instance": row.instance,
        "environment": row.environment,
        "principal": row.principal,
        "groups": list(row.groups),
        **asked,
        **{quota: getattr(row, quota) for quota in QUOTAS},
        "credentials": None if row.credentials is None else {"number": row.credentials},
        "technical_groups": {cluster: list(groups) for cluster, groups in row.technical_groups.items()},
        "transactional_id_prefix": row.transactional_prefix,
        "applied": {cluster: each.state for cluster, each in row.applied.items()},
        "failures": {cluster: each.failure for cluster, each in row.applied.items() if each.failure is not None},
        "leaving": {cluster: each.failure for cluster, each in row.leaving.items()},
        "parts": {cluster: dict(each.parts) for cluster, each in row.applied.items()},
        "acls": {cluster: queries.due_acls(row, cluster) for cluster in row.topics},
        "position": row.position,
    }
