"""Forms of pages: only what a page of ours was sent with is taken (CSRF).

A form carries a key made from the browser's session cookie, which no other site can read; on the login page, where
there is no session yet, from a cookie of that page alone. Browsers say of themselves, too, which site a form came
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
# No less than the gate lets a form have (`api.gate`), where few may have so much.
_MOST_FIELD_BYTES = 3 << 20
_OURS = ("same-origin", "none")

Fields = dict[str, str]


class FormOfAnotherSession(HTTPException):
    """A form whose key is not that of the browser's session; `fields`: what was typed."""

    def __init__(self, fields: Fields) -> None:
        super().__init__(403, "this form is of another session: load its page again")
        self.fields = fields


def session_of(request: Request) -> str:
    """The browser's session; empty without one."""
    return _cookie(request, SESSION_COOKIE)


def _cookie(request: Request, name: str) -> str:
    return cookie_of(request.headers, name, secure=is_secure(request))


def form_key(request: Request) -> str:
    """The key that forms of this browser's session carry; none without a session."""
    return _key_of(session_of(request))


def login_key(request: Request, answer: Callable[[str], Response]) -> Response:
    """The login page, made by `answer` from its form's key; sets the cookie that the key belongs to.

    A cookie that is there stays: the page may be open in a second tab.
    """
    cookie = _cookie(request, LOGIN_COOKIE) or secrets.token_urlsafe(32)
    page = answer(_key_of(cookie))
    set_cookie(page, LOGIN_COOKIE, cookie, samesite="strict", secure=is_secure(request))
    return page


def is_secure(request: Request) -> bool:
    """Return whether cookies may be kept to TLS."""
    config: Settings = request.app.state.services.config
    return is_over_tls(request.url.scheme, config.url)


def _taken_by(cookie: str) -> Callable[[Request], object]:
    async def fields(request: Request) -> Fields:
        """The form's fields; 403 if no page of ours sent it."""
        if request.headers.get("sec-fetch-site", "none") not in _OURS:
            raise HTTPException(403, "this form was sent by another site")
        async with request.form(max_files=0, max_fields=MOST_FIELDS, max_part_size=_MOST_FIELD_BYTES) as form:
            given = {name: value for name, value in form.items() if isinstance(value, str)}
        key = _key_of(_cookie(request, cookie))
        if not key or not hmac.compare_digest(given.pop(KEY_FIELD, "").encode(), key.encode()):
            raise FormOfAnotherSession(given)
        return given

    return fields


# The fields of a form of a logged-in page, and of the login page's.
Form = Annotated[Fields, Depends(_taken_by(SESSION_COOKIE))]
LoginForm = Annotated[Fields, Depends(_taken_by(LOGIN_COOKIE))]


def _key_of(cookie: str) -> str:
    return hmac.new(cookie.encode(), b"form", hashlib.sha256).hexdigest() if cookie else ""
