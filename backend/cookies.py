"""Names of the console's cookies: with the prefix `__Host-` wherever there is TLS.

A browser takes a cookie of that name only from this very host and over TLS. Without it a site beside this one
(`other.example.org` beside `treeline.example.org`) could give our visitors a cookie of its own for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from backend.url_schemes import scheme_of

PREFIX = "__Host-"


def cookie_of(cookies: Mapping[str, str], name: str, url: str | None) -> str:
    """Return what a browser sent as this cookie, empty if nothing.

    Where everybody comes over TLS (`url`, the console's address, is https) a name without the prefix counts for
    nothing.
    """
    found = cookies.get(PREFIX + name, "")
    return found if found or scheme_of(url or "") == "https" else cookies.get(name, "")


def set_cookie(answer: Response, name: str, value: str, *, secure: bool, **more: Any) -> None:
    """Have the browser keep a cookie of this host that no script can read; `secure`: over TLS only."""
    full = PREFIX + name if secure else name
    answer.set_cookie(full, value, path="/", httponly=True, secure=secure, **more)


def delete_cookie(answer: Response, name: str) -> None:
    """Have the browser forget a cookie, by either name."""
    answer.delete_cookie(name)
    answer.delete_cookie(PREFIX + name, secure=True, httponly=True)
