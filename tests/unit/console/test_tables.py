"""Tables: order, filter, pages and columns by the address, and addresses that say the same again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.web.tables.natural_order import natural, ordered
from backend.web.tables.table import ROW_CHOICES, Column, Table
from backend.web.tables.table_query import TableQuery
from backend.web.tables.table_view import TableView


@dataclass(frozen=True)
class Cluster:
    """A row of the table of these tests."""

    name: str
    lag: int | None = None
    zone: str | None = None


TABLE = Table[Cluster](
    "clusters",
    "clusters",
    (
        Column("name", "Name", lambda each: each.name),
        Column("lag", "Lag", lambda each: each.lag, number=True),
        Column("zone", "Zone", lambda each: each.zone, hidden=True),
        Column("chart", "Last hour"),
    ),
    sort="name",
)
OTHER = Table[Cluster]("others", "others", TABLE.columns, prefix="other")
PATH = "/clusters"
NAMES = [f"c{number}" for number in range(1, 121)]
ROWS = [Cluster(name, len(NAMES) - number) for number, name in enumerate(NAMES)]


def query(text: str = "") -> TableQuery:
    return TableQuery(PATH, tuple(parse_qsl(text, keep_blank_values=True)))


def view(text: str = "", rows: list[Cluster] = ROWS, table: Table[Cluster] = TABLE) -> TableView[Cluster]:
    return table.view(rows, query(text))


def asked(address: str) -> TableQuery:
    found = urlsplit(address)
    assert found.path == PATH
    return TableQuery(PATH, tuple(parse_qsl(found.query)))


def names(found: TableView[Cluster]) -> list[str]:
    return [row.name for row in found.rows]


# --- order


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("c2", "c10"),
        ("C2", "c10"),
        ("c", "c1"),
        ("a10", "b2"),
        ("a-9-2", "a-10-1"),
        ("7", "x"),
        ("c" + "9" * 5000, "d"),
    ],
)
def test_names_are_sorted_as_people_count(first: str, second: str) -> None:
    assert natural(first) < natural(second)


def test_numbers_are_compared_by_their_value_however_many_digits_they_have() -> None:
    assert natural("c007") == natural("c7")
    assert natural("c" + "9" * 5000) < natural("c1" + "0" * 5000)


@given(st.lists(st.text(max_size=12)))
def test_any_texts_can_be_sorted(texts: list[str]) -> None:
    found = ordered(texts, lambda text: text, descending=False)
    assert sorted(found) == sorted(texts)
    keys = [natural(text) for text in found if text]
    assert keys == sorted(keys)
    assert found[len(keys) :] == [""] * (len(found) - len(keys))


@given(st.lists(st.tuples(st.none() | st.integers(-5, 5), st.integers())), st.booleans())
def test_equal_rows_keep_their_order_and_unknown_ones_come_last(
    rows: list[tuple[int | None, int]], descending: bool
) -> None:
    numbered = list(enumerate(rows))
    found = ordered(numbered, lambda pair: pair[1][0], descending=descending)
    assert sorted(found) == numbered
    sign = -1 if descending else 1
    keys = [(value is None, 0 if value is None else sign * value, place) for place, (value, _) in found]
    assert keys == sorted(keys)


def test_numbers_times_and_texts_in_one_column_can_be_sorted() -> None:
    values = ["b", 2, None, datetime(2026, 11, 28, tzinfo=UTC), "a10", "a9", 1.5, True]
    found = ordered(values, lambda value: value, descending=False)
    assert found == [True, 1.5, 2, datetime(2026, 11, 28, tzinfo=UTC), "a9", "a10", "b", None]


# --- what an address asks for


def test_without_parameters_the_first_page_is_shown_by_name() -> None:
    found = view(rows=ROWS[::-1])
    assert names(found) == NAMES[:50]
    assert found.counts == "Rows 1–50 of 120"
    assert (found.pages, found.ignored, found.live) == (3, (), "")


@pytest.mark.parametrize(
    ("text", "first", "count"),
    [
        ("sort=-name", "c120", 50),
        ("sort=lag", "c120", 50),
        ("sort=-lag&page=3", "c101", 20),
        ("rows=250", "c1", 120),
        ("filter=C1+1", "c1", 32),
        ("filter=+c11++", "c11", 11),
        ("filter=1%2C0", "", 0),
    ],
)
def test_an_address_says_what_is_shown(text: str, first: str, count: int) -> None:
    found = view(text)
    assert (names(found) or [""])[0] == first
    assert len(found.rows) == count
    assert found.ignored == ()


def test_a_filter_finds_words_in_any_shown_cell() -> None:
    rows = [Cluster("east", 1200, "az1"), Cluster("west", 7, "az2")]
    assert names(view("filter=EAS", rows)) == ["east"]
    assert names(view("filter=1%2C200", rows)) == names(view("filter=1200", rows)) == ["east"]
    assert names(view("filter=t", rows)) == ["east", "west"]
    assert names(view("filter=st+7", rows)) == ["west"]
    assert names(view("filter=az2", rows)) == [], "the zone is not shown"
    assert names(view("filter=az2&columns=name,zone", rows)) == ["west"]
    assert view("filter=az2", rows).counts == "0 of 2 rows"


def test_columns_are_chosen_in_the_table_s_own_order() -> None:
    found = view("columns=zone,lag")
    assert [each.key for each in found.heads] == ["name", "lag", "zone"]
    assert (found.shows("zone"), found.shows("chart")) == (True, False)
    boxes = view("columns=name&columns=lag&columns=zone")
    assert boxes.live == "?columns=name,lag,zone"
    assert view("columns=name&columns=lag&columns=chart").live == "", "these are the usual ones"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sort=nope", "The table cannot be sorted by “nope”; it is sorted by Name."),
        ("sort=chart", "The table cannot be sorted by “chart”; it is sorted by Name."),
        ("sort=--lag", "The table cannot be sorted by “--lag”; it is sorted by Name."),
        ("page=4", "There is no page 4; the last one, page 3, is shown."),
        ("page=0", "“0” is not a page; page 1 is shown."),
        ("page=x%00y", "“xy” is not a page; page 1 is shown."),
        ("page=%D9%A4", "“٤” is not a page; page 1 is shown."),
        ("rows=7", "A page cannot have “7” rows; choose 25, 50, 100 or 250. 50 are shown."),
        ("columns=lag,foo", "There is no column “foo” here; it is left out."),
        ("filter=" + "x" * 301, "A filter has at most 300 characters; the rest of it is ignored."),
    ],
)
def test_what_an_address_has_wrong_is_said_and_not_repeated(text: str, said: str) -> None:
    found = view(text)
    assert found.ignored == (said,)
    assert view(found.live.removeprefix("?")).ignored == ()


@given(st.text(), st.text(), st.text(), st.text(), st.lists(st.text()), st.booleans())
def test_no_address_fails(sort: str, text: str, page: str, rows: str, columns: list[str], other: bool) -> None:
    table = OTHER if other else TABLE
    given = {"sort": sort, "filter": text, "page": page, "rows": rows}
    pairs = [*given.items(), *(("columns", each) for each in columns)]
    found = table.view(ROWS, TableQuery(PATH, tuple((table.parameter(name), value) for name, value in pairs)))
    assert 1 <= found.page <= found.pages
    assert found.heads[0].key == "name"


# --- addresses


@given(
    sort=st.sampled_from(["name", "-name", "lag", "-lag", "zone"]),
    text=st.text(alphabet="c1 0a&=é,", max_size=6),
    page=st.integers(1, 5),
    size=st.sampled_from(ROW_CHOICES),
    columns=st.sets(st.sampled_from(["lag", "zone", "chart"])),
    at=st.sampled_from(["", "12"]),
    prefixed=st.booleans(),
)
def test_an_address_gives_the_view_again(
    sort: str, text: str, page: int, size: int, columns: set[str], at: str, prefixed: bool
) -> None:
    table = OTHER if prefixed else TABLE
    own = {
        "sort": sort,
        "filter": text,
        "page": str(page),
        "rows": str(size),
        "columns": ",".join(["name", *columns]),
    }
    pairs = [("at", at), *((table.parameter(name), value) for name, value in own.items())]
    found = table.view(ROWS, TableQuery(PATH, tuple(pairs)))
    address = found.address()
    again = table.view(ROWS, asked(address))
    assert names(again) == names(found)
    assert (again.sort, again.size, again.page, again.heads) == (found.sort, found.size, found.page, found.heads)
    assert again.address() == address, "it is written in one way only"
    assert asked(address).value("at") == at
    for link in (found.at_page(1), found.unfiltered, found.of_size(25), *map(found.sorting, found.heads)):
        assert asked(link).value("at") == at
    form = dict(found.kept("filter"))
    typed = table.view(ROWS, TableQuery(PATH, (*form.items(), (table.parameter("filter"), "c11"))))
    assert (typed.sort, typed.size, typed.heads, typed.page) == (found.sort, found.size, found.heads, 1)


def test_defaults_are_left_out_of_addresses_and_commas_are_readable() -> None:
    found = view("sort=name&rows=50&page=1&filter=&columns=name,lag,chart&at=7")
    assert found.address() == f"{PATH}?at=7"
    assert view("columns=lag,zone").address() == f"{PATH}?columns=name,lag,zone"


def test_a_heading_sorts_and_then_turns_over() -> None:
    name, lag, *_ = view().columns
    assert view().order_of(name) == "ascending"
    assert view().sorting(name) == f"{PATH}?sort=-name"
    assert view("page=2").sorting(lag) == f"{PATH}?sort=-lag", "the largest first, and from the first page on"
    by_lag = view("sort=-lag")
    assert (by_lag.order_of(lag), by_lag.order_of(name)) == ("descending", None)
    assert by_lag.sorting(lag) == f"{PATH}?sort=lag"
    assert view("sort=lag").sorting(lag) == f"{PATH}?sort=-lag"


def test_two_tables_of_a_page_do_not_disturb_each_other() -> None:
    text = "sort=-lag&other-sort=name&other-page=2"
    first, second = view(text), view(text, table=OTHER)
    assert (first.page, second.page) == (1, 2)
    assert first.at_page(3) == f"{PATH}?other-sort=name&other-page=2&sort=-lag&page=3"
    assert second.unfiltered == f"{PATH}?sort=-lag&other-sort=name"


def test_rows_that_the_database_has_sorted_stay_as_they_are() -> None:
    rows = ROWS[40:60]
    found = TABLE.listed(rows, query("sort=-lag&filter=nothing"))
    assert list(found.rows) == rows
    assert found.sorting(found.columns[1]) == f"{PATH}?sort=lag&filter=nothing"


@pytest.mark.parametrize(
    ("page", "links"),
    [(1, [1, 2, 0, 12]), (2, [1, 2, 3, 0, 12]), (6, [1, 0, 5, 6, 7, 0, 12]), (12, [1, 0, 11, 12])],
)
def test_pages_around_the_present_one_and_the_ends_are_linked(page: int, links: list[int]) -> None:
    rows = [Cluster(f"c{number}") for number in range(600)]
    assert view(f"page={page}", rows).nearby == links
