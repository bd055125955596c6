"""Items say what a message's headers, copy flags and origin are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Message

from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.messages.decoded_fields import DecodedField
from backend.messages.documents import shown
from tests.unit.messages.test_request import facts

FACTS = replace(facts(3), number=2, cluster="c2", names={1: "c1", 2: "c2"})
FIRST = Origin(cluster=1, stream_id=FACTS.stream_id, partition=1, offset=4690, incarnation=3)
NOTHING = DecodedField("bytes", None, None, None)


def document(
    headers: list[tuple[str, bytes | None]], key: DecodedField = NOTHING, value: DecodedField = NOTHING
) -> dict[str, Any]:
    message = Message(topic="t", partition=1, offset=4711, headers=headers, timestamp=(1, 1767225600000))
    return shown(FACTS, message, key, value)


def test_headers_are_texts_or_base64() -> None:
    headers = [("trace", b"7f3c"), ("trace", b"\xff"), ("empty", b""), ("none", None), ("ü", "€".encode())]
    assert document(headers)["headers"] == [
        ["trace", "7f3c"],
        ["trace", "/w=="],
        ["empty", ""],
        ["none", None],
        ["ü", "€"],
    ]


def test_a_copy_says_where_it_was_first_produced() -> None:
    found = document([("copy-flags", copy_flags.encode(5)), ("copy-origin", origin.encode(FIRST))])
    assert found["copy_flags"] == "0101"
    assert found["origin"] == {"cluster": "c1", "offset": 4690, "incarnation": 3}


@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, stream_id=b"another."),
        replace(FIRST, partition=0),
        replace(FIRST, cluster=2),
        replace(FIRST, cluster=99),
    ],
)
def test_an_origin_that_a_stream_processor_passed_on_is_none(other: Origin) -> None:
    assert document([("copy-origin", origin.encode(other))])["origin"] is None


def test_headers_that_nobody_can_read_are_shown_and_say_nothing() -> None:
    found = document([("copy-flags", b"x"), ("copy-origin", b"y")])
    assert (found["copy_flags"], found["origin"]) == ("0000", None)
    assert len(found["headers"]) == 2


def test_ids_and_problems_of_key_and_value_are_named() -> None:
    found = document([])
    assert found["schema_id"] is None
    assert "key_schema_id" not in found
    assert "problem" not in found
    wrong = DecodedField("bytes", "AA==", 7, "It ends too early.")
    fine = DecodedField("avro", {"a": 1}, 8, None)
    found = document([], wrong, fine)
    assert (found["key_schema_id"], found["schema_id"], found["problem"]) == (7, 8, "key: It ends too early.")
    assert document([], fine, wrong)["problem"] == "value: It ends too early."
    assert document([], wrong, wrong)["problem"] == "key: It ends too early.; value: It ends too early."
