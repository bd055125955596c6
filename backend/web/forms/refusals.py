"""Refusals for browsers: a page with a next step where a program would get a problem document.

A form of another session changes nothing; its input is sent back for another look.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from backend.domain.access.access import Caller
from backend.domain.base.errors import DomainError
from backend.web.forms.form_page import EDIT
from backend.web.frame import templates
from backend.web.frame.forms import Fields, FormOfAnotherSession, form_key
from backend.web.frame.login_page import LOGIN, login_page
from backend.web.frame.pages import message_page
from backend.web.frame.services import frame
from backend.web.frame.sessions import next_page

_OF_PROGRAMS = ("/api/", "/static/", "/registries/")
_SECRET = ("password", "secret", "token")
_OLD_LOGIN = "This page was older than your browser's cookie. Try again here."

Handler = Callable[[Request, Exception], Awaitable[Response]]


def show_refusals(app: FastAPI) -> None:
    """Show browsers every refusal of the application as a page; programs get it unchanged."""
    for kind in (DomainError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _for_all(app.exception_handlers[kind]))  # type: ignore[arg-type]


def _for_all(handle: Handler) -> Handler:
    async def answered(request: Request, error: Exception) -> Response:
        if not _is_for_a_person(request):
            return await handle(request, error)
        if isinstance(error, FormOfAnotherSession):
            return _form_again(request, error.fields)
        return _page_of(request, await handle(request, error))

    return answered


def _is_for_a_person(request: Request) -> bool:
    """Return whether a browser wants to show a page, as opposed to a script of ours that loads a part of one."""
    headers = request.headers
    by_script = "hx-request" in headers or headers.get("sec-fetch-mode", "navigate") != "navigate"
    asks = "text/html" in headers.get("accept", "") and not by_script
    return asks and not request.url.path.startswith(_OF_PROGRAMS)


def _page_of(request: Request, answer: Response) -> Response:
    told = json.loads(bytes(answer.body))
    sentence = (told.get("detail") or told["title"]).rstrip(".")
    viewer: Caller | None = request.state.caller
    if viewer is None:
        page = login_page(request, answer.status_code, f"{told['title']}: {sentence}.")
    else:
        message = f"{sentence[:1].upper()}{sentence[1:]}."
        page = message_page(request, viewer, told["title"], message, answer.status_code)
    for name in ("allow", "retry-after"):
        if name in answer.headers:
            page.headers[name] = answer.headers[name]
    return page


def _form_again(request: Request, fields: Fields) -> Response:
    if request.url.path == LOGIN:
        return login_page(request, 403, _OLD_LOGIN, place=next_page(fields.get("next", "")))
    viewer: Caller | None = request.state.caller
    around: Mapping[str, object] = {} if viewer is None else frame(request, viewer)
    typed = {name: value for name, value in fields.items() if not any(word in name for word in _SECRET)}
    shown = {
        "title": "This form belongs to another session",
        "address": request.url.path,
        "is_known": viewer is not None,
        "key": form_key(request),
        # Only forms that are filled in step by step can be opened with the user's input.
        "typed": {**typed, "step": EDIT} if "step" in typed else {},
    }
    return templates.page("form_again.html", {**around, **shown}, 403)
