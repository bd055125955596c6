"""The form that ends one of the user's own sessions."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi.responses import RedirectResponse, Response

from backend.domain.base.errors import NotFound
from backend.queries.access import logins
from backend.queries.access.login import end_named_session, list_sessions
from backend.queries.access.logins import LoginKind
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import FormPage
from backend.web.frame.forms import Fields, session_of
from backend.web.frame.sessions import provenance
from backend.web.words.figures import instant

_GONE = "there is no such session; it may have ended"


@dataclass(frozen=True)
class EndingSession:
    """Act of the form. Sessions are no events, so there is no command for it."""

    session: str
    place: str

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview the end by looking at the session."""
        with change_request.services.reading() as connection:
            here = session_of(change_request.request)
            found = list_sessions(connection, change_request.viewer.name, here)
        row = next((row for row in found if row.name == self.session), None)
        if row is None:
            raise NotFound(_GONE)
        return Effect(
            sentence="You are logged out here." if row.here else "The session's browser is logged out.",
            same=None,
            fields=fields_of(
                {
                    "Since": f"{instant(row.opened_at)} UTC",
                    "Login method": row.means,
                    "Address": row.address,
                    "Program": row.agent or "–",
                }
            ),
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """End the session."""
        user = change_request.viewer.name
        with change_request.services.engine.begin() as connection:
            ended = end_named_session(connection, user, self.session) if self.session.isalnum() else None
            if ended is not None:
                logins.record(connection, LoginKind.ENDED, user, ended[1], provenance(change_request.request))
        if ended is None:
            raise NotFound(_GONE)
        return RedirectResponse(self.place, 303)


def ending(session: str, place: str, trail: list[tuple[str, str]]) -> FormPage:
    """Build the form that ends a session of the viewer, from the page at `place`."""
    return FormPage(
        template="hint_form.html",
        asks_nothing=True,
        address=f"{place}/sessions/{session}/end",
        heading="End session",
        trail=trail,
        verb="End session",
        act=EndingSession(session, place),
        choices={"hint": "If you do not recognise this session, change your password as well."},
    )
