"""Clients derive a broker's features from the advertised versions, and do the same through a node.

A version that a broker does not accept ends as it does there.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import pytest

from backend.kafka.wire import metadata
from backend.kafka.wire.apis import SUPPORTED_VERSIONS, Api
from backend.kafka.wire.batches import batches
from backend.kafka.wire.fetch_requests import FetchPartition, FetchRequest, fetch_request
from backend.kafka.wire.fetch_responses import read_fetch_response
from tests.eventually import eventually
from tests.kafka.zones.test_codecs import Connection
from tests.kafka.zones.test_faults import API_VERSIONS, METADATA, Raw, framed
from tests.nightly import some_now
from tests.support.kafka.older_clients import NEWEST, RELEASES, environment
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import BOTH_WAYS, BY_MAINS_NOW, Router

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Codecs by their number in a batch's attributes."""
TELEMETRY = (71, 72)
"""Requests that brokers accept without a telemetry receiver, and do not advertise then."""
RECORDS, VALUE_BYTES = 100, 1_000
PRODUCES = f"""
import sys
from confluent_kafka import Producer, libversion
servers, topic = sys.argv[1:]
for partition, codec in enumerate({CODECS!r}):
    producer = Producer({{
        "bootstrap.servers": servers, "client.id": "zone=az2", "compression.type": codec, "linger.ms": 500,
    }})
    for _ in range({RECORDS}):
        producer.produce(topic, b"compressible" * 100, partition=partition)
    assert producer.flush({DEADLINE_SECONDS}) == 0
print(libversion()[0])
"""


def request(api_key: int, version: int, body: bytes = bytes(30), *, flexible: bool = False) -> bytes:
    tags = b"\0" if flexible else b""
    return struct.pack(">hhih", api_key, version, 77, 8) + b"zone=az1" + tags + body


def broker_port(router: Router) -> int:
    """Return the port of broker 1."""
    return int(router.brokers.servers.split(",")[0].rpartition(":")[2])


def outcome(port: int, message: bytes) -> bytes | None:
    """Return the response, None for a connection that closes without one."""
    raw = Raw(port)
    try:
        raw.send(framed(message))
        return raw.answer()
    except (EOFError, ConnectionResetError):
        return None
    finally:
        raw.close()


def logged(router: Router, topic: str) -> dict[str, tuple[set[int], int]]:
    """Return each codec's partition as the leaders have it: the codecs of its batches, and their bytes."""
    host, port = router.brokers.servers.split(",")[0].split(":")
    connection = Connection(host, int(port))
    told = metadata.read_metadata(connection.ask(metadata.metadata_request(5, b"tests", [topic])))
    connection.end()
    at = {each.node: each for each in told.brokers}
    found = {}
    for each in told.topics[0].partitions:
        leader = Connection(at[each.leader_id].host, at[each.leader_id].port)
        asked = FetchPartition(topic, each.partition, -1, 0, -1, -1, 10_000_000)
        request = fetch_request(4, 9, b"tests", FetchRequest(500, 1, 10_000_000, 0, 0, -1, [asked]))
        (partition,) = read_fetch_response(4, leader.ask(request)).partitions
        leader.end()
        if each.partition < len(CODECS):
            records = b"".join(map(bytes, partition.records))
            codecs = {batch.attributes & 7 for batch in batches(records)}
            assert sum(batch.record_count for batch in batches(records)) == RECORDS
            found[CODECS[each.partition]] = codecs, len(records)
    return found


