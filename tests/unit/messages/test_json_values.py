"""JSON of records: what is read, what is beyond a limit, and that every reader takes what is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.messages.decoding import json_values
from backend.messages.decoding.bounds import MOST_LEVELS, Undecodable, has_more_levels, has_more_parts
from backend.messages.decoding.json_values import NotJson

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_every_value_is_read_and_written(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert json_values.read(f" \n{text}\t\r\n") == json.loads(text)
    written, _ = json_values.write(json_values.read(text))
    json.loads(written.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "{'a': 1}",
        "[NaN]",
        "[Infinity]",
        "[-Infinity]",
        '{"a": 1} x',
        "[1]\0",
        "\ufeff[]",
        '["\n"]',
    ],
)
def test_other_texts_are_not_json(text):
    with pytest.raises(NotJson):
        json_values.read(text)


@pytest.mark.parametrize("depth", [MOST_LEVELS + 1, 999, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_deep_nesting_is_refused(depth, opening, closing):
    with pytest.raises(Undecodable, match="deeper than 100 levels"):
        json_values.read(opening * depth + "1" + closing * depth)


def test_nesting_up_to_the_limit_is_read():
    text = "[" * MOST_LEVELS + "]" * MOST_LEVELS
    assert json_values.write(json_values.read(text)) == (text, None)
    assert json_values.read(f'["{"[" * 1000}"]') == ["[" * 1000]


def test_an_open_nesting_ends_too():
    with pytest.raises(Undecodable):
        json_values.read("[" * 1_000_000)


def test_a_number_of_thousands_of_digits_is_refused():
    with pytest.raises(Undecodable, match="digits"):
        json_values.read(f"[{'1' * 5_000}]")
    assert json_values.read(f"[{'1' * 4_000}]") == [int("1" * 4_000)]


@pytest.mark.parametrize(
    ("text", "written", "note"),
    [
        ("[1e999]", '["Infinity"]', json_values.TOO_LARGE),
        ('{"a": {"b": [-1e999]}}', '{"a":{"b":["-Infinity"]}}', json_values.TOO_LARGE),
        ('["\\ud800", "\\udc00x"]', '["\ufffd","\ufffdx"]', json_values.REPLACED),
        ('{"\\ud800": 1}', '{"\ufffd":1}', json_values.REPLACED),
        ('["\\ud83d\\ude00"]', '["\U0001f600"]', None),
    ],
)
def test_what_readers_do_not_take_is_written_in_another_way(text, written, note):
    assert json_values.write(json_values.read(text)) == (written, note)


@given(JSON_VALUES)
def test_levels_and_parts_are_counted(value):
    def levels(each):
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else None
        return 0 if inner is None else 1 + max(map(levels, inner), default=0)

    def parts(each):
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        return 1 + sum(map(parts, inner))

    assert not has_more_parts(value, parts(value))
    if isinstance(value, dict | list):
        assert not has_more_levels(value, levels(value))
        assert has_more_levels(value, levels(value) - 1)
        assert has_more_parts(value, parts(value) - 1) or parts(value) == 1
