"""Views of tables for templates: rows, headings that sort, pages, columns to choose, and their addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from backend.web.tables.natural_order import Row
from backend.web.tables.table_query import TableQuery, address
from backend.web.words.figures import counted, full


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A column, as the heading and the menu of columns show it."""

    key: str
    label: str
    number: bool
    time: bool
    can_sort: bool
    usual: str
    """Order that a first click on its heading gives."""
    turns: bool
    shown: bool


@dataclass(frozen=True, kw_only=True)
class TableView(Generic[Row]):
    """One page of a table's rows. `all` counts the rows without the filter, `matching` those that it leaves."""

    name: str
    things: str
    within: str | None
    rows: Sequence[Row]
    first: int
    matching: int
    all: int
    sort: str
    filter: str
    page: int
    size: int
    columns: tuple[Choice, ...]
    ignored: tuple[str, ...]
    query: TableQuery
    parameters: Mapping[str, str]
    defaults: Mapping[str, str]

    @property
    def heads(self) -> list[Choice]:
        """Return the shown columns."""
        return [each for each in self.columns if each.shown]

    @property
    def chosen(self) -> str:
        """Return the shown columns as in an address; "" for the usual ones."""
        return self._own({})[self.parameters["columns"]]

    def shows(self, key: str) -> bool:
        """Return whether a column is shown."""
        return any(each.shown and each.key == key for each in self.columns)

    def order_of(self, column: Choice) -> str | None:
        """Return the column's `aria-sort`; None if the rows are not sorted by it."""
        if self.sort.removeprefix("-") != column.key:
            return None
        return "descending" if self.sort.startswith("-") else "ascending"

    def sorting(self, column: Choice) -> str:
        """Return the address that sorts by a column, turned over if its rows are in the usual order already."""
        turned = column.key if column.usual.startswith("-") else f"-{column.key}"
        is_turned = column.turns and self.sort == column.usual
        return self.address(sort=turned if is_turned else column.usual, page="")

    @property
    def pages(self) -> int:
        """Return the number of pages."""
        return max(1, -(-self.matching // self.size))

    @property
    def nearby(self) -> list[int]:
        """Return the pages that are linked by number; 0 stands for left out ones."""
        near = {1, self.page - 1, self.page, self.page + 1, self.pages} & set(range(1, self.pages + 1))
        found: list[int] = []
        for number in sorted(near):
            if found and number - found[-1] > 1:
                found.append(0)
            found.append(number)
        return found

    def at_page(self, number: int) -> str:
        """Return the address of a page."""
        return self.address(page=str(number))

    def of_size(self, rows: int) -> str:
        """Return the address of the first page with this many rows."""
        return self.address(rows=str(rows), page="")

    @property
    def unfiltered(self) -> str:
        """Return the address without the filter."""
        return self.address(filter="", page="")

    @property
    def usual_columns(self) -> str:
        """Return the address with the usual columns."""
        return self.address(columns="")

    @property
    def counts(self) -> str:
        """Return which rows are shown: `Rows 1–50 of 212`."""
        if not self.matching:
            return f"0 of {counted(self.all, 'row')}"
        last = self.first + len(self.rows)
        said = f"Rows {full(self.first + 1)}–{full(last)} of {full(self.matching)}"
        return said if self.matching == self.all else f"{said} that match, {full(self.all)} in all"

    def address(self, **changed: str) -> str:
        """Return the page's address with some of this table's parameters changed, without defaults."""
        return address(self.query.path, self._others, self._own(changed))

    @property
    def live(self) -> str:
        """Return the parameters of the page's address, with `?`, for the address of a block that is refreshed."""
        return self.address().removeprefix(self.query.path)

    def kept(self, *changing: str) -> list[tuple[str, str]]:
        """Return the parameters that a form keeps which changes some of this table's."""
        own = self._own({"page": "", **dict.fromkeys(changing, "")})
        return [*self._others, *((name, value) for name, value in own.items() if value)]

    @property
    def _others(self) -> list[tuple[str, str]]:
        return self.query.without(set(self.parameters.values()))

    def _own(self, changed: Mapping[str, str]) -> dict[str, str]:
        now = {
            "sort": self.sort,
            "filter": self.filter,
            "rows": str(self.size),
            "columns": ",".join(each.key for each in self.heads),
            "page": str(self.page),
        }
        wanted = {**now, **changed}
        return {
            self.parameters[name]: "" if value == self.defaults.get(name, "") else value
            for name, value in wanted.items()
        }
