"""Undo of changes within tenants, of access, and of users."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backend.changes import applications, streams, tenants, users
from backend.changes.undoing.undo import (
    CannotBeUndone,
    Find,
    Undo,
    UndoRequest,
    changed_fields,
    check_not_replaced,
    unchanged,
)
from backend.domain.access.access import Action
from backend.domain.base.errors import NotFound
from backend.domain.names.names import ApplicationName, StreamName
from backend.domain.tenants.application_commands import GRANT, WITHDRAW
from backend.domain.topics.stream_settings import CLUSTER_DEFAULT
from backend.queries.access.users import get_user
from backend.queries.tenants.applications import ApplicationRow, get_application, list_grants
from backend.queries.tenants.streams import StreamRow, get_stream
from backend.queries.tenants.tenants import EnvironmentRow, get_environment

_STREAM_ENDS = (["StreamDeleted"], "instance", "environment", "stream")
_ENVIRONMENT = ("margin_seconds", "offset_mode", "record_name_subjects")
_QUOTAS = ("producer_bytes_per_second", "consumer_bytes_per_second", "request_percentage")


def _environment(asked: UndoRequest) -> Undo:
    place = (asked.data["tenant"], asked.data["instance"], asked.data["environment"])
    before, after, now = (get_environment(asked.connection, *place, at) for at in (asked.before, asked.at, None))
    if before is None or after is None:
        raise CannotBeUndone("The earlier settings of the environment are not known.")
    changed = changed_fields(_of(before), _of(after))
    unchanged("/".join(place), changed, None if now is None else _of(now))
    change = tenants.change_environment(
        *place,
        margin_seconds=before.margin_seconds if "margin_seconds" in changed else None,
        offset_mode=before.offset_mode if "offset_mode" in changed else None,
        record_name_subjects=before.record_name_subjects if "record_name_subjects" in changed else None,
    )
    return Undo(change=change, action=Action.MANAGE_TENANT, tenant=place[0])


def _of(row: EnvironmentRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _ENVIRONMENT}


def _stream(asked: UndoRequest) -> StreamName:
    return StreamName(*(asked.data[name] for name in ("tenant", "instance", "environment", "stream")))


def _find_stream(asked: UndoRequest, at: int | None = None) -> StreamRow | None:
    name = _stream(asked)
    return get_stream(asked.connection, name.tenant, name.instance, name.environment, name.stream, at)


def _changed_stream(asked: UndoRequest) -> Undo:
    name = _stream(asked)
    before, after, now = (_find_stream(asked, at) for at in (asked.before, asked.at, None))
    if before is None or after is None:
        raise CannotBeUndone("The earlier settings of the stream are not known.")
    check_not_replaced(asked, str(name), *_STREAM_ENDS)
    changed = changed_fields(vars(before.settings), vars(after.settings))
    unchanged(str(name), changed, None if now is None else vars(now.settings))
    assert now is not None
    wished = {each: getattr(before.settings, each) for each in changed}
    wished = {each: CLUSTER_DEFAULT if value is None else value for each, value in wished.items()}
    if wished.get("partitions", now.partitions) < now.partitions:
        raise CannotBeUndone(f"this event added partitions to {name}, and Kafka cannot remove partitions.")
    removed = streams.records_removed_by(now, wished)
    return Undo(
        change=streams.change_stream(name, wished, confirm=asked.confirm or None),
        action=Action.MANAGE_TENANT if removed else Action.DECLARE_STREAMS,
        tenant=name.tenant,
        confirm=str(name) if removed else "",
        notes=(f"Kafka then removes {removed}.",) if removed else (),
    )


def _declared_stream(asked: UndoRequest) -> Undo:
    name, now = _stream(asked), _find_stream(asked)
    check_not_replaced(asked, str(name), *_STREAM_ENDS)
    unchanged(str(name), {}, None if now is None else {})
    return Undo(
        change=streams.delete_stream(name, confirm=asked.confirm or None),
        action=Action.MANAGE_TENANT,
        tenant=name.tenant,
        confirm=str(name),
        notes=("Its topics are removed from all clusters, with their records.",),
    )


def _deleted_stream(asked: UndoRequest) -> Undo:
    name, before = _stream(asked), _find_stream(asked, asked.before)
    if before is None:
        raise CannotBeUndone("The earlier settings of the stream are not known.")
    return Undo(
        change=streams.declare_stream(name, before.settings),
        action=Action.DECLARE_STREAMS,
        tenant=name.tenant,
        notes=("Its topics are new ones: records that were removed with the old topics do not come back.",),
    )


def _application(asked: UndoRequest) -> ApplicationName:
    return ApplicationName(*(asked.data[name] for name in ("tenant", "instance", "environment", "application")))


def _given(row: ApplicationRow) -> dict[str, Any]:
    return {"groups": tuple(row.groups), **{name: getattr(row, name) for name in _QUOTAS}}


def _changed_application(asked: UndoRequest) -> Undo:
    name = _application(asked)
    before, after, now = (get_application(asked.connection, name, at) for at in (asked.before, asked.at, None))
    if before is None or after is None:
        raise CannotBeUndone("The earlier settings of the application are not known.")
    check_not_replaced(asked, str(name), ["ApplicationDeleted"])
    changed = changed_fields(_given(before), _given(after))
    unchanged(str(name), changed, None if now is None else _given(now))
    change = applications.change_application(
        name,
        asked.caller,
        groups=before.groups if "groups" in changed else None,
        produces=None,
        consumes=None,
        quotas={each: getattr(before, each) for each in _QUOTAS if each in changed},
    )
    return Undo(change=change, action=Action.DECLARE_STREAMS, tenant=name.tenant)


def _declared_application(asked: UndoRequest) -> Undo:
    name = _application(asked)
    check_not_replaced(asked, str(name), ["ApplicationDeleted"])
    unchanged(str(name), {}, None if get_application(asked.connection, name) is None else {})
    return Undo(
        change=applications.delete_application(name),
        action=Action.MANAGE_TENANT,
        tenant=name.tenant,
        confirm=str(name),
        notes=("Clusters remove it and its password; its clients are refused.",),
    )


def _granted(asked: UndoRequest) -> Undo:
    undo = _decided(asked, "granted", WITHDRAW)
    if _state_of_grant(asked, asked.before) == "requested":
        return replace(
            undo, notes=("The request was pending before. It is withdrawn now: nothing is pending any more.",)
        )
    return undo


def _closed(asked: UndoRequest) -> Undo:
    if asked.data.get("by") == "application":
        raise CannotBeUndone("The application no longer names the stream: change the application.")
    if _state_of_grant(asked, asked.before) != "granted":
        raise CannotBeUndone(
            "Nothing was granted before, so there is nothing to restore: grant access if you want it."
        )
    return _decided(asked, "withdrawn" if asked.event.name == "AccessWithdrawn" else "refused", GRANT)


def _state_of_grant(asked: UndoRequest, at: int | None = None) -> str | None:
    name, stream, operation = str(_application(asked)), asked.data["stream"], asked.data["operation"]
    for row in list_grants(asked.connection, stream.partition("/")[0], at):
        if (row.principal, row.stream, row.operation) == (name, stream, operation):
            return str(row.state)
    return None


def _decided(asked: UndoRequest, state: str, decision: str) -> Undo:
    name, stream, operation = _application(asked), asked.data["stream"], asked.data["operation"]
    owner, now = stream.partition("/")[0], _state_of_grant(asked)
    what = f"{name} {stream} {operation}"
    check_not_replaced(asked, what, ["ApplicationDeleted"])
    unchanged(what, {"state": state}, None if now is None else {"state": now})
    check_not_replaced(asked, what, ["AccessGranted", "AccessRefused", "AccessWithdrawn"], "stream", "operation")
    reason = f"undoes the event at position {asked.at}"
    change = applications.decide_access(owner, str(name), stream, operation, decision, reason)
    return Undo(change=change, action=Action.DECIDE_ACCESS, tenant=owner)


def _changed_user(asked: UndoRequest) -> Undo:
    name = asked.data["user"]
    before, after, now = (get_user(asked.connection, name, at) for at in (asked.before, asked.at, None))
    if before is None or after is None:
        raise CannotBeUndone("The earlier settings of the user are not known.")
    told = [{"role": row.role, "disabled": row.disabled} for row in (before, after)]
    changed = changed_fields(*told)
    unchanged(name, changed, None if now is None else {"role": now.role, "disabled": now.disabled})
    change = users.change_user(
        name,
        role=before.role if "role" in changed else None,
        disabled=before.disabled if "disabled" in changed else None,
    )
    return Undo(change=change, action=Action.MANAGE_USERS)


def _created_user(asked: UndoRequest) -> Undo:
    name, now = asked.data["user"], get_user(asked.connection, asked.data["user"])
    unchanged(name, {"disabled": False}, None if now is None else {"disabled": now.disabled})
    return Undo(
        change=users.change_user(name, role=None, disabled=True),
        action=Action.MANAGE_USERS,
        notes=("A user is never removed, only disabled: nobody can log in as this user any more.",),
    )


def _membership(asked: UndoRequest) -> Undo:
    user, tenant = asked.data["user"], asked.data["tenant"]
    before, after, now = (get_user(asked.connection, user, at) for at in (asked.before, asked.at, None))
    if now is None or after is None:
        raise NotFound(f"there is no user {user!r}")
    unchanged(
        f"{user} in {tenant}", {"membership": after.tenants.get(tenant)}, {"membership": now.tenants.get(tenant)}
    )
    check_not_replaced(asked, f"{user} in {tenant}", ["MembershipGiven", "MembershipEnded"], "tenant")
    had = None if before is None else before.tenants.get(tenant)
    change = users.end_membership(tenant, user) if had is None else users.give_membership(tenant, user, had)
    return Undo(change=change, action=Action.MANAGE_MEMBERS, tenant=tenant)


def _issued_token(asked: UndoRequest) -> Undo:
    check_not_replaced(asked, f"token {asked.data['token']}", ["TokenRevoked", "TokenIssued"], "token")
    return Undo(change=users.revoke_token(asked.data["user"], asked.data["token"]), action=Action.MANAGE_USERS)


FINDERS: dict[str, Find] = {
    "EnvironmentChanged": _environment,
    "StreamChanged": _changed_stream,
    "StreamDeclared": _declared_stream,
    "StreamDeleted": _deleted_stream,
    "ApplicationChanged": _changed_application,
    "ApplicationDeclared": _declared_application,
    "AccessGranted": _granted,
    "AccessRefused": _closed,
    "AccessWithdrawn": _closed,
    "UserChanged": _changed_user,
    "UserCreated": _created_user,
    "MembershipGiven": _membership,
    "MembershipEnded": _membership,
    "TokenIssued": _issued_token,
}
