"""A table of a page: its columns, and the part of its rows that an address asks for.

An address has `sort` (a column's key, with `-` for descending order), `filter`, `page`, `rows` (of a page) and
`columns`; the parameters of a page's second table begin with the table's prefix. Defaults are left out. What an
address has wrong is ignored, and the page says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic

from backend.web.tables.natural_order import Row, Value, is_unknown, ordered
from backend.web.tables.table_query import TableQuery
from backend.web.tables.table_view import Choice, TableView
from backend.web.words.figures import full, instant, plain, shortened

PARAMETERS = ("sort", "filter", "page", "rows", "columns")
ROWS = 50
ROW_CHOICES = (25, 50, 100, 250)
LONGEST_FILTER = 300
_LONGEST_QUOTED = 60


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column. Without `value` it is neither sorted by nor searched, such as a chart."""

    key: str
    label: str
    value: Callable[[Row], Value] | None = None
    text: Callable[[Row], str] | None = None
    """Text of its cells for the filter, where it is not that of `value`."""
    number: bool = False
    time: bool = False
    """True if its cells are times: the heading names their zone."""
    hidden: bool = False
    """True if it is shown only when chosen."""
    turns: bool = True
    """False if its rows can be sorted in the usual direction only."""

    @property
    def usual(self) -> str:
        """Return the order that a first click on its heading gives: the largest number or time first."""
        return f"-{self.key}" if self.number or self.time else self.key

    def searched(self, row: Row) -> str:
        """Return the cell's text as the filter searches it."""
        if self.text is not None:
            return self.text(row)
        return "" if self.value is None else _text(self.value(row))


def _text(value: Value) -> str:
    if is_unknown(value):
        return ""
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        raise TypeError("a column whose values are keys needs `text`")
    # Found with its separators as well as without.
    return f"{full(value)} {value}"