@BY_MAINS_NOW
@some_now("release", RELEASES, now=(0, len(RELEASES) - 1))
def test_every_release_compresses_with_every_codec(router: Router, topic: str, release: str):
    """librdkafka 2.3 to 2.6 sends gzip, snappy and lz4 uncompressed where Produce does not begin at version 0."""
    done = subprocess.run(
        [sys.executable, "-c", PRODUCES, router.nodes["az2"].servers, topic],
        env={**os.environ, **environment(release)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert release in (NEWEST, done.stdout.strip())

    found = logged(router, topic)

    assert {codec: codecs for codec, (codecs, _) in found.items()} == {
        codec: {number} for number, codec in enumerate(CODECS)
    }
    assert found["none"][1] > RECORDS * VALUE_BYTES
    assert all(size < RECORDS * VALUE_BYTES / 10 for codec, (_, size) in found.items() if codec != "none")


@BOTH_WAYS
@pytest.mark.parametrize("version", range(6))
def test_clients_are_told_the_same_versions_as_by_the_broker(router: Router, version: int):
    """The responses are identical byte for byte; version 5, unknown to Kafka 4.1, gets UNSUPPORTED_VERSION."""
    body = b"\2c\2" + b"1\0" if version >= 3 else b""
    asked = request(Api.API_VERSIONS, version, body, flexible=version >= 3)

    def told() -> bytes | None:
        """Return the response that both give between two changes of the metadata epoch, which it contains."""
        through = outcome(router.nodes["az1"].brokers[1], asked)
        return through if through == outcome(broker_port(router), asked) else None

    answer = eventually(told, "the node and the broker tell the same")
    assert struct.unpack_from(">h", answer, 4) == ((35,) if version == 5 else (0,))


def test_a_version_that_brokers_do_not_take_ends_as_it_does_there(router: Router):
    """Brokers answer only ApiVersions in any version, and close the connection for all others."""
    direct = Connection("127.0.0.1", broker_port(router))
    spoken = metadata.read_api_versions(direct.ask(metadata.api_versions_request(3, b"tests")))
    direct.end()
    untaken = {(key, version) for key, of in spoken.items() for version in (of.first - 1, of.last + 1, 32767)}
    untaken |= {(key, 0) for key in range(100) if key not in {*spoken, *TELEMETRY}}
    acks = {
        f"produce {version} acks {number}": struct.pack(">hi", number, 1_000)
        for version in range(3)
        for number in (0, 1)
    }
    asked = {f"{key}-{version}": request(key, version) for key, version in untaken}
    asked |= {name: request(Api.PRODUCE, int(name.split()[1]), body + bytes(4)) for name, body in acks.items()}

    node, broker = router.nodes["az1"].brokers[1], broker_port(router)
    through = {name: outcome(node, message) for name, message in asked.items()}

    assert through == {name: outcome(broker, message) for name, message in asked.items()}
    assert {name for name, answer in through.items() if answer} == {"18--1", "18-5", "18-32767"}
    assert router.nodes["az1"].refused("unsupported-version") > len(SUPPORTED_VERSIONS)
    assert router.nodes["az1"].refused("garbage") == 0


@BOTH_WAYS
def test_what_was_asked_before_a_version_that_is_not_taken_is_answered_and_nothing_behind_it(router: Router):
    unknown = framed(request(Api.METADATA, 99))
    for port in (router.nodes["az1"].brokers[1], broker_port(router)):
        raw = Raw(port)
        raw.send(framed(METADATA) + framed(API_VERSIONS) + unknown + framed(METADATA))
        assert [raw.answer()[:4] for _ in range(2)] == [struct.pack(">i", 8), struct.pack(">i", 7)]
        with pytest.raises((EOFError, ConnectionResetError)):
            raw.answer()
        raw.close()


def test_a_handshake_whose_tokens_cannot_be_passed_on_is_refused_and_the_connection_goes_on(router: Router):
    raw = Raw(router.nodes["az1"].brokers[1])
    raw.send(framed(request(Api.SASL_HANDSHAKE, 0, b"\0\5PLAIN")))
    assert raw.answer() == struct.pack(">ihi", 77, 35, 0)
    raw.send(framed(API_VERSIONS))
    assert raw.answer()[:4] == struct.pack(">i", 7)
    raw.close()
