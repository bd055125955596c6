"""Messages that a search leaves out as they are fetched: none that matches, and only by bounded expressions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.messages import fetched_messages
from backend.messages.decoders import CheckedExpression
from backend.messages.decoding import plain_json
from backend.messages.decoding.comparisons import NOTHING
from backend.messages.decoding.expressions import compiled
from backend.messages.decoding.fields import decoded
from backend.messages.fetched_messages import passing
from backend.messages.filters import Filters
from tests.unit.messages.scanned_log import message
from tests.unit.messages.test_expressions import TESTS, VALUES

BOUNDED = CheckedExpression((), is_bounded=True)
LEAVES = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
)
WRITTEN = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    JSON,
    st.booleans(),
    st.sampled_from([None, 1]),
).map(lambda text: text.encode(errors="surrogatepass"))
SPOILT = st.builds(
    lambda data, place, other: data[: place % (len(data) + 1)] + other + data[place % (len(data) + 1) :],
    WRITTEN,
    st.integers(0, 1_000),
    st.sampled_from(
        [b"", b"\\", b"\\ud800", b"0", b"1e999", b"-", b".", b'"', b"[", b"}", b",", b"\x00", b"\xff", b"e9"]
    ),
)
NUMBERS = st.from_regex(rb"\[-?[0-9]{1,25}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?\]", fullmatch=True)


@given(SPOILT | NUMBERS | st.text(alphabet='[]{}",:0', max_size=12).map(str.encode))
def test_what_is_read_in_one_step_is_read_as_the_decoders_read_it(data):
    value = plain_json.read(data)
    field = decoded(data, {})
    if value is not NOTHING:
        # Told apart by their text: 1 from 1.0, and 0.0 from -0.0.
        assert (field.format, repr(field.value)) == ("json", repr(value))
    elif data[:1] in (b"{", b"[") and field.format == "json":
        assert b"\\ud" in data.lower()  # half of a surrogate pair


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        b"17",
        b"\0\0\0\0\7{}",
        b'"a"',
        b"{",
        b"[NaN]",
        b"[1" + b"0" * 5_000 + b"]",
        b"[" * 101 + b"]" * 101,
        b"[" * 50_000,
        b'{"a": "' + b"x" * plain_json.MOST_BYTES + b'"}',
    ],
    ids=lambda data: str(data[:9]),
)
def test_everything_else_is_left_to_the_decoders(data):
    assert plain_json.read(data) is NOTHING
    assert not plain_json.rejects(lambda _: False, data)


def test_a_hundred_levels_are_read():
    deepest, wide = b"[" * 100 + b"]" * 100, b"[" + b",".join([b"{}"] * 200) + b"]"
    for data in (deepest, wide):
        assert plain_json.read(data) == json.loads(data)


@given(TESTS, VALUES)
def test_no_message_is_left_out_that_matches(expression, value):
    data = json.dumps(value).encode()
    found = compiled(expression)
    may_match = passing(Filters.parse([f"json:{expression}"]), CheckedExpression((), found.is_bounded))
    records = [message(0, 0, data)]
    if may_match is None:
        assert not found.is_bounded
    elif data[:1] in (b"{", b"["):
        assert may_match(records) == (records if found.holds(value) else [])
    else:
        assert may_match(records) == records


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("$.n > 5", True),
        ("$.a.b[0] == 'x' && !($.c || $['d'] <= null)", True),
        ("$.a == $.b", True),
        ("length($.a) > 3 && $.b", True),
        ("$..n", True),
        ("$.lines[*].tags[1:]", True),
        ("$.lines[?@.n > 3 && @.sku != 'x' && $.b]", True),
        ("$.lines[?@.n > 3 && @.sku != $.sku]", False),
        ("$..[?@.n == 9].name", True),
        ("count($..a) > 3 || value($.*.b) == 1", True),
        ("$..a || " * 7 + "$..a", True),
        ("$..a || " * 8 + "$..a", False),
        ("$.a == 1 || " * 199 + "$.a", True),
        ("$.a == 1 || " * 200 + "$.a", False),
        ("$.a == $.b || " * 8 + "$.a == $.b", False),
        ("$.lines[?" + "@.a || " * 9 + "@.b]", False),
        ("$..a..b", False),
        ("$[*, *]", False),
        ("$['a', 'b']", False),
        ("$.lines[?@.tags[?@ == 'y']]", False),
        ("$..[?@ == $.x]", False),
        ("$..[?count(@.*) > 1]", False),
        ("count($..[?count($..*) > 1]) > 5", False),
        ("match($.a, 'pa.*') || search($.b, '^[a-z_]+$|\\\\d-\\\\.')", True),
        ("match($.a, '[(]?')", False),
        ("match($.a, 'x*x*')", False),
        (f"match($.a, '{'x' * 101}')", False),
        ("match($.a, '(x*)*')", False),
        ("match($.a, 'x{9}')", False),
        ("match($.a, 'x??')", False),
        ("match($.a, '\\\\p{Lu}')", False),
        ("match('x', $.a)", False),
        ("$.a && search($.b, $.c)", False),
        ("$.lines[?match(@.sku, 'a')]", False),
    ],
)
def test_an_expression_is_bounded_if_it_goes_through_a_value_a_few_times(expression, expected):
    assert compiled(expression).is_bounded is expected


def test_only_bounded_and_short_expressions_are_evaluated_on_what_was_fetched():
    records = [message(0, 0, b'{"n": 1}'), message(0, 1, b'{"n": 9}'), message(0, 2, None), message(0, 3, b"n")]
    may_match = passing(Filters.parse(["json:$.n > 5"]), BOUNDED)
    assert may_match is not None and may_match(records) == records[1:]
    both = passing(Filters.parse(["json:$.n > 5", "json:$.n > 9", "text:n"]), BOUNDED)
    assert both is not None and both(records) == records[3:]
    assert passing(Filters.parse(["json:$.n > 5"]), CheckedExpression()) is None
    assert passing(Filters.parse([f"json:$.n == '{'x' * 1_000}'"]), BOUNDED) is None


def test_when_the_time_is_over_what_is_left_may_match(monkeypatch):
    monkeypatch.setattr(fetched_messages, "_SECONDS", 0.0)
    records = [message(0, n, b'{"n": 1}') for n in range(200)]
    may_match = passing(Filters.parse(["json:$.n > 5"]), BOUNDED)
    assert may_match is not None and may_match(records) == records
