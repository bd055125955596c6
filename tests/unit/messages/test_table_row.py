"""A message as a line of the command's table: one line, whatever a producer wrote."""

from __future__ import annotations

from typing import Any

import pytest

from backend.commands.messages.messages import COLUMNS, MOST_CHARACTERS, continued, table_row


def item(**fields: Any) -> dict[str, Any]:
    return {
        "partition": 3,
        "offset": 4711,
        "timestamp_ms": 1767225600000,
        "key": "order-17",
        "key_format": "text",
        "value": {"status": "paid"},
        "value_format": "json",
        "schema_id": None,
        "headers": [],
        "copy_flags": "0000",
        "origin": None,
        **fields,
    }


def test_a_message_is_one_line() -> None:
    found = table_row(item())
    assert tuple(found) == COLUMNS
    assert found == {
        "partition": 3,
        "offset": 4711,
        "time": "2026-01-01T00:00:00.000+00:00",
        "key": "order-17",
        "value": '{"status": "paid"}',
        "remark": "",
    }


VALUES = [
    (None, "bytes", None),
    ("aGVsbG8=", "bytes", "68 65 6c 6c 6f"),
    ("AP/+" * 1000, "bytes", ("00 ff fe " * 1000)[: MOST_CHARACTERS - 1] + "…"),
    ("a word", "json", '"a word"'),
    ("two\nlines\tand \x1b[31mred\x1b[0m", "text", "two\\nlines\\tand \\x1b[31mred\\x1b[0m"),
    ("left\u202eright", "text", "left\\u202eright"),
    ({"a": "\x9b31m"}, "json", '{"a": "\\x9b31m"}'),
    ("ü €", "text", "ü €"),
    ("x" * MOST_CHARACTERS, "text", "x" * MOST_CHARACTERS),
    ("x" * 1000, "text", "x" * (MOST_CHARACTERS - 1) + "…"),
    ("\n" * 1000, "text", ("\\n" * 1000)[: MOST_CHARACTERS - 1] + "…"),
]


@pytest.mark.parametrize(("value", "form", "line"), VALUES)
def test_a_value_neither_moves_the_cursor_nor_takes_two_lines(value: Any, form: str, line: str | None) -> None:
    assert table_row(item(value=value, value_format=form))["value"] == line
    assert table_row(item(key=value, key_format=form))["key"] == line


def test_what_is_wrong_is_said_before_where_it_was_copied_from() -> None:
    origin = {"cluster": "c1", "offset": 7, "incarnation": 1}
    assert table_row(item(origin=origin))["remark"] == "copied from c1, offset 7"
    assert table_row(item(origin=origin, problem="value: too\nlarge"))["remark"] == "value: too\\nlarge"


@pytest.mark.parametrize("moment", [2**63 - 1, 10**17])
def test_a_timestamp_outside_of_the_calendar_is_a_number(moment: int) -> None:
    assert table_row(item(timestamp_ms=moment))["time"] == f"{moment} ms"


@pytest.mark.parametrize(("limit", "options"), [(50, []), (20, ["--limit", "20"])])
def test_the_command_that_continues_has_the_same_options(limit: int, options: list[str]) -> None:
    found = {"cluster": "c1", "next": {"from": "after:0=7"}}
    begin = ["treeline", "messages", "a/b/c/d", "--cluster", "c1", "--from", "after:0=7"]
    assert continued("a/b/c/d", found, limit, ["key:a"]) == [*begin, *options, "--filter", "key:a"]