@dataclass(frozen=True)
class _Wish:
    """Wish of an address, as far as it can be granted."""

    sort: str
    filter: str
    rows: int
    columns: tuple[str, ...]
    ignored: tuple[str, ...]


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A table. The first column names its rows, and is always shown."""

    name: str
    """`id` of the table on its page."""
    things: str
    """Word for its rows, in the plural: `clusters`."""
    columns: tuple[Column[Row], ...]
    sort: str = ""
    """Usual order as in an address; "": the order in which the rows come."""
    prefix: str = ""
    """Beginning of its parameters' names, if another table of the page has the plain ones."""
    within: str | None = None
    """`id` of the element that is replaced in place after a click; None: the page is loaded anew."""
    searched: Callable[[Row], str] | None = None
    """`text_of` a row, if the row has it; for thousands of rows."""

    def without(self, *keys: str) -> Table[Row]:
        """Return the table without some columns, which do not exist at an earlier position or for this viewer."""
        return replace(self, columns=tuple(each for each in self.columns if each.key not in keys), searched=None)

    def text_of(self, row: Row) -> str:
        """Return the text of all cells, as the filter compares it."""
        return _cells(row, self.columns)

    def view(self, rows: Sequence[Row], query: TableQuery, *, is_sorted: bool = False) -> TableView[Row]:
        """Return the part of these rows that the address asks for. `is_sorted`: they are in its order already."""
        wish = self._wish(query)
        shown = [each for each in self.columns if each.key in wish.columns]
        matching = self._filtered(rows, shown, wish.filter)
        if not is_sorted:
            matching = self.sorted(matching, wish.sort)
        page, wrong = _page(query.value(self.parameter("page")), len(matching), wish.rows)
        wish = replace(wish, ignored=(*wish.ignored, *wrong))
        first = (page - 1) * wish.rows
        return self._view(matching[first : first + wish.rows], (first, len(matching)), len(rows), wish, query)

    def _filtered(self, rows: Sequence[Row], shown: Sequence[Column[Row]], text: str) -> list[Row]:
        """Return the rows of which the shown cells have every word of the text, in any order."""
        words = text.casefold().split()
        if not words:
            return list(rows)
        if self.searched is not None:
            rows = _with_words(rows, words, self.searched)
            if len(shown) == len(self.columns):
                return list(rows)
        return _with_words(rows, words, lambda row: _cells(row, shown))

    def sorted(self, rows: Sequence[Row], sort: str) -> list[Row]:
        """Return the rows in an order; rows of equal values are in the usual one."""
        found = list(rows)
        for each in dict.fromkeys((self.sort, sort)):
            found = self._by(found, each)
        return found

    def _by(self, rows: list[Row], sort: str) -> list[Row]:
        column = next((each for each in self.columns if each.key == sort.removeprefix("-")), None)
        if column is None or column.value is None:
            return rows
        return ordered(rows, column.value, descending=sort.startswith("-"))

    def _view(
        self, rows: list[Row], place: tuple[int, int], total: int, wish: _Wish, query: TableQuery
    ) -> TableView[Row]:
        """Return the view of these rows; `place`: the first one's, and the number of those that match."""
        return TableView(
            name=self.name,
            things=self.things,
            within=self.within,
            rows=rows,
            first=place[0],
            matching=place[1],
            all=total,
            sort=wish.sort,
            filter=wish.filter,
            page=1 + place[0] // wish.rows,
            size=wish.rows,
            columns=tuple(
                Choice(
                    key=each.key,
                    label=each.label,
                    number=each.number,
                    usual=each.usual,
                    time=each.time,
                    can_sort=each.value is not None,
                    turns=each.turns,
                    shown=each.key in wish.columns,
                )
                for each in self.columns
            ),
            ignored=wish.ignored,
            query=query,
            parameters={name: self.parameter(name) for name in PARAMETERS},
            defaults={"sort": self.sort, "rows": str(ROWS), "columns": ",".join(self._usual), "page": "1"},
        )

    def parameter(self, name: str) -> str:
        """Return the name of one of its parameters in an address."""
        return f"{self.prefix}-{name}" if self.prefix else name

    def listed(self, rows: Sequence[Row], query: TableQuery) -> TableView[Row]:
        """Return the view of rows that the database has sorted, filtered and paged."""
        wish = self._wish(query)
        return self._view(list(rows), (0, len(rows)), len(rows), wish, query)

    @property
    def _usual(self) -> tuple[str, ...]:
        return tuple(each.key for each in self.columns if not each.hidden)

    def _wish(self, query: TableQuery) -> _Wish:
        ignored: list[str] = []
        sort = self._sort(query.value(self.parameter("sort")), ignored)
        text = plain(query.value(self.parameter("filter")))
        if len(text) > LONGEST_FILTER:
            ignored.append(f"A filter has at most {LONGEST_FILTER} characters; the rest of it is ignored.")
        size = query.value(self.parameter("rows"))
        if size and size not in map(str, ROW_CHOICES):
            choices = f"{', '.join(map(str, ROW_CHOICES[:-1]))} or {ROW_CHOICES[-1]}"
            ignored.append(f"A page cannot have {_quoted(size)} rows; choose {choices}. {ROWS} are shown.")
            size = ""
        columns = self._columns(query.values(self.parameter("columns")), ignored)
        return _Wish(sort, text[:LONGEST_FILTER], int(size or ROWS), columns, tuple(ignored))

    def order(self, query: TableQuery) -> str:
        """Return the order that an address asks for, as far as there is such a one, for rows sorted by a query."""
        return self._wish(query).sort

    def _sort(self, asked: str, ignored: list[str]) -> str:
        column = next((each for each in self.columns if each.value and each.key == asked.removeprefix("-")), None)
        if not asked or column is not None:
            return self.sort if column is None else asked if column.turns else column.usual
        usual = next((each.label for each in self.columns if each.key == self.sort.removeprefix("-")), None)
        order = "in its usual order" if usual is None else f"sorted by {usual}"
        ignored.append(f"The table cannot be sorted by {_quoted(asked)}; it is {order}.")
        return self.sort

    def _columns(self, asked: Sequence[str], ignored: list[str]) -> tuple[str, ...]:
        wanted = [key for part in asked for key in part.split(",") if key]
        if not wanted:
            return self._usual
        known = [each.key for each in self.columns]
        for key in dict.fromkeys(wanted):
            if key not in known:
                ignored.append(f"There is no column {_quoted(key)} here; it is left out.")
        return tuple(key for key in known if key in wanted or key == known[0])


def _quoted(text: str) -> str:
    return f"“{shortened(plain(text), _LONGEST_QUOTED)}”"


def _cells(row: Row, columns: Sequence[Column[Row]]) -> str:
    return "\n".join(column.searched(row) for column in columns).casefold()


def _with_words(rows: Sequence[Row], words: Sequence[str], cells: Callable[[Row], str]) -> list[Row]:
    def has_all(row: Row) -> bool:
        text = cells(row)
        return all(word in text for word in words)

    return [row for row in rows if has_all(row)]


def _page(asked: str, rows: int, size: int) -> tuple[int, tuple[str, ...]]:
    """Return the page to show, and a sentence if it is not the requested one."""
    pages = max(1, -(-rows // size))
    if not asked:
        return 1, ()
    if not (asked.isascii() and asked.isdigit() and int(asked[:9])):
        return 1, (f"{_quoted(asked)} is not a page; page 1 is shown.",)
    page = int(asked[:9])
    if page > pages:
        return pages, (f"There is no page {page:,}; the last one, page {pages:,}, is shown.",)
    return page, ()
