"""Records of `__consumer_offsets`: every version that brokers write, and bytes that nobody wrote."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.offsets import group_log
from backend.domain.offsets.group_log import OffsetKey, OffsetValue, Unreadable

texts = st.text(st.characters(codec="utf-8"), max_size=300)
longs = st.integers(-(2**63), 2**63 - 1)
ids = st.none() | st.binary(min_size=16, max_size=16)


def string(text):
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def varint(number):
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def key_of(version, group, topic, partition):
    return struct.pack(">h", version) + string(group) + string(topic) + struct.pack(">i", partition)


def value_of(version, offset, epoch, metadata, committed_at, topic_id=None, unknown_tag=b""):
    data = struct.pack(">hq", version, offset)
    if version >= 3:
        data += struct.pack(">i", epoch)
    if version < 4:
        data += string(metadata)
    else:
        text = metadata.encode()
        data += varint(len(text) + 1) + text
    data += struct.pack(">q", committed_at)
    if version == 1:
        data += struct.pack(">q", 77)
    if version >= 4:
        tags = {0: topic_id} if topic_id else {}
        if unknown_tag:
            tags[9] = unknown_tag
        data += varint(len(tags)) + b"".join(varint(n) + varint(len(b)) + b for n, b in tags.items())
    return data


@given(st.sampled_from((0, 1)), texts, texts, st.integers(0, 2**31 - 1))
def test_keys_of_both_versions(version, group, topic, partition):
    assert group_log.offset_key(key_of(version, group, topic, partition)) == OffsetKey(group, topic, partition)


@given(st.integers(0, 4), longs, st.integers(-1, 2**31 - 1), texts, longs, ids, st.binary(max_size=20))
def test_values_of_all_versions(version, offset, epoch, metadata, committed_at, topic_id, unknown):
    found = group_log.offset_value(value_of(version, offset, epoch, metadata, committed_at, topic_id, unknown))
    expected = OffsetValue(
        offset, metadata, committed_at, epoch if version >= 3 else -1, topic_id if version >= 4 else None
    )
    assert found == expected


@pytest.mark.parametrize("version", group_log.OTHER_KEYS)
def test_records_of_groups_themselves_are_no_offsets(version):
    assert group_log.offset_key(struct.pack(">h", version) + string("a group")) is None


def test_a_tombstone_is_no_value():
    assert group_log.offset_value(None) is None


@given(st.binary(max_size=60))
def test_whatever_bytes_are_read_or_refused_and_nothing_else(data):
    for read in (group_log.offset_key, group_log.offset_value):
        try:
            read(data)
        except Unreadable as error:
            assert str(error)


@given(st.integers(0, 4), texts, st.data())
def test_what_is_cut_short_or_too_long_is_refused(version, metadata, data):
    whole = value_of(version, 5, 1, metadata, 9, b"0123456789abcdef")
    cut = data.draw(st.integers(0, len(whole) - 1))
    for broken in (whole[:cut], whole + b"\0"):
        with pytest.raises(Unreadable):
            group_log.offset_value(broken)


@pytest.mark.parametrize(
    ("read", "data", "told"),
    [
        (group_log.offset_key, None, "no key"),
        (group_log.offset_key, b"\0\x09", "key of type 9"),
        (group_log.offset_value, b"\0\x05", "value of version 5; known are 0 to 4"),
        (group_log.offset_value, b"\xff\xff", "value of version -1"),
        (group_log.offset_key, b"\0\1\0\2\xff\xff\0\0\0\0\0\0", "not UTF-8"),
        (group_log.offset_key, b"\0\1\xff\xff", "a string of length -1"),
        (group_log.offset_value, b"\0\4" + bytes(12) + b"\0", "no string where one must be"),
        (group_log.offset_value, b"\0\4" + bytes(12) + b"\xff" * 6, "a length of more than five bytes"),
    ],
)
def test_a_refusal_says_what_is_wrong(read, data, told):
    with pytest.raises(Unreadable, match=told):
        read(data)
