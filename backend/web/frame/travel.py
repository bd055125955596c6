"""Links to a page as of another position of the event log, and from there to other pages of that position."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from fastapi import Request
from fastapi.routing import APIRoute

_AT = "at"
_SAYS_AT = re.compile(r"[?&;]at=")
_NO_PAGES = ("/api/", "/static/", "/registries/")
_LINK = re.compile(r'(<a\s(?:[^>]*?\s)?href=")(/[^"?#]*)(\?[^"#]*)?(#[^"]*)?("[^>]*>)')
"""Matches a link to one of our pages. Text from users is escaped, and has no quotation marks."""


@dataclass(frozen=True)
class Travel:
    """Address of a page, and whether it can be shown as of a position."""

    path: str
    kept: tuple[tuple[str, str], ...]
    """Other parameters of its address."""
    asked: str
    """Requested position, in digits; empty: now."""
    can: bool
    """True if the page shows configuration, which the log has for every position."""

    def address(self, position: int | None) -> str:
        """Return the address of the same page as of a position, or (None) now."""
        query = urlencode([*self.kept, *([] if position is None else [(_AT, position)])])
        return f"{self.path}?{query}" if query else self.path

    @property
    def of_now(self) -> Travel:
        """Return the current version of the same page."""
        return replace(self, asked="")

    def kept_by_links(self, page: str) -> str:
        """Return the page's text with links that lead to the same position: viewers of the past stay there.

        Links with a position of their own, or with `data-now`, stay unchanged. (This is done here and not in each
        template: one that forgot it would silently lead from the past to now.)
        """
        return _LINK.sub(self._with_position, page) if self.asked else page

    def _with_position(self, link: re.Match[str]) -> str:
        begin, path, query, fragment, end = link.groups(default="")
        if "data-now" in begin + end or _SAYS_AT.search(query) or path.startswith(_NO_PAGES):
            return link.group()
        return f"{begin}{path}{query}{'&amp;' if query else '?'}{_AT}={self.asked}{fragment}{end}"


def travel(request: Request) -> Travel:
    """Return the travel of the requested page."""
    route = request.scope.get("route")
    can = isinstance(route, APIRoute) and any(each.name == _AT for each in route.dependant.query_params)
    asked = request.query_params.get(_AT, "").strip()
    return Travel(
        path=request.url.path,
        kept=tuple((name, value) for name, value in request.query_params.multi_items() if name != _AT),
        asked=asked if asked.isascii() and asked.isdigit() and request.method == "GET" else "",
        can=can and request.method == "GET",
    )
