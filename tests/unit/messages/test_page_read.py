"""Pages of messages, decoded by real child processes: what they show, and that none skips or repeats a message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Message

from backend.domain.base.errors import MessagesBusy, ValueInvalid
from backend.kafka.search.message_reading import EndedBy, PageEnded, Selected
from backend.messages import message_decoding, page_read
from backend.messages.decoded_fields import Parts
from backend.messages.decoders import Decoders, Limits
from backend.messages.fetched_messages import passing
from backend.messages.filters import Filters
from backend.messages.message_decoding import MessageDecoding, check_expressions
from backend.messages.page_read import MessagePage, PageRead
from backend.messages.request import parse
from tests.unit.messages.scanned_log import BATCH, ScannedLog, message
from tests.unit.messages.test_request import facts


@pytest.fixture(scope="module")
def decoders() -> Iterator[Decoders]:
    made = Decoders(1)
    yield made
    made.close()


def pages(
    decoders: Decoders, log: ScannedLog, limit: int, *filters: str, backward: bool = False, most: int = 100
) -> list[MessagePage]:
    """Return all pages, each from where the one before says."""
    parsed = Filters.parse(filters)
    decoding = MessageDecoding(decoders, parsed, lambda _: None)
    may_match = passing(parsed, check_expressions(decoders, parsed))
    found: list[MessagePage] = []
    positions = log.first(backward=backward)
    for _ in range(most):
        page = PageRead(decoding, backward=backward, seconds=30)
        scanned = log.page(positions, limit, page.select, backward=backward, passing=may_match)
        found.append(page.answer(facts(3), scanned))
        if found[-1].next_start is None:
            return found
        start = parse(start=found[-1].next_start, partition="", limit="", filters=()).start
        positions = start.offsets  # type: ignore[union-attr]
    raise AssertionError("the pages have no end")


def places(found: Sequence[MessagePage]) -> list[tuple[int, int]]:
    return [(item["partition"], item["offset"]) for page in found for item in page.items]


def numbered(*lengths: int) -> ScannedLog:
    """Return partitions of so many messages, each with its offset as `n`."""
    return ScannedLog(
        *(
            [message(number, offset, b'{"n": %d, "p": %d}' % (offset, number)) for offset in range(length)]
            for number, length in enumerate(lengths)
        )
    )


def test_a_page_shows_messages_as_an_answer(decoders: Decoders) -> None:
    log = ScannedLog([message(0, 0, b'{"a": [1, null]}', b"k"), message(0, 1, None), message(0, 2, b"\xff\x00")])
    [page] = pages(decoders, log, 10)
    answer = json.loads(page.json())
    items = answer.pop("items")
    assert answer == {
        "stream": "acme/retail/prod/orders",
        "cluster": "c1",
        "next": None,
        "scanned_records": 3,
        "scanned_bytes": 0,
        "complete": True,
        "ended_by": "end",
    }
    assert items[0] == {
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 0,
        "key": "k",
        "key_format": "text",
        "value": {"a": [1, None]},
        "value_format": "json",
        "schema_id": None,
        "headers": [],
        "copy_flags": "0000",
        "origin": None,
    }
    assert [(item["value"], item["value_format"]) for item in items[1:]] == [(None, "bytes"), ("/wA=", "bytes")]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_every_message_comes_once_and_in_order(decoders: Decoders, limit: int, backward: bool) -> None:
    found = places(pages(decoders, numbered(7, 4), limit, backward=backward))
    assert sorted(found) == [(0, n) for n in range(7)] + [(1, n) for n in range(4)]
    offsets = [offset for _, offset in found]
    assert offsets == sorted(offsets, reverse=backward)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("filters", "matching"),
    [
        (('text:"n": 3',), [(0, 3), (1, 3)]),
        (("json:$.n > 2 && $.p == 1",), [(1, 3)]),
        (("json:$.n > 2", "json:$.n < 5"), [(0, 3), (0, 4), (1, 3)]),
        (("json:$.n >= 5", 'text:"p": 0'), [(0, 5), (0, 6)]),
        (("key:x",), []),
    ],
)
def test_filters_must_all_match(
    decoders: Decoders, filters: tuple[str, ...], matching: list[tuple[int, int]], backward: bool
) -> None:
    found = places(pages(decoders, numbered(7, 4), 2, *filters, backward=backward))
    assert sorted(found) == matching


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("filters", [(), ("json:$.n >= 0",)])
@pytest.mark.parametrize("bound", ["SHOWN_BYTES", "SHOWN_CHARACTERS"])
def test_a_page_that_is_full_ends_and_the_next_one_goes_on(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch, bound: str, filters: tuple[str, ...], backward: bool
) -> None:
    monkeypatch.setattr(page_read, bound, 40 if bound == "SHOWN_BYTES" else 600)
    found = pages(decoders, numbered(7, 4), 100, *filters, backward=backward)
    assert len(found) > 3
    assert {page.ended_by for page in found[:-1]} == {EndedBy.BYTES}
    assert all(page.items for page in found)
    assert sorted(places(found)) == [(0, n) for n in range(7)] + [(1, n) for n in range(4)]


def test_a_message_that_is_larger_than_a_page_comes_alone(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_read, "SHOWN_BYTES", 1)
    monkeypatch.setattr(page_read, "SHOWN_CHARACTERS", 1)
    assert [len(page.items) for page in pages(decoders, numbered(3), 100)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("bound", "filters"),
    [("SHOWN_BYTES", ()), ("SHOWN_BYTES", ("json:$.n >= 0",)), ("SHOWN_CHARACTERS", ("json:$.n >= 0",))],
)
def test_a_page_that_is_full_reads_no_further(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch, bound: str, filters: tuple[str, ...]
) -> None:
    monkeypatch.setattr(page_read, bound, 70)
    page = PageRead(MessageDecoding(decoders, Filters.parse(filters), lambda _: None), backward=False, seconds=30)
    kept, batches = 0, 0

    def counting(batch: list[Message]) -> list[Selected]:
        nonlocal kept, batches
        batches += 1
        try:
            found = page.select(batch)
        except PageEnded as ended:
            kept += len(ended.found)
            raise
        kept += len(found)
        return found

    log = numbered(300)
    scanned = log.page(log.first(backward=False), 500, counting, backward=False)
    assert scanned.ended_by is EndedBy.BYTES
    assert (batches, scanned.scanned_records) == (2, 2 * BATCH)
    assert len(scanned.found) == kept
    monkeypatch.undo()
    answer = page.answer(facts(1), scanned)
    assert (len(answer.items), answer.next_start) == (kept, f"after:0={kept}")


def test_headers_count_as_bytes_of_a_page(decoders: Decoders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_read, "SHOWN_BYTES", 100)
    log = ScannedLog([message(0, offset, b"v", None, ("name", b"x" * 60)) for offset in range(3)])
    assert [len(page.items) for page in pages(decoders, log, 100)] == [1, 1, 1]


class Counting:
    """Decoders that note how many messages each call is about, and its bytes."""

    def __init__(self, decoders: Decoders) -> None:
        self._decoders = decoders
        self.calls: list[tuple[int, int]] = []

    def decode(self, parts: Sequence[Parts], *others: Any) -> Any:
        self.calls.append((len(parts), sum(len(part or b"") for each in parts for part in each)))
        return self._decoders.decode(parts, *others)


@pytest.mark.parametrize("expression", [(), ("json:$.n",)])
def test_a_slice_that_is_decoded_has_few_bytes(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch, expression: tuple[str, ...]
) -> None:
    monkeypatch.setattr(message_decoding, "_SLICE_BYTES", 1_000)
    counting = Counting(decoders)
    decoding = MessageDecoding(counting, Filters.parse(expression), lambda _: None)  # type: ignore[arg-type]
    large, small = b'{"n": "%b"}' % (b"x" * 600), b'{"n": 1}'
    log = [message(0, offset, large if offset < 20 else small) for offset in range(60)]
    decoded = decoding.evaluated if expression else decoding.fields
    assert len(decoded(log, 30, 10**9)) == 60
    assert all(size <= 1_000 or number == 1 for number, size in counting.calls)
    assert max(number for number, _ in counting.calls) > 7
    counting.calls.clear()
    assert len(decoded(log, 30, 1)) == 1


def test_after_a_slice_of_many_characters_comes_one_of_one_message(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_decoding, "_SLICE_CHARACTERS", 50)
    counting = Counting(decoders)
    decoding = MessageDecoding(counting, Filters(), lambda _: None)  # type: ignore[arg-type]
    decoding.fields([message(0, offset, b"x" * 20) for offset in range(10)], 30, 10**9)
    assert [number for number, _ in counting.calls] == [1, 2, 4, 1, 2]


@pytest.mark.parametrize("filters", [(), ("json:$.n >= 0",)])
def test_without_any_time_nothing_is_skipped(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch, filters: tuple[str, ...]
) -> None:
    monkeypatch.setattr(page_read, "DECODING_SECONDS", -1.0)
    decoding = MessageDecoding(decoders, Filters.parse(filters), lambda _: None)
    page = PageRead(decoding, backward=False, seconds=-1)
    log = numbered(3)
    scanned = log.page(log.first(backward=False), 10, page.select, backward=False)
    with pytest.raises(MessagesBusy):
        page.answer(facts(3), scanned)


def test_a_page_that_shows_nothing_is_an_answer_only_if_the_next_one_begins_elsewhere(
    decoders: Decoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_read, "DECODING_SECONDS", -1.0)
    filters = Filters.parse(["text:4"])
    decoding, may_match = MessageDecoding(decoders, filters, lambda _: None), filters.matching
    log = numbered(6)
    page = PageRead(decoding, backward=False, seconds=30)
    answer = page.answer(facts(1), log.page({0: 0}, 10, page.select, backward=False, passing=may_match))
    assert (answer.items, answer.next_start, answer.ended_by) == ([], "after:0=4", EndedBy.TIME)
    page = PageRead(decoding, backward=False, seconds=30)
    scanned = log.page({0: 4}, 10, page.select, backward=False, passing=may_match)
    with pytest.raises(MessagesBusy):
        page.answer(facts(1), scanned)


def test_a_message_that_takes_too_long_keeps_no_other_from_being_shown() -> None:
    bomb = b'{"n": 0, "s": "%b"}' % (b"a" * 30 + b"!")
    log = ScannedLog([message(0, 0, b'{"n": 1, "s": "a"}'), message(0, 1, bomb), message(0, 2, b'{"s": "aa"}')])
    made = Decoders(1, Limits(record_seconds=0.3))
    try:
        found = pages(made, log, 10, r"json:match($.s, '(a|aa)+')")
    finally:
        made.close()
    shown = {item["offset"]: item.get("problem") for page in found for item in page.items}
    assert shown.keys() >= {0, 2}
    assert shown[0] is None and shown[2] is None


def test_what_is_wrong_with_an_expression_is_said_with_its_place(decoders: Decoders) -> None:
    check_expressions(decoders, Filters.parse(["json:$.a > 1"]))
    with pytest.raises(ValueInvalid, match="invalid at character") as refused:
        check_expressions(decoders, Filters.parse(["json:$.a > 1", "json:$.a >"]))
    assert [error.pointer for error in refused.value.errors] == ["/filter"]


def test_all_expressions_share_one_deadline(decoders: Decoders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_decoding, "_CHECK_SECONDS", 0.0)
    with pytest.raises(MessagesBusy):
        check_expressions(decoders, Filters.parse(["json:$.a > 1"]))


def test_expressions_that_are_too_long_together_are_refused(decoders: Decoders) -> None:
    long = f"json:$.a == '{'x' * 1_900}'"
    check_expressions(decoders, Filters.parse([long]))
    with pytest.raises(ValueInvalid, match="longer than"):
        check_expressions(decoders, Filters.parse([long] * 10))


HALVES: list[Any] = [b'"\\ud800"', b'{"\\ud800": 1}', b"[1e400]", b"[" * 5000, b"[" + b"9" * 5000 + b"]"]


@pytest.mark.parametrize("value", HALVES)
def test_whatever_a_value_is_the_answer_is_json(decoders: Decoders, value: bytes) -> None:
    [page] = pages(decoders, ScannedLog([message(0, 0, value, value)]), 10)
    assert page.json().isascii()
    [item] = json.loads(page.json(), parse_constant=pytest.fail)["items"]
    assert item["offset"] == 0
