"""Header names that are not UTF-8, which any producer can write, on a real broker."""

from __future__ import annotations

import uuid

import pytest

from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.kafka.admin import header_sample
from backend.kafka.base.message_headers import UNREADABLE_NAME, headers_of, unreadable_names
from backend.kafka.search.record_search import Log, Place
from tests.support.kafka.topics import (
    DEADLINE_SECONDS,
    create_topic,
    produce,
    produce_with_names,
    read_all,
)

FLAGS = copy_flags.encode(2)
BORN = origin.encode(Origin(1, origin.stream_id("acme/retail/prod/orders"), 0, 0, 1))
OURS = [(b"copy-flags", FLAGS), (b"copy-origin", BORN)]


@pytest.fixture
def servers(estate):
    return estate.bootstrap_servers("cluster-1")


@pytest.fixture
def topic(servers):
    name = f"named.{uuid.uuid4().hex[:8]}"
    create_topic(servers, name)
    return name


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", b"half \xe2\x82", b"\xed\xa0\x80", b"\xc0\x80", b"latin-\xe9"], ids=repr
)
def test_an_unreadable_name_is_replaced_and_all_else_is_kept(servers, topic, name):
    produce_with_names(servers, topic, [(b"h", b"1"), (name, b"2"), (b"", b""), (name, b""), *OURS])
    produce(
        servers, topic, [{"value": b"w", "headers": [(UNREADABLE_NAME.encode().decode(), b"own"), ("n", None)]}]
    )
    strange, plain = read_all(servers, topic)
    found = headers_of(strange)
    assert (
        found
        == headers_of(strange)
        == [
            ("h", b"1"),
            (UNREADABLE_NAME, b"2"),
            ("", b""),
            (UNREADABLE_NAME, b""),
            ("copy-flags", FLAGS),
            ("copy-origin", BORN),
        ]
    )
    assert unreadable_names(found) == 2
    assert headers_of(plain) == [(UNREADABLE_NAME, b"own"), ("n", None)]
    assert unreadable_names(headers_of(plain)) == 0, "a name of the same text is another producer's own"


def test_a_hot_loop_reads_them_as_well(servers, topic):
    """The interpreter skips a check in calls that it has specialised."""
    for _ in range(3):
        produce_with_names(servers, topic, [(b"\xff", b"1")])
    produce(servers, topic, [{"value": b"%d" % n, "headers": [("n", b"1")]} for n in range(300)])
    for _ in range(3):
        produce_with_names(servers, topic, [(b"\xff", b"1")])
    names = [name for message in read_all(servers, topic) for name, _ in headers_of(message)]
    assert names == [UNREADABLE_NAME] * 3 + ["n"] * 300 + [UNREADABLE_NAME] * 3


def test_traces_and_adoptions_read_past_them(servers, topic):
    offset = produce_with_names(servers, topic, [(b"\xff", b"1"), *OURS])
    log = Log(Place(servers, {}, topic, 0), 30.0)
    try:
        found = log.at(offset)
    finally:
        log.close()
    assert found is not None and ("copy-origin", BORN) in found.headers
    named = header_sample.topics_with(["copy-flags"], servers, {}, {topic: 1}, DEADLINE_SECONDS)
    assert named == {topic}
