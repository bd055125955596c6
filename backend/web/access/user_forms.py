"""Forms of the Users pages; each follows the steps of `form_page.py`, from the page that has it.

The forms of tokens and passwords, which users have on their Account page too: `token_form.py`, `password_form.py`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from backend.changes import users as changes
from backend.changes.users import UserChange
from backend.dispatch import Outcome
from backend.domain.access.access import Caller, Membership, Role
from backend.domain.names.names import LONGEST_NAME
from backend.queries.access.users import UserRow, find_user
from backend.web.access.member_forms import belonging, belonging_no_more
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, version_seen
from backend.web.forms.same_change import SameChange, curl, file_of
from backend.web.frame.forms import Fields

API = "/api/v1/users"
USERS = ("Users", "/users")
_NOTHING = "Nothing would change: these are the present settings."


def address_of(user: str) -> str:
    """Return the address of a user's page."""
    return f"/users/{user}"


def trail_of(user: str) -> list[tuple[str, str]]:
    """Return the pages above a form that is on a user's page."""
    return [USERS, (user, address_of(user))]


def _state(row: UserRow) -> dict[str, str]:
    return {"Role": row.role, "State": "disabled" if row.disabled else "enabled"}


def _page(user: str, heading: str, act: Any, **more: Any) -> FormPage:
    """Build a form on a user's page."""
    empty = "Change a field to see the preview."
    return FormPage(
        template="user_form.html",
        heading=heading,
        trail=trail_of(user),
        verb=heading,
        act=act,
        empty=empty,
        **more,
    )


def creation() -> FormPage:
    """Build the form that creates a user: fields `user` and `role`."""

    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        row = find_user(connection, given["user"])
        call = curl("POST", API, {"name": row.name, "role": row.role})
        return Effect(
            sentence=f"The user {row.name} will be created, and can log in once it has a password or a token.",
            same=file_of("users", row.name, {"role": row.role}, call),
            fields=fields_of({"Name": row.name, "Role": row.role}),
        )

    return FormPage(
        template="user_form.html",
        address="/users",
        heading="Create user",
        trail=[USERS],
        verb="Create user",
        act=Command(
            lambda given: changes.create_user(given.get("user", ""), given.get("role", ""), {}),
            effect,
            lambda given: address_of(given["user"]),
        ),
        empty="Enter a name to see the preview.",
        choices={"of": "creation", "roles": [(role, role) for role in Role], "longest": LONGEST_NAME},
    )


def change(caller: Caller, before: UserRow) -> FormPage:
    """Build the form that changes a user's role, or disables or enables it: fields `role` and `state`."""
    user = before.name

    def changed(given: Fields) -> UserChange:
        disabled = {"disable": True, "enable": False}.get(given.get("state", ""))
        return changes.change_user(user, role=given.get("role"), disabled=disabled, match=version_seen(given))

    def effect(connection: Connection, outcome: Outcome, _: Fields) -> Effect:
        after = find_user(connection, user)
        notes = []
        if after.disabled and not before.disabled:
            notes.append(f"{user} is logged out, and its tokens are not valid until the user is enabled again.")
        if user == caller.name:
            notes.append("This changes your own access: you may not be able to undo it.")
        body = {"role": after.role, "disabled": after.disabled}
        return Effect(
            sentence=f"{user} will have these settings, effective with the next request."
            if outcome.events
            else _NOTHING,
            same=file_of("users", user, body, curl("PATCH", f"{API}/{user}", body, version=before.version)),
            fields=fields_of(_state(after), _state(before)),
            notes=tuple(notes),
            nothing=not outcome.events,
        )

    return _page(
        user,
        f"Change {user}",
        Command(changed, effect, lambda _: address_of(user)),
        address=address_of(user),
        usual=lambda connection: {"version": str(find_user(connection, user).version), "role": before.role},
        choices={"of": "change", "roles": [(role, role) for role in Role]},
    )


def membership(caller: Caller, before: UserRow) -> FormPage:
    """Build the form that gives or ends a membership: fields `tenant` and `membership`, empty to end it."""
    user = before.name

    def changed(given: Fields) -> UserChange:
        tenant, wished = given.get("tenant", "").strip(), given.get("membership", "")
        return changes.give_membership(tenant, user, wished) if wished else changes.end_membership(tenant, user)

    def effect(connection: Connection, outcome: Outcome, given: Fields) -> Effect:
        tenant = given["tenant"].strip()
        had = before.tenants.get(tenant)
        if given.get("membership"):
            return belonging(connection, outcome, caller, tenant, user, had)
        return belonging_no_more(connection, caller, tenant, user, had)

    return _page(
        user,
        f"Tenants of {user}",
        Command(changed, effect, lambda _: address_of(user)),
        address=f"{address_of(user)}/tenants",
        choices={"of": "membership", "memberships": [(each, each) for each in Membership]},
    )


def identity(user: str, issuer: str, was: str | None) -> FormPage:
    """Build the form that links an identity of the provider to the user: fields `subject`, or `unlink`."""

    def changed(given: Fields) -> UserChange:
        if given.get("unlink"):
            return changes.unlink_identity(user)
        return changes.link_identity(user, issuer, given.get("subject", "").strip())

    def effect(_: Connection, outcome: Outcome, given: Fields) -> Effect:
        subject, path = given.get("subject", "").strip(), f"{API}/{user}/identity"
        unlinks = bool(given.get("unlink"))
        said = (
            f"Nobody logs in as {user} through {issuer}" if unlinks else f"{subject} of {issuer} logs in as {user}"
        )
        return Effect(
            sentence=f"{said} from then on; sessions opened that way before end." if outcome.events else _NOTHING,
            same=SameChange(
                None,
                f"treeline user unlink {user}" if unlinks else f"treeline user link {user} {subject}",
                curl("DELETE", path) if unlinks else curl("PUT", path, {"subject": subject}),
            ),
            fields=fields_of({"Subject": "–" if unlinks else subject}, {"Subject": was or "–"}),
            nothing=not outcome.events,
        )

    return _page(
        user,
        f"Login of {user} through the provider",
        Command(changed, effect, lambda _: address_of(user)),
        address=f"{address_of(user)}/identity",
        choices={"of": "identity"},
    )
