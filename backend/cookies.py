"""Names of the console's cookies: with the prefix `__Host-` wherever there is TLS.

A browser accepts a cookie with that prefix only from this very host and over TLS. Without the prefix, a
neighbouring site (`other.example.org` beside `treeline.example.org`) could set a cookie of its own for both hosts.
"""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

from backend.url_schemes import scheme_of

PREFIX = "__Host-"
# The parser strips these characters from names, browsers do not: a neighbouring site could set `\x85__Host-…`,
# which would otherwise be read as a cookie of this host.
_NO_BLANKS = {ord(character): "_" for character in "\v\f\x1c\x1d\x1e\x1f\x85\xa0"}


def is_over_tls(scheme: str, url: str | None) -> bool:
    """Return whether cookies may be restricted to TLS.

    That is so if the request came over TLS (`scheme`), or if the console's public URL (`url`) is https: then a
    proxy terminates TLS and does not tell us.
    """
    return scheme == "https" or scheme_of(url or "") == "https"


def cookie_of(headers: Headers, name: str, *, secure: bool) -> str:
    """Return the value that a browser sent for this cookie; empty if it sent none.

    `secure`: as for `set_cookie`. A cookie under the other name does not count: over TLS it could come from
    another site.
    """
    sent = cookie_parser(headers.get("cookie", "").translate(_NO_BLANKS))
    return sent.get(_full(name, secure=secure), "")


def set_cookie(answer: Response, name: str, value: str, *, secure: bool, **more: Any) -> None:
    """Set a cookie for this host that no script can read; `secure` restricts it to TLS."""
    answer.set_cookie(_full(name, secure=secure), value, path="/", httponly=True, secure=secure, **more)


def delete_cookie(answer: Response, name: str, *, secure: bool) -> None:
    """Tell the browser to delete a cookie."""
    answer.delete_cookie(_full(name, secure=secure), path="/", httponly=True, secure=secure)


def _full(name: str, *, secure: bool) -> str:
    return PREFIX + name if secure else name
