"""Records of the offset map, and the metadata that committers write with offsets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.offsets import commit_metadata, offset_map
from backend.domain.offsets.commit_metadata import CommitMark
from backend.domain.offsets.offset_map import End, GroupPartition, MapInvalid, Progress

longs = st.integers(-(2**63), 2**63 - 1)
times = st.integers(0, 2**62)
names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,30}", fullmatch=True)
group_partitions = st.builds(
    GroupPartition,
    tenant=names,
    instance=names,
    environment=names,
    stream=names,
    partition=st.integers(0, 2**31 - 1),
    group=st.from_regex(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,30}", fullmatch=True),
)
vectors = st.none() | st.dictionaries(
    st.integers(0, 65535), st.tuples(st.integers(0, 2**32 - 1), times), max_size=6
)
progresses = st.builds(
    Progress,
    timestamp_ms=st.none() | longs,
    committed_at_ms=times,
    generation=st.integers(0, 99),
    vector=vectors,
    offset=times,
    passed=vectors.map(lambda vector: vector or {}),
    whole=st.booleans(),
    topic_incarnation=st.none() | st.integers(0, 2**32 - 1),
)
ends = st.builds(End, committed_at_ms=times, generation=st.integers(0, 99))
marks = st.builds(
    CommitMark,
    flags=st.integers(0, 2**31 - 1),
    timestamp_ms=st.integers(-(10**18), 10**18),
    committed_at_ms=st.integers(0, 10**18),
    generation=st.integers(0, 10**9),
    cluster=st.from_regex(r"[a-z0-9][a-z0-9._-]{0,40}", fullmatch=True),
)


@given(group_partitions, names, progresses | ends)
def test_records_survive_the_topic(group_partition, cluster, progress):
    assert offset_map.decode_key(offset_map.encode_key(group_partition, cluster)) == (group_partition, cluster)
    assert offset_map.decode_value(offset_map.encode_value(progress)) == progress


@given(st.binary(max_size=80))
def test_whatever_bytes_are_read_or_refused_and_nothing_else(data):
    for read in (offset_map.decode_key, offset_map.decode_value):
        with pytest.raises(MapInvalid):
            read(data)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"[]", "no JSON object"),
        (b"{}", "no 'timestamp_ms'"),
        (b'{"timestamp_ms": "1"}', "'1' is no 64-bit integer"),
        (b'{"timestamp_ms": 1, "committed_at_ms": true}', "True is no 64-bit integer"),
        (b'{"timestamp_ms": 1, "committed_at_ms": 1e999}', "inf is no 64-bit integer"),
        (
            b'{"timestamp_ms":1,"committed_at_ms":1,"generation":1,"vector":[]}',
            r"the vector \[\] is no JSON object",
        ),
        (
            b'{"timestamp_ms":1,"committed_at_ms":1,"generation":1,"vector":{"a":[1,1]}}',
            "'a': .* no part of a vector",
        ),
        (
            b'{"timestamp_ms":1,"committed_at_ms":1,"generation":1,"vector":{"1":[1]}}',
            "'1': .* no part of a vector",
        ),
        (b'{"timestamp_ms":1,"committed_at_ms":1,"generation":1,"vector":{},"offset":-5}', "-5 is not between"),
        (b'{"timestamp_ms":1,"committed_at_ms":9223372036854775807}', "9223372036854775807 is not between"),
        (b'{"timestamp_ms":1,"committed_at_ms":1,"generation":2147483648}', "2147483648 is not between"),
        (
            b'{"timestamp_ms":1,"committed_at_ms":1,"generation":1,"vector":{"1":[1,-2]}}',
            "-2 is not between",
        ),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_a_refusal_says_what_is_wrong(value, told):
    with pytest.raises(MapInvalid, match=told):
        offset_map.decode_value(value)


KEY = {"tenant": "a", "instance": "b", "environment": "c", "stream": "d", "partition": 0, "group": "g"}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"group": "g\0"}, "is no name of a group"),
        ({"group": "g" * 250}, "is no name of a group"),
        ({"group": 7}, "7 is no name of a group"),
        ({"stream": "d/e"}, "'d/e' is no name"),
        ({"tenant": ""}, "'' is no name"),
        ({"origin_cluster": "c" * 5_000}, "ccc.* is no name"),
        ({"partition": -1}, "-1 is no partition"),
        ({"partition": 2**31}, "is no partition"),
        ({"partition": None}, "None is no 64-bit integer"),
    ],
)
def test_a_key_that_nobody_of_us_wrote_is_refused(changed, told):
    key = {**KEY, "origin_cluster": "cluster-1", **changed}
    with pytest.raises(MapInvalid, match=told):
        offset_map.decode_key(json.dumps(key).encode())


@pytest.mark.parametrize("number", ["9" * 5_000, "65536000", "-1", "1.0", "\u0663", ""])
def test_a_vector_with_numbers_that_no_cluster_has_is_refused(number):
    value = {"timestamp_ms": 1, "committed_at_ms": 1, "generation": 1, "vector": {number: [1, 1]}, "offset": 1}
    with pytest.raises(MapInvalid, match="no part of a vector"):
        offset_map.decode_value(json.dumps(value).encode())


def test_a_tombstone_is_no_progress():
    assert offset_map.decode_value(None) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), progresses), max_size=5))
def test_every_cluster_chooses_the_same_newest(found):
    chosen = offset_map.newest(found)
    assert (chosen is None) == (not found)
    assert chosen is None or all(chosen[1].order >= each.order for _, each in found)
    back = offset_map.newest(reversed(found))
    assert chosen is None or (back is not None and (back[0], back[1].order) == (chosen[0], chosen[1].order))


@given(marks)
def test_metadata_survives_the_broker(mark):
    text = commit_metadata.encode(mark)
    assert commit_metadata.is_ours(text)
    assert commit_metadata.decode(text) == mark


def test_the_zero_byte_at_its_end_is_no_part_of_it():
    mark = CommitMark(flags=5, timestamp_ms=-1, committed_at_ms=18, generation=3, cluster="cluster-1")
    assert commit_metadata.decode(commit_metadata.encode(mark) + "\0") == mark


def test_the_metadata_of_the_contract():
    mark = CommitMark(flags=5, timestamp_ms=17, committed_at_ms=18, generation=3, cluster="cluster-1")
    assert commit_metadata.encode(mark) == "treeline:1;copy-flags=0101;ts=17;at=18;gen=3;from=cluster-1"
    assert not any(commit_metadata.is_ours(text) for text in ("treeline", "treelines: 3", " treeline:1", "", None))


@pytest.mark.parametrize(
    "text", [None, "", "mine", "treeline:2;x", "treeline:1;copy-flags=01;ts=1;at=1;gen=1;from=c"]
)
def test_what_is_not_of_this_form_says_nothing(text):
    assert commit_metadata.decode(text) is None
    assert commit_metadata.is_ours(text) == (text or "").startswith("treeline:")


@given(st.text(max_size=60))
def test_whatever_text_is_a_mark_or_none(text):
    found = commit_metadata.decode("treeline:1;" + text)
    # Clients end it with a zero byte.
    assert found is None or commit_metadata.encode(found) == ("treeline:1;" + text).rstrip("\0")
