"""Filters: their texts, and the records for which they hold."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.base.errors import ValueInvalid
from backend.messages import filters
from backend.messages.decoders import CheckedExpression
from backend.messages.fetched_messages import passing
from backend.messages.filters import LONGEST_FILTER, MOST_FILTERS, Filters
from tests.unit.messages.scanned_log import message

HEADERS = [("trace", b"abc-17"), ("trace", b"second"), ("empty", None), ("bin", b"\xff\x00")]


def holds(*texts: str, key: bytes | None = None, value: bytes | None = None) -> bool:
    return bool(Filters.parse(texts).matching([message(0, 0, value, key, *HEADERS)]))


@pytest.mark.parametrize(
    ("text", "key", "value", "expected"),
    [
        ("key:17", b"order-17", None, True),
        ("key:17", b"order-18", b"17", False),
        ("key:17", None, b"17", False),
        ("text:17", b"order-17", None, True),
        ("text:17", None, b"n=17", True),
        ("text:17", b"a", b"b", False),
        ("text:17", None, None, False),
        ("17", None, b"n=17", True),
        ("text::", b"a:b", None, True),
        ("https://a", None, b"see https://a/b", True),
        ("Key:17", b"order-17", None, False),
        ("header:trace", None, None, True),
        ("header:empty", None, None, True),
        ("header:Trace", None, None, False),
        ("header:trace=17", None, None, True),
        ("header:trace=second", None, None, True),
        ("header:trace=third", None, None, False),
        ("header:empty=a", None, None, False),
        ("header:bin=a", None, None, False),
        ("json:$.a", None, None, True),
    ],
)
def test_a_filter_is_about_key_value_or_headers(text, key, value, expected):
    assert holds(text, key=key, value=value) is expected


def test_all_filters_must_hold():
    assert holds("key:a", "b", "header:trace=17", key=b"a", value=b"b")
    assert not holds("key:a", "b", "header:trace=17", key=b"a", value=b"c")
    assert not holds("key:a", "b", "header:trace=18", key=b"a", value=b"b")


def test_headers_are_read_only_if_they_matter(monkeypatch):
    def fail(_):
        raise AssertionError

    monkeypatch.setattr(filters, "headers_of", fail)
    assert not Filters.parse(["key:a", "header:b"]).matching([message(0, 0, None, b"x")])
    assert Filters.parse(["key:a"]).matching([message(0, 0, None, b"a")])


@pytest.mark.parametrize("text", ["", "   ", "key:", "text: ", "json:", "header:", "header:=x", "header:a="])
def test_an_empty_filter_is_refused_at_its_place(text):
    with pytest.raises(ValueInvalid) as caught:
        Filters.parse(["key:fine", text])
    assert [each.pointer for each in caught.value.errors] == ["/filter"]


def test_filters_are_few_and_short():
    longest = "key:" + "x" * (LONGEST_FILTER - 4)
    assert len(Filters.parse([longest] * MOST_FILTERS).keys) == MOST_FILTERS
    for texts in ([longest + "x"], ["a"] * (MOST_FILTERS + 1)):
        with pytest.raises(ValueInvalid, match="at most") as caught:
            Filters.parse(texts)
        assert [each.pointer for each in caught.value.errors] == ["/filter"]


def test_half_of_a_surrogate_pair_is_refused():
    with pytest.raises(ValueInvalid, match="surrogate"):
        Filters.parse(["key:\ud800"])


@pytest.mark.parametrize(
    "written",
    [
        '{"a": "café 😀 \\"x\\""}',
        '{"a": "caf\\u00e9 \\ud83d\\ude00 \\"x\\""}',
        '{"a": "caf\\u00E9 \\uD83D\\uDE00 \\"x\\""}',
    ],
)
def test_a_text_is_found_however_json_writes_it(written):
    assert json.loads(written) == {"a": 'café 😀 "x"'}
    assert holds('café 😀 "x"', value=written.encode())


@given(st.text(min_size=1).filter(lambda text: text.strip()), st.booleans())
def test_a_text_is_found_in_every_json_that_has_it(text, ascii_only):
    value = json.dumps({"a": f"<{text}>"}, ensure_ascii=ascii_only).encode()
    assert holds(f"text:{text}", value=value)


@given(st.lists(st.text()))
def test_any_text_is_parsed_or_refused(texts):
    try:
        Filters.parse(texts).matching([message(0, 0, b"value", b"key", *HEADERS)])
    except ValueInvalid as error:
        assert error.errors


def test_expressions_are_joined_so_that_all_must_hold():
    assert Filters.parse(["key:a"]).expression is None
    assert Filters.parse(["json: $.a "]).expression == "$.a"
    both = Filters.parse(["json:$.a == 1 || $.b == 2", "json:$.c"])
    assert both.expressions == ("$.a == 1 || $.b == 2", "$.c")
    assert both.expression == "($.a == 1 || $.b == 2) && ($.c)"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"status": "paid"}', True),
        (b'{"status": "open"}', False),
        (b'{"status": "p\\u0061id"}', True),
        (b"\0\0\0\0\7\4", True),
        (b"paid", True),
        (b"", False),
        (None, False),
    ],
)
def test_a_value_without_a_required_text_is_not_decoded(value, expected):
    may_match = passing(Filters.parse(["json:$.status == 'paid'"]), CheckedExpression(("paid",)))
    assert may_match is not None
    assert bool(may_match([message(0, 0, value)])) is expected


def test_messages_pass_if_their_bytes_do():
    records = [message(0, 0, b"paid", b"a"), message(0, 1, b"paid", b"b"), message(0, 2, b"open", b"a")]
    assert passing(Filters.parse([]), CheckedExpression()) is None
    assert passing(Filters.parse(["json:$.n > 1"]), CheckedExpression()) is None
    assert passing(Filters.parse(["json:$.n > 1"]), CheckedExpression(("\ud800",))) is None
    for texts, required, count in (
        (["key:a"], (), 2),
        (["key:a", "json:$ == 'paid'"], ("paid",), 1),
        (["text:p"], (), 3),
    ):
        may_match = passing(Filters.parse(texts), CheckedExpression(required))
        assert may_match is not None and len(may_match(records)) == count
