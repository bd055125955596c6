"""Changes of applications, of their grants on streams, and of their passwords."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydantic import SecretStr
from sqlalchemy import Connection

from backend.changes.change import Change, Match, any_version
from backend.deciders import APPLICATION
from backend.dispatch import Outcome
from backend.domain.access.access import Action, Caller
from backend.domain.names.names import ApplicationName, application_named
from backend.domain.tenants.application import Application
from backend.domain.tenants.application_commands import (
    ApplicationCommand,
    ChangeApplication,
    DecideAccess,
    DeclareApplication,
    DeleteApplication,
    Facts,
    IssueCredentials,
    RevokeCredentials,
    not_requested,
    stream_named,
)
from backend.queries.base.naming import declared_among
from backend.queries.tenants import secrets_of_applications as secrets
from backend.queries.tenants.application_groups import group_formats, taken_groups
from backend.queries.tenants.applications import clusters_of, count_applications, find_application
from backend.queries.tenants.tenants import find_environment, find_tenant, get_instance

Names = Sequence[str] | None
ApplicationChange = Change[Application | None, ApplicationCommand]


def declare_application(
    name: ApplicationName,
    caller: Caller,
    *,
    groups: Names,
    produces: Sequence[str],
    consumes: Sequence[str],
    quotas: Mapping[str, int | None],
) -> ApplicationChange:
    """Declare an application.

    Access that the caller may decide on is granted at once, the rest awaits its owners.
    """

    def build(connection: Connection) -> DeclareApplication:
        find_environment(connection, name.tenant, name.instance, name.environment)
        return DeclareApplication(
            name=name,
            groups=None if groups is None else tuple(groups),
            produces=tuple(produces),
            consumes=tuple(consumes),
            quotas=quotas,
            facts=_facts(connection, caller, name, groups, [*produces, *consumes]),
        )

    return Change(APPLICATION, event_stream(name), build)


def change_application(
    name: ApplicationName,
    caller: Caller,
    *,
    groups: Names,
    produces: Names,
    consumes: Names,
    quotas: Mapping[str, int | None],
    match: Match = any_version,
) -> ApplicationChange:
    """Change an application; None keeps a list. Access to streams that it no longer names ends."""

    def build(connection: Connection) -> ChangeApplication:
        match(find_application(connection, name).version)
        return ChangeApplication(
            groups=None if groups is None else tuple(groups),
            produces=None if produces is None else tuple(produces),
            consumes=None if consumes is None else tuple(consumes),
            quotas=quotas,
            facts=_facts(connection, caller, name, groups, [*(produces or ()), *(consumes or ())]),
        )

    return Change(APPLICATION, event_stream(name), build)


def delete_application(name: ApplicationName, match: Match = any_version) -> ApplicationChange:
    """Delete an application, its grants and its credentials; clusters are cleaned up asynchronously."""

    def build(connection: Connection) -> DeleteApplication:
        row = find_application(connection, name)
        match(row.version)
        return DeleteApplication(clusters=clusters_of(connection, row))

    return Change(APPLICATION, event_stream(name), build, _forget_password(name))


def issue_credentials(
    name: ApplicationName, given: str, secrets_key: SecretStr | None, match: Match = any_version
) -> ApplicationChange:
    """Set an application's password, which replaces the one before; `secrets_key` is the setting."""

    def build(connection: Connection) -> IssueCredentials:
        match(find_application(connection, name).version)
        return IssueCredentials()

    def also(connection: Connection, _: Outcome) -> None:
        row = find_application(connection, name)
        assert row.credentials is not None
        keys = secrets.keys_to_seal(secrets_key)
        secrets.keep_password(connection, row.principal, row.credentials, given, keys)

    return Change(APPLICATION, event_stream(name), build, also)


def revoke_credentials(name: ApplicationName, match: Match = any_version) -> ApplicationChange:
    """Revoke an application's password; clusters remove it asynchronously."""

    def build(connection: Connection) -> RevokeCredentials:
        match(find_application(connection, name).version)
        return RevokeCredentials()

    return Change(APPLICATION, event_stream(name), build, _forget_password(name))


def decide_access(
    tenant: str, application: str, stream: str, operation: str, decision: str, reason: str | None
) -> ApplicationChange:
    """Grant or refuse an application's request for access to a tenant's stream, or withdraw a grant.

    Raises NotFound if there is no such application or the tenant has no such stream.
    """
    named = application_named(application)
    if named is None or stream.partition("/")[0] != tenant:
        raise not_requested(application, operation, stream)
    command = DecideAccess(application=named, stream=stream, operation=operation, decision=decision, reason=reason)

    def build(connection: Connection) -> DecideAccess:
        find_tenant(connection, tenant)
        return command

    return Change(APPLICATION, event_stream(named), build)


def event_stream(name: ApplicationName) -> str:
    """Return the name of an application's event stream."""
    return f"application-{name}"


def _forget_password(name: ApplicationName) -> Callable[[Connection, Outcome], None]:
    def also(connection: Connection, _: Outcome) -> None:
        secrets.forget_password(connection, str(name))

    return also


def _facts(
    connection: Connection, caller: Caller, name: ApplicationName, groups: Names, streams: Sequence[str]
) -> Facts:
    """Read the facts that decide on a declaration or a change."""
    instance = get_instance(connection, name.tenant, name.instance)
    formats = group_formats(connection, instance.tree if instance else "")
    wanted = [name.application] if groups is None else list(groups)
    return Facts(
        may_decide=caller.tenants_for(Action.DECIDE_ACCESS),
        missing=_missing(connection, caller, name, streams),
        clusters=formats,
        taken_groups=taken_groups(connection, formats, name, wanted),
        applications=count_applications(connection, name.tenant, name.instance, name.environment),
    )


def _missing(
    connection: Connection, caller: Caller, name: ApplicationName, streams: Sequence[str]
) -> frozenset[str]:
    """Return the named streams that do not exist, among those of tenants that the caller may read.

    Other tenants are left out, so that nobody can find out by guessing which streams others have.
    """
    readable = caller.tenants_for(Action.READ_TENANT)
    named = {stream for stream in (stream_named(text, name) for text in streams) if stream is not None}
    known = {stream for stream in named if readable is None or stream.tenant in readable}
    return frozenset(map(str, known - declared_among(connection, known)))
