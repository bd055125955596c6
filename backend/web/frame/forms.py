"""Forms of pages: a submission is accepted only from a page of ours (CSRF protection).

A form carries a key derived from the browser's session cookie, which no other site can read; on the login page,
where there is no session yet, from a cookie of that page alone. In addition browsers send which site a form came
from.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.responses import Response

from backend.cookies import cookie_of, is_over_tls, set_cookie
from backend.queries.access.login import SESSION_COOKIE
from backend.settings import Settings

LOGIN_COOKIE = "treeline_login"
KEY_FIELD = "key"
MOST_FIELDS = 100
# At least the gate's limit for forms (`api.gate`), where few paths have so large a one.
_MOST_FIELD_BYTES = 3 << 20
_OURS = ("same-origin", "none")

Fields = dict[str, str]


class FormOfAnotherSession(HTTPException):
    """The form's key does not match the browser's session; `fields` holds what the user typed."""

    def __init__(self, fields: Fields) -> None:
        super().__init__(403, "this form belongs to another session: load its page again")
        self.fields = fields


def session_of(request: Request) -> str:
    """Return the browser's session; empty without one."""
    return _cookie(request, SESSION_COOKIE)


def _cookie(request: Request, name: str) -> str:
    return cookie_of(request.headers, name, secure=is_secure(request))


def form_key(request: Request) -> str:
    """Return the key for forms of this browser's session; empty without a session."""
    return _key_of(session_of(request))


def login_key(request: Request, answer: Callable[[str], Response]) -> Response:
    """Return the login page, made by `answer` from its form's key; sets the cookie that the key belongs to.

    An existing cookie stays: the page may be open in a second tab.
    """
    cookie = _cookie(request, LOGIN_COOKIE) or secrets.token_urlsafe(32)
    page = answer(_key_of(cookie))
    set_cookie(page, LOGIN_COOKIE, cookie, samesite="strict", secure=is_secure(request))
    return page


def is_secure(request: Request) -> bool:
    """Return whether cookies may be restricted to TLS."""
    config: Settings = request.app.state.services.config
    return is_over_tls(request.url.scheme, config.url)


def _taken_by(cookie: str) -> Callable[[Request], object]:
    async def fields(request: Request) -> Fields:
        """Return the form's fields; refuses with 403 if no page of ours sent it."""
        if request.headers.get("sec-fetch-site", "none") not in _OURS:
            raise HTTPException(403, "this form was sent by another site")
        async with request.form(max_files=0, max_fields=MOST_FIELDS, max_part_size=_MOST_FIELD_BYTES) as form:
            given = {name: value for name, value in form.items() if isinstance(value, str)}
        key = _key_of(_cookie(request, cookie))
        if not key or not hmac.compare_digest(given.pop(KEY_FIELD, "").encode(), key.encode()):
            raise FormOfAnotherSession(given)
        return given

    return fields


# Accept the fields of a logged-in page's form, and of the login page's.
Form = Annotated[Fields, Depends(_taken_by(SESSION_COOKIE))]
LoginForm = Annotated[Fields, Depends(_taken_by(LOGIN_COOKIE))]


def _key_of(cookie: str) -> str:
    return hmac.new(cookie.encode(), b"form", hashlib.sha256).hexdigest() if cookie else ""
