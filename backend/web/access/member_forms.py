"""Forms of a tenant's members: add, change, remove; each follows the steps of `form_page.py`.

The version that a form was opened at is the membership itself: a user's own version would show an owner how often
others change the user's role elsewhere.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes import users as changes
from backend.changes.users import MembershipMatch, UserChange
from backend.dispatch import Outcome
from backend.domain.access.access import MEMBERSHIPS, Action, Caller, Membership
from backend.domain.base.errors import NotFound
from backend.domain.names.names import LONGEST_NAME
from backend.queries.access.users import MemberRow, list_members
from backend.queries.tenants.tenants import find_tenant
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import Shared, Viewer
from backend.web.tenants.tenant_forms import TENANTS
from backend.web.tenants.tenants_page import TENANT

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MEMBERS = TENANT + "/-members"
MEMBER = MEMBERS + "/{user}"
_NONE = "–"


def _trail(tenant: str) -> list[tuple[str, str]]:
    return [TENANTS, (tenant, f"/tenants/{tenant}"), ("members", f"/tenants/{tenant}#members")]


def _find(connection: Connection, tenant: str, user: str) -> MemberRow:
    for row in list_members(connection, tenant):
        if row.user == user:
            return row
    raise NotFound(f"{user[:100]} is not a member of {tenant}; the tenant's page lists its members")


def _unchanged(given: Fields) -> MembershipMatch:
    match = version_seen(given)
    return lambda present: match(present or _NONE)


def _shown(membership: str | None) -> dict[str, str]:
    """Return what a membership allows; None stands for no membership."""
    allowed = sorted(MEMBERSHIPS[Membership(membership)]) if membership else ()
    return {"Membership": membership or _NONE, "Permissions": ", ".join(allowed) or "none here"}


def _notes(connection: Connection, caller: Caller, tenant: str, user: str) -> tuple[str, ...]:
    """Return what a user who changes members may have overlooked."""
    notes = []
    members = {row.user: row for row in list_members(connection, tenant)}
    if user == caller.name:
        notes.append("This changes your own access: you may not be able to undo it.")
    if not any(row.membership == Membership.OWNER for row in members.values()):
        notes.append(f"{tenant} will have no owner; an admin can add one.")
    if user in members and members[user].disabled:
        notes.append(f"{user} is disabled, and cannot log in until an admin enables the user.")
    return tuple(notes)


def belonging(
    connection: Connection, outcome: Outcome, caller: Caller, tenant: str, user: str, before: str | None
) -> Effect:
    """Return the effect of giving a membership; `before`: the membership that the user has, if any."""
    row = _find(connection, tenant, user)
    path = f"/api/v1/tenants/{tenant}/members/{row.user}"
    return Effect(
        sentence=f"{row.user} will be {row.membership} of {tenant}, effective with the next request."
        if outcome.events
        else f"Nothing would change: {row.user} is {row.membership} of {tenant} already.",
        same=SameChange(
            None,
            f"treeline member set {tenant} {row.user} {row.membership}",
            curl("PUT", path, {"membership": row.membership}),
        ),
        fields=fields_of(_shown(row.membership), _shown(before) if before else None),
        notes=_notes(connection, caller, tenant, row.user),
        nothing=not outcome.events,
    )


def belonging_no_more(
    connection: Connection, caller: Caller, tenant: str, user: str, before: str | None
) -> Effect:
    """Return the effect of removing a user from a tenant."""
    call = curl("DELETE", f"/api/v1/tenants/{tenant}/members/{user}")
    return Effect(
        sentence=f"{user} will no longer be a member of {tenant}, effective with the next request.",
        same=SameChange(None, f"treeline member remove {tenant} {user}", call),
        fields=fields_of(_shown(None), _shown(before)),
        notes=_notes(connection, caller, tenant, user),
    )


# --- add and change


def _giving(caller: Caller, tenant: str, before: MemberRow | None) -> Command:
    """Build the command that gives a membership to the user named in the form, or changes a member's."""

    def named(given: Fields) -> str:
        return given.get("user", "").strip() if before is None else before.user

    def change(given: Fields) -> UserChange:
        membership = given.get("membership", "")
        if before is None:
            return changes.give_membership(tenant, named(given), membership)
        return changes.give_membership(tenant, before.user, membership, _unchanged(given))

    def effect(connection: Connection, outcome: Outcome, given: Fields) -> Effect:
        had = before.membership if before else None
        return belonging(connection, outcome, caller, tenant, named(given), had)

    return Command(change, effect, lambda given: _after(caller, tenant, named(given)))


