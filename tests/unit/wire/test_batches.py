"""Headers of record batches, compared with kafka-python's."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from backend.kafka.wire.batches import ControlType, batches, control_type, with_offset
from backend.kafka.wire.encoding import MessageMalformed

NUMBER = st.integers(0, 2**31 - 1)


@st.composite
def drawn_batches(draw) -> bytes:
    """Draw batches as producers write them: compressed or not, transactional or not."""
    records = draw(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=draw(st.sampled_from([0, 1])),
        is_transactional=draw(st.booleans()),
        producer_id=draw(st.integers(-1, 2**63 - 1)),
        producer_epoch=draw(st.integers(-1, 2**15 - 1)),
        base_sequence=draw(st.integers(-1, 2**31 - 1)),
        batch_size=10**6,
    )
    for at, value in enumerate(records):
        builder.append(at, draw(st.integers(0, 2**40)), draw(st.none() | st.binary(max_size=9)), value, [])
    return bytes(builder.build())


def marker(kind: int, version: int = 0, attributes: int = 0x30, timestamp: bytes = b"\0") -> bytes:
    """Return a control batch as a coordinator writes it (KIP-98)."""
    key = struct.pack(">hh", version, kind)
    record = b"\0" + timestamp + b"\0" + b"\x08" + key + b"\x0c" + bytes(6) + b"\0"
    body = bytes([2 * len(record)]) + record
    head = struct.pack(">qiiBIhiqqqhii", 7, 49 + len(body), 3, 2, 0, attributes, 0, 5, 5, 99, 1, -1, 1)
    return head + body


@settings(deadline=None)
@given(st.lists(drawn_batches(), max_size=4), st.data())
def test_headers_are_as_kafka_python_reads_them(written: list[bytes], data):
    records = b"".join(written)
    cut = data.draw(st.integers(0, len(records)))
    whole = sum(cut >= sum(map(len, written[: at + 1])) for at in range(len(written)))

    found = list(batches(memoryview(records)[:cut]))

    assert len(found) == whole
    for batch, one in zip(found, written, strict=False):
        theirs = DefaultRecordBatch(bytearray(one))
        assert records[batch.at : batch.at + batch.size] == one
        assert batch[2:] == (
            theirs.base_offset,
            theirs.leader_epoch,
            theirs.crc,
            theirs.attributes,
            theirs.last_offset_delta,
            theirs.first_timestamp,
            theirs.max_timestamp,
            theirs.producer_id,
            theirs.producer_epoch,
            theirs.base_sequence,
            theirs.records_count,
        )
        assert (batch.last_offset, batch.next_offset) == (theirs.last_offset, theirs.next_offset)
        assert batch.is_transactional == theirs.is_transactional
        assert batch.is_control == theirs.is_control_batch is False
        assert batch.has_log_append_time == (theirs.timestamp_type == 1)


@settings(deadline=None)
@given(drawn_batches(), st.integers(0, 2**63 - 1), NUMBER)
def test_a_batch_is_placed_and_its_check_sum_still_holds(written: bytes, base_offset: int, epoch: int):
    moved = b"".join(bytes(piece) for piece in with_offset(memoryview(written), base_offset, epoch))

    (before,), (after,) = batches(written), batches(moved)

    assert after == before._replace(base_offset=base_offset, leader_epoch=epoch)
    assert moved[16:] == written[16:]
    assert DefaultRecordBatch(bytearray(moved)).validate_crc()


def test_a_batch_with_the_time_of_the_broker_is_known():
    (batch,) = batches(marker(1, attributes=0x08))
    assert batch.has_log_append_time
    assert not batch.is_transactional
    assert not batch.is_control


@pytest.mark.parametrize("timestamp", [b"\0", b"\xff" * 9 + b"\x01"])
@pytest.mark.parametrize(
    ("kind", "said"), [(0, "ABORT"), (1, "COMMIT"), (2, "OTHER"), (5, "OTHER"), (-1, "OTHER"), (-7, "OTHER")]
)
def test_a_control_batch_says_how_a_transaction_ended(kind: int, said: str, timestamp: bytes):
    written = marker(kind, timestamp=timestamp)
    (batch,) = batches(written)
    assert batch.is_control
    assert batch.is_transactional
    assert control_type(memoryview(written)) is ControlType[said]


def test_what_is_no_control_batch_says_nothing():
    for spoilt in (b"", marker(1)[:-1], marker(1, attributes=0x10), marker(1, attributes=0x31)):
        with pytest.raises(MessageMalformed, match="not a control batch"):
            control_type(spoilt)
    empty = struct.pack(">qiiBIhiqqqhii", 7, 49, 3, 2, 0, 0x20, 0, 5, 5, 99, 1, -1, 0)
    with pytest.raises(MessageMalformed, match="ends within"):
        control_type(empty)


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (16, b"\1", "magic 1"),
        (8, struct.pack(">i", 48), "less than a header"),
        (8, struct.pack(">i", -1), "less than a header"),
        (23, struct.pack(">i", -1), "ends before it begins"),
        (57, struct.pack(">i", -1), "ends before it begins"),
    ],
)
def test_what_cannot_be_is_refused(at: int, value: bytes, said: str):
    spoilt = bytearray(marker(1) * 2)
    second = len(spoilt) // 2
    spoilt[second + at : second + at + len(value)] = value
    reading = batches(spoilt)
    assert next(reading).at == 0
    with pytest.raises(MessageMalformed, match=said):
        next(reading)


def test_an_old_message_is_refused_however_short_it_is():
    with pytest.raises(MessageMalformed, match="magic 0"):
        list(batches(struct.pack(">qiIBBii", 0, 14, 0, 0, 0, -1, -1)))


@settings(deadline=None)
@given(st.binary(max_size=200) | drawn_batches(), st.lists(st.tuples(NUMBER, st.integers(0, 255)), max_size=6))
def test_garbage_ends_in_words_or_in_batches_within_it(garbage: bytes, flips: list[tuple[int, int]]):
    spoilt = bytearray(garbage)
    for at, byte in flips:
        if spoilt:
            spoilt[at % len(spoilt)] = byte
    try:
        for batch in batches(spoilt):
            assert batch.next_offset > batch.base_offset
            assert batch.at + batch.size <= len(spoilt)
            control_type(spoilt[batch.at : batch.at + batch.size])
    except MessageMalformed as error:
        assert str(error)
    try:
        with_offset(spoilt, 0, 0)
    except MessageMalformed:
        assert len(spoilt) < 61
