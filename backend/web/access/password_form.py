"""The forms that set a password of a user, or one's own: what it does is said before it is typed, and no page has
it after that."""

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
from backend.web.forms.asked import Asked
from backend.web.forms.effect import Ask, Effect
from backend.web.forms.form_page import FormPage
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, session_of
from backend.web.words.figures import counted

NEW, PRESENT = "password", "present"
_NOT_PRESENT = "That is not your present password."
_TOKENS = "Tokens go on opening what they open: revoke those that somebody else may have."


@dataclass(frozen=True)
class SettingPassword:
    """The act of both. `done` is shown then; `own`: the present one is asked for, too."""

    user: str
    own: bool
    done: Callable[[Asked], Response]

    def try_out(self, asked: Asked, given: Fields) -> Effect:
        """By a dry run without any password."""
        with asked.services.reading() as connection:
            here = session_of(asked.request)
            row, ends = find_user(connection, self.user), len(list_sessions(connection, self.user, here))
        asked.try_out(changes.no_password_yet(self.user), lambda connection, outcome: None)
        new = Ask(
            "New password", NEW, "new-password", LONGEST_PASSWORD, f"{SHORTEST_PASSWORD} characters or more."
        )
        if self.own:
            return Effect(
                sentence=f"You log in by the new password from then on. You are logged out everywhere: "
                f"{counted(ends, 'session')}, this one too.",
                same=None,
                notes=(_TOKENS,),
                asks=(Ask("Present password", PRESENT, "current-password", LONGEST_PASSWORD), new),
            )
        before = "instead of the one that it has" if row.has_password else "where it had none"
        out = f" It is logged out: {counted(ends, 'session')}." if ends else ""
        # Too short to be set by who copies it as it is.
        call = curl("PUT", f"{API}/{self.user}/password", {"password": "..."})
        return Effect(
            sentence=f"{self.user} logs in by the password that you type here, {before}.{out}",
            same=SameChange(None, f"treeline user password {self.user}", call),
            notes=(_TOKENS,),
            asks=(new,),
        )

    def carry_out(self, asked: Asked, given: Fields, once: str) -> Response:
        """Set it; of a form that is sent twice, the first one counts."""
        if self.own:
            self._check_present(asked, given.get(PRESENT, ""))
        # What is kept of a form must not be a quick hash of what somebody can guess.
        asked.carry_out_once(changes.set_password(self.user, given.get(NEW, "")), once, {})
        return self.done(asked)

    def _check_present(self, asked: Asked, typed: str) -> None:
        with asked.services.engine.begin() as connection:
            hashed = secrets.password_hash(connection, self.user)
        if not secrets.is_password(typed, hashed):
            raise NotAllowed(_NOT_PRESENT, (FieldError(f"/{PRESENT}", _NOT_PRESENT),))


def password_form(
    user: str, place: str, trail: list[tuple[str, str]], done: Callable[[Asked], Response], *, own: bool
) -> FormPage:
    """Sets a password, from the page at `place`: fields `password`, and `present` for one's own."""
    return FormPage(
        template="hint_form.html",
        asks_nothing=True,
        address=f"{place}/password",
        heading="Set another password" if own else f"Set a password of {user}",
        trail=trail,
        verb="Set the password",
        act=SettingPassword(user, own, done),
        choices={"hint": "What you log in by." if own else f"What {user} logs in by."},
    )
