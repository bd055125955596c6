"""Names of the console's cookies: with the prefix `__Host-` wherever there is TLS.

A browser takes a cookie of that name only from this very host and over TLS. Without it a site beside this one
(`other.example.org` beside `treeline.example.org`) could give our visitors a cookie of its own for both.
"""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

from backend.url_schemes import scheme_of

PREFIX = "__Host-"
# The parser strips these from names, browsers do not: `\x85__Host-…`, which a site beside this one may set, would
# otherwise be read as a cookie of this host.
_NO_BLANKS = {ord(character): "_" for character in "\v\f\x1c\x1d\x1e\x1f\x85\xa0"}


def is_over_tls(scheme: str, url: str | None) -> bool:
    """Return whether cookies may be kept to TLS.

    Either the request came over it (`scheme`), or everybody comes over it (`url`, the console's, is https),
    to a proxy that does not say so.
    """
    return scheme == "https" or scheme_of(url or "") == "https"


def cookie_of(headers: Headers, name: str, *, secure: bool) -> str:
    """Return what a browser sent as this cookie, empty if nothing.

    `secure`: as for `set_cookie`. A cookie by the other name does not count: over TLS it could be another site's.
    """
    sent = cookie_parser(headers.get("cookie", "").translate(_NO_BLANKS))
    return sent.get(_full(name, secure=secure), "")


def set_cookie(answer: Response, name: str, value: str, *, secure: bool, **more: Any) -> None:
    """Have the browser keep a cookie of this host that no script can read; `secure`: over TLS only."""
    answer.set_cookie(_full(name, secure=secure), value, path="/", httponly=True, secure=secure, **more)


def delete_cookie(answer: Response, name: str, *, secure: bool) -> None:
    """Have the browser forget a cookie."""
    answer.delete_cookie(_full(name, secure=secure), path="/", httponly=True, secure=secure)


def _full(name: str, *, secure: bool) -> str:
    return PREFIX + name if secure else name