def _after(caller: Caller, tenant: str, user: str) -> str:
    """Return the page to go to: users who changed themselves may not see the tenant any more."""
    return "/tenants" if user == caller.name else f"/tenants/{tenant}#members"


def _new_member(caller: Caller, tenant: str) -> FormPage:
    return FormPage(
        template="member_form.html",
        address=f"/tenants/{tenant}/-members/-new",
        heading="Add member",
        trail=_trail(tenant),
        verb="Add member",
        act=_giving(caller, tenant, None),
        usual=lambda _: {"membership": Membership.MEMBER.value},
        choices={"is_new": True, "memberships": [each.value for each in Membership], "longest": LONGEST_NAME},
        empty="Enter a user's name to see the preview.",
    )


@router.get(MEMBERS + "/-new")
def new_member(tenant: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that adds a member to a tenant."""
    caller = enter(viewer, Action.MANAGE_MEMBERS, tenant)
    with services.reading() as connection:
        find_tenant(connection, tenant)
    return show_form(request, services, caller, _new_member(caller, tenant))


@router.post(MEMBERS + "/-new")
def add_member(tenant: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the new member, or add it."""
    caller = enter(viewer, Action.MANAGE_MEMBERS, tenant)
    return answer_form(request, services, caller, _new_member(caller, tenant), fields)


def _member_form(caller: Caller, tenant: str, before: MemberRow) -> FormPage:
    def usual(connection: Connection) -> Fields:
        present = _find(connection, tenant, before.user).membership
        return {"version": present, "membership": present}

    return FormPage(
        template="member_form.html",
        address=f"/tenants/{tenant}/-members/{before.user}/-change",
        heading=f"Change membership of {before.user} in {tenant}",
        trail=_trail(tenant),
        verb="Change membership",
        act=_giving(caller, tenant, before),
        usual=usual,
        choices={"is_new": False, "memberships": [each.value for each in Membership]},
    )


def _existing(services: Shared, tenant: str, user: str) -> MemberRow:
    with services.reading() as connection:
        return _find(connection, tenant, user)


@router.get(MEMBER + "/-change")
def member_form(tenant: str, user: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that changes a membership."""
    caller = enter(viewer, Action.MANAGE_MEMBERS, tenant)
    return show_form(request, services, caller, _member_form(caller, tenant, _existing(services, tenant, user)))


@router.post(MEMBER + "/-change")
def change_member(
    tenant: str, user: str, request: Request, services: Shared, viewer: Viewer, fields: Form
) -> Response:
    """Preview the change of a membership, or change it."""
    caller = enter(viewer, Action.MANAGE_MEMBERS, tenant)
    page = _member_form(caller, tenant, _existing(services, tenant, user))
    return answer_form(request, services, caller, page, fields)


# --- remove


def _remove_form(caller: Caller, tenant: str, before: MemberRow) -> FormPage:
    user = before.user

    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        return belonging_no_more(connection, caller, tenant, user, before.membership)

    return FormPage(
        template="hint_form.html",
        asks_nothing=True,
        address=f"/tenants/{tenant}/-members/{user}/-remove",
        heading=f"Remove {user} from {tenant}",
        trail=_trail(tenant),
        verb="Remove member",
        act=Command(
            lambda given: changes.end_membership(tenant, user, _unchanged(given)),
            effect,
            lambda _: _after(caller, tenant, user),
        ),
        usual=lambda connection: {"version": _find(connection, tenant, user).membership},
        choices={"hint": f"{user} is {before.membership} of {tenant}. What the user declared there stays."},
    )


@router.get(MEMBER + "/-remove")
def remove_form(tenant: str, user: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that removes a member."""
    caller = enter(viewer, Action.MANAGE_MEMBERS, tenant)
    return show_form(request, services, caller, _remove_form(caller, tenant, _existing(services, tenant, user)))


@router.post(MEMBER + "/-remove")
def remove_member(
    tenant: str, user: str, request: Request, services: Shared, viewer: Viewer, fields: Form
) -> Response:
    """Preview the removal of a member, or remove it."""
    caller = enter(viewer, Action.MANAGE_MEMBERS, tenant)
    page = _remove_form(caller, tenant, _existing(services, tenant, user))
    return answer_form(request, services, caller, page, fields)
