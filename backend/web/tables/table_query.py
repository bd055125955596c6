"""Parameters of a page's address that its tables read, and addresses with other ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends, Request

# More parameters than any page has; what a longer address has beyond them is not repeated in links.
_MOST_KEPT = 40
_LONGEST_KEPT = 1200


@dataclass(frozen=True)
class TableQuery:
    """Address of a page: its path and parameters, in their order."""

    path: str
    given: tuple[tuple[str, str], ...] = ()

    def of(self, path: str) -> TableQuery:
        """Return the same parameters of another path: a block that is refreshed links to its whole page."""
        return replace(self, path=path)

    def with_old_name(self, old: str, new: str) -> TableQuery:
        """Return the address with a parameter under its present name, for addresses that users have kept."""
        given = tuple((new if name == old else name, value) for name, value in self.given)
        return replace(self, given=given)

    def from_the_first(self, *names: str) -> TableQuery:
        """Return the address without the parameters that begin a page after some row."""
        return replace(self, given=tuple(pair for pair in self.given if pair[0] not in names))

    def values(self, name: str) -> list[str]:
        """Return every value of a parameter; several check boxes of a form share one name."""
        return [value for key, value in self.given if key == name]

    def value(self, name: str) -> str:
        """Return the last value of a parameter, "" without one."""
        return (self.values(name) or [""])[-1].strip()

    def without(self, names: Collection[str]) -> list[tuple[str, str]]:
        """Return the other parameters that have a value."""
        return self.only({key for key, _ in self.given if key not in names})

    def only(self, names: Collection[str]) -> list[tuple[str, str]]:
        """Return these parameters that have a value."""
        kept = [(key, value[:_LONGEST_KEPT]) for key, value in self.given if key in names and value]
        return kept[:_MOST_KEPT]


def table_query(request: Request) -> TableQuery:
    """Return the parameters of a request for a page or for a block of one."""
    return TableQuery(request.url.path, tuple(request.query_params.multi_items()))


TableParameters = Annotated[TableQuery, Depends(table_query)]
"""The address of the requested page, for its tables."""


def address(path: str, kept: Iterable[tuple[str, str]], own: Mapping[str, str]) -> str:
    """Return an address with these parameters, without empty ones."""
    query = urlencode([*kept, *((name, value) for name, value in own.items() if value)], safe=",")
    return f"{path}?{query}" if query else path
