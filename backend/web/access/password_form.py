"""Forms that set a password, a user's or the own: the effect is shown before the password is typed.

No page contains the password after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi.responses import Response

from backend.changes import users as changes
from backend.domain.access.passwords import LONGEST_PASSWORD, SHORTEST_PASSWORD
from backend.domain.base.errors import FieldError, NotAllowed
from backend.queries.access import secrets
from backend.queries.access.login import list_sessions
from backend.queries.access.users import find_user
from backend.web.access.user_forms import API
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Ask, Effect
from backend.web.forms.form_page import FormPage
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, session_of
from backend.web.words.figures import counted

NEW, PRESENT = "password", "present"
_NOT_PRESENT = "This is not your current password."
_TOKENS = "Tokens stay valid: revoke those that somebody else may have."


@dataclass(frozen=True)
class SettingPassword:
    """Act of both forms. `done` is shown afterwards; `own`: the present password is requested, too."""

    user: str
    own: bool
    done: Callable[[ChangeRequest], Response]

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview the change by a dry run without any password."""
        with change_request.services.reading() as connection:
            here = session_of(change_request.request)
            row, ends = find_user(connection, self.user), len(list_sessions(connection, self.user, here))
        change_request.dry_run(changes.password_dry_run(self.user), lambda connection, outcome: None)
        new = Ask(
            "New password", NEW, "new-password", LONGEST_PASSWORD, f"{SHORTEST_PASSWORD} characters or more."
        )
        if self.own:
            return Effect(
                sentence=f"You log in with the new password from then on. All your sessions end: "
                f"{counted(ends, 'session')}, including this one.",
                same=None,
                notes=(_TOKENS,),
                asks=(Ask("Current password", PRESENT, "current-password", LONGEST_PASSWORD), new),
            )
        before = "which replaces the present one" if row.has_password else "the first one"
        out = f" The user is logged out: {counted(ends, 'session')}." if ends else ""
        # An example too short to be accepted, should somebody copy it as it is.
        call = curl("PUT", f"{API}/{self.user}/password", {"password": "..."})
        return Effect(
            sentence=f"{self.user} logs in with the password that you type here, {before}.{out}",
            same=SameChange(None, f"treeline user password {self.user}", call),
            notes=(_TOKENS,),
            asks=(new,),
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Set the password; if a form is sent twice, the first one counts."""
        if self.own:
            self._check_present(change_request, given.get(PRESENT, ""))
        # The stored key of a form must not contain a quick hash of a guessable text.
        change_request.carry_out_once(changes.set_password(self.user, given.get(NEW, "")), once, {})
        return self.done(change_request)

    def _check_present(self, change_request: ChangeRequest, typed: str) -> None:
        with change_request.services.engine.begin() as connection:
            hashed = secrets.password_hash(connection, self.user)
        if not secrets.is_password(typed, hashed):
            raise NotAllowed(_NOT_PRESENT, (FieldError(f"/{PRESENT}", _NOT_PRESENT),))


def password_form(
    user: str, place: str, trail: list[tuple[str, str]], done: Callable[[ChangeRequest], Response], *, own: bool
) -> FormPage:
    """Build the form that sets a password: fields `password`, and `present` for the own; `place` is its page."""
    return FormPage(
        template="hint_form.html",
        asks_nothing=True,
        address=f"{place}/password",
        heading="Change password" if own else f"Set password of {user}",
        trail=trail,
        verb="Set password",
        act=SettingPassword(user, own, done),
        choices={
            "hint": "The password that you log in with." if own else f"The password that {user} logs in with."
        },
    )
