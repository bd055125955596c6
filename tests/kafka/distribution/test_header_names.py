"""Records whose header names are not UTF-8 are copied, and one that cannot be copied stops no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.kafka.base.message_headers import UNREADABLE_NAME, headers_of
from backend.kafka.copy import native
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.wire import metadata
from backend.kafka.wire.fetch_requests import FetchPartition, FetchRequest, fetch_request
from backend.kafka.wire.fetch_responses import read_fetch_response
from tests.eventually import eventually
from tests.kafka.distribution.test_copy_session import Pair, numbered, values
from tests.kafka.distribution.test_distributor_thread import start
from tests.kafka.zones.test_codecs import Connection
from tests.support.kafka.topics import configure, produce_with_names, read_all

__all__ = ["start"]

NAME = b"latin-\xe9\xff"


@pytest.fixture
def pair(request, estate):
    if request.param == "native" and not native.available():
        pytest.skip("the native record loop was not built")
    made = Pair(estate, record_loop=request.param)
    made.limits = replace(made.limits, quarantine_topic=f"aside.{made.mark}")
    return made


def stored(servers: str, topic: str, partition: int) -> bytes:
    """Return a partition's batches as its leader holds them."""
    host, port = servers.split(",")[0].split(":")
    first = Connection(host, int(port))
    told = metadata.read_metadata(first.ask(metadata.metadata_request(5, b"tests", [topic])))
    first.end()
    leaders = {each.partition: each.leader_id for each in told.topics[0].partitions}
    (place,) = [(each.host, each.port) for each in told.brokers if each.node == leaders[partition]]
    leader = Connection(*place)
    asked = FetchPartition(topic, partition, -1, 0, -1, -1, 10_000_000)
    answer = leader.ask(fetch_request(4, 9, b"tests", FetchRequest(500, 1, 10_000_000, 0, 0, -1, [asked])))
    leader.end()
    return b"".join(map(bytes, read_fetch_response(4, answer).partitions[0].records))


@pytest.mark.parametrize("pair", ["native"], indirect=True)
def test_a_name_is_copied_byte_by_byte(pair):
    produce_with_names(pair.servers[pair.a], pair.topic, [(NAME, b"one"), (b"h", b"2"), (NAME, b"two")])
    pair.produce(numbered(10, partitions=1))
    pair.copy_until_idle()
    strange, *others = pair.copied()
    assert [name for name, _ in headers_of(strange)] == [
        UNREADABLE_NAME,
        "h",
        UNREADABLE_NAME,
        "copy-flags",
        "copy-origin",
    ]
    assert stored(pair.servers[pair.b], pair.copy_topic, 0).count(bytes([2 * len(NAME)]) + NAME) == 2
    assert values(others) == [b"%d" % n for n in range(10)]
    assert pair.refused == []


@pytest.mark.parametrize("pair", ["python", "native"], indirect=True)
def test_in_python_it_becomes_a_dead_letter_and_the_others_are_copied(pair, start):
    """The loop in C hands over to Python for the last step of the search for a record that is too large."""
    configure(pair.servers[pair.b], pair.copy_topic, {"max.message.bytes": "100000"})
    produce_with_names(pair.servers[pair.a], pair.topic, [(NAME, b"one"), (b"h", b"2")], b"strange")
    pair.produce([{"value": b"x" * 200_000, "partition": 0}, *numbered(20, partitions=1)])
    start(pair.plan(), control_plane=ControlPlane(dead_letter=pair.dead_letter))
    eventually(lambda: len(pair.copied()) == 20, "the others are copied")
    assert values(pair.copied()) == [b"%d" % n for n in range(20)]
    assert [(each.partition, each.offset) for each in pair.refused] == [(0, 0), (0, 1)]
    assert "the name of a header is not UTF-8" in pair.refused[0].reason
    strange, _ = read_all(pair.servers[pair.b], pair.limits.quarantine_topic)
    assert strange.value() == b"strange" and headers_of(strange)[:2] == [(UNREADABLE_NAME, b"one"), ("h", b"2")]
