"""The way to a page as of another position of the event log, and on from there to other pages of then."""

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
"""A link to a page of ours. What people typed is escaped, and has no quotation marks."""


@dataclass(frozen=True)
class Travel:
    """Where a page is, and whether it can be shown as it was."""

    path: str
    kept: tuple[tuple[str, str], ...]
    """What else its address says."""
    asked: str
    """The position that is asked for, in digits; empty: now."""
    can: bool
    """Whether the page is made of what is configured, which the log has for every position."""

    def address(self, position: int | None) -> str:
        """Of the same page, as of a position or (None) as it is now."""
        query = urlencode([*self.kept, *([] if position is None else [(_AT, position)])])
        return f"{self.path}?{query}" if query else self.path

    @property
    def of_now(self) -> Travel:
        """The same page, and nothing of then."""
        return replace(self, asked="")

    def kept_by_links(self, page: str) -> str:
        """The page's text, its links leading on as of the same position: who looks at the past stays there.

        Links that say a position, or `data-now`, are as they were. (Here and not in each template: one that forgot
        it would lead from then to now without a word.)
        """
        return _LINK.sub(self._with_position, page) if self.asked else page

    def _with_position(self, link: re.Match[str]) -> str:
        begin, path, query, fragment, end = link.groups(default="")
        if "data-now" in begin + end or _SAYS_AT.search(query) or path.startswith(_NO_PAGES):
            return link.group()
        return f"{begin}{path}{query}{'&amp;' if query else '?'}{_AT}={self.asked}{fragment}{end}"


def travel(request: Request) -> Travel:
    """Of the page that is asked for."""
    route = request.scope.get("route")
    can = isinstance(route, APIRoute) and any(each.name == _AT for each in route.dependant.query_params)
    asked = request.query_params.get(_AT, "").strip()
    return Travel(
        path=request.url.path,
        kept=tuple((name, value) for name, value in request.query_params.multi_items() if name != _AT),
        asked=asked if asked.isascii() and asked.isdigit() and request.method == "GET" else "",
        can=can and request.method == "GET",
    )
