"""Forms that issue a token, shown once on the next page, and revoke it; on the Account page and on a user's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes import users as changes
from backend.changes.users import UserChange
from backend.dispatch import Outcome
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.queries.access import secrets
from backend.queries.access.users import UserRow, find_user
from backend.web.access.user_forms import API
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage
from backend.web.forms.same_change import SameChange, curl
from backend.web.forms.shown_once import ShownOnce
from backend.web.frame.forms import Fields
from backend.web.words.figures import counted

_UNTIL_REVOKED = "until it is revoked"


def issuing(
    user: str, place: str, trail: list[tuple[str, str]], page: Callable[[ChangeRequest, Fields, str], Response]
) -> FormPage:
    """Build the form that issues a token. `page` shows it; `place` is the address of the page with the form.

    Fields: `token`, its name, and `days`.
    """

    def change(given: Fields, secret: str) -> UserChange:
        days, now = _days(given), datetime.now(UTC)
        end = None if days is None else now + timedelta(days=days)
        return changes.issue_token(user, given.get("token", ""), secret, now, end)

    def effect(connection: Connection, _: Outcome, given: Fields) -> Effect:
        token, days = given["token"], _days(given)
        row = find_user(connection, user)
        options = f" --user {user}" + (f" --days {days}" if days else "")
        body = {"name": token} | ({"expires_in_days": days} if days else {})
        lasts = _UNTIL_REVOKED if days is None else f"for {counted(days, 'day')}, or {_UNTIL_REVOKED}"
        return Effect(
            sentence=f"The token {token} will be issued and shown once, on the next page. It is valid {lasts}.",
            same=SameChange(
                None, f"treeline token issue {token}{options}", curl("POST", f"{API}/{user}/tokens", body)
            ),
            fields=fields_of({"Name": token, "Valid": lasts, "Permissions": f"those of {user}: {_may_do(row)}"}),
            notes=("Requests with the token act as its user, with the user's permissions at the time.",),
        )

    return FormPage(
        template="user_form.html",
        address=f"{place}/tokens",
        heading=f"Issue token to {user}",
        trail=trail,
        verb="Issue token",
        act=ShownOnce(new=secrets.new_token, change=change, effect=effect, page=page, place=lambda _: place),
        choices={"of": "token"},
        empty="Enter a name to see the preview.",
    )


def _may_do(row: UserRow) -> str:
    """Describe a user's role and memberships."""
    within = ", ".join(f"{membership} of {tenant}" for tenant, membership in sorted(row.tenants.items()))
    return f"role {row.role}; {within or 'no tenant'}"


def _days(given: Fields) -> int | None:
    typed = given.get("days", "").strip()
    if not typed:
        return None
    if not (typed.isascii() and typed.isdigit() and len(typed) < 6):
        detail = "days must be a whole number; leave the field empty for a token that is valid until it is revoked"
        raise ValueInvalid(detail, (FieldError("/days", detail),))
    return int(typed)


def revocation(user: str, token: str, place: str, trail: list[tuple[str, str]]) -> FormPage:
    """Build the form that revokes a token, on the page at `place`."""

    def effect(_: Connection, __: Outcome, ___: Fields) -> Effect:
        return Effect(
            sentence=f"The token {token} will no longer be valid; sessions that it opened end.",
            same=SameChange(
                None,
                f"treeline token revoke {token} --user {user}",
                curl("DELETE", f"{API}/{user}/tokens/{token}"),
            ),
        )

    return FormPage(
        template="hint_form.html",
        asks_nothing=True,
        address=f"{place}/tokens/{token}/revoke",
        heading=f"Revoke {token}",
        trail=trail,
        verb=f"Revoke {token}",
        act=Command(lambda _: changes.revoke_token(user, token), effect, lambda _: place),
        choices={"hint": f"A token of {user}."},
    )
