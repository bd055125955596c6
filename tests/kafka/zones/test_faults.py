"""Faults: malformed data, half-open connections, brokers and nodes that fail.

The node keeps running, and unrelated clients are unaffected.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Message, Producer

from tests.eventually import eventually
from tests.kafka.zones.test_gateway import everything
from tests.nightly import some_now
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import BOTH_WAYS, BY_MAINS_NOW, Router, client, produce_request

API_VERSIONS = struct.pack(">hhih", 18, 0, 7, 8) + b"zone=az1"
METADATA = struct.pack(">hhih", 3, 1, 8, 8) + b"zone=az1" + struct.pack(">i", 0)


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


class Raw:
    """A raw TCP connection."""

    def __init__(self, port: int, timeout: float = 20) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> bytes:
        """Return the message of the next frame."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = self._socket.recv(count - len(found))
            if not piece:
                raise EOFError(f"the connection ends after {len(found)} of {count} bytes")
            found += piece
        return found

    @property
    def is_ended(self) -> bool:
        """Wait until the other end closes the connection, whatever it sends before."""
        try:
            while self._socket.recv(65536):
                pass
            return True
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._socket.close()


@contextmanager
def neighbour(router: Router, zone: str = "az1") -> Iterator[Raw]:
    """Provide another connection to the same listener, which must keep working."""
    raw = Raw(router.nodes[zone].brokers[1])
    raw.send(framed(API_VERSIONS))
    assert raw.answer()[:4] == struct.pack(">i", 7)
    yield raw
    raw.send(framed(METADATA))
    assert raw.answer()[:4] == struct.pack(">i", 8), "its connection is the same as before"
    raw.close()


def tls_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    return outgoing.read()


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": tls_hello(),
    "random": bytes(range(200, 256)) * 40,
    "size of nothing": struct.pack(">i", 0),
    "negative size": struct.pack(">i", -5),
    "oversized": struct.pack(">i", 100 * 1024 * 1024 + 1),
    "too short": framed(b"\0\3"),
    "a name without end": framed(struct.pack(">hhih", 3, 1, 8, 999) + b"zone"),
    "produce without end": framed(struct.pack(">hhih", 0, 9, 1, 0) + b"\0\xff"),
}


UNSUPPORTED = {
    "unknown request": framed(struct.pack(">hhih", 999, 0, 1, 0)),
    "too new": framed(struct.pack(">hhih", 3, 99, 1, 0)),
    "between brokers": framed(struct.pack(">hhih", 4, 0, 1, 0) + b"\0" * 40),
}


@pytest.mark.parametrize(
    ("why", "sent"),
    [
        *(pytest.param("garbage", sent, id=kind) for kind, sent in GARBAGE.items()),
        *(pytest.param("unsupported-version", sent, id=kind) for kind, sent in UNSUPPORTED.items()),
    ],
)
def test_garbage_ends_its_own_connection_and_no_other(router: Router, why: str, sent: bytes):
    node = router.nodes["az1"]
    before = node.refused(why)
    with neighbour(router):
        for port in (node.bootstrap, node.brokers[1]):
            raw = Raw(port)
            raw.send(sent)
            assert raw.is_ended
            raw.close()
    assert node.lives and node.refused(why) == before + 2


def test_a_long_name_in_two_pieces_is_no_garbage(router: Router):
    raw = Raw(router.nodes["az1"].brokers[1])
    name = b"zone=az1-" + b"x" * 700
    message = framed(struct.pack(">hhih", 18, 0, 7, len(name)) + name)
    raw.send(message[:600])
    time.sleep(0.1)
    raw.send(message[600:])
    assert raw.answer()[:4] == struct.pack(">i", 7)
    raw.close()


@some_now("answered_by", ["the node", "the broker"], now=(1,))
def test_a_client_that_asks_and_never_reads_does_not_fill_the_node(router: Router, answered_by: str):
    """The client sends requests for the node itself or for the broker as fast as it can."""
    node = router.nodes["az1"]
    before = node.memory()
    too_new = framed(struct.pack(">hhih", 18, 77, 5, 0) + b"\0")
    request = too_new if answered_by == "the node" else framed(METADATA)
    raw = Raw(node.brokers[1], timeout=2)
    with contextlib.suppress(TimeoutError):
        for _ in range(400):
            raw.send(request * 5_000)
    with neighbour(router):
        assert node.memory() - before < 40_000_000
    raw.close()


@BY_MAINS_NOW
def test_what_was_sent_without_waiting_for_an_answer_arrives_although_its_sender_is_gone(
    router: Router, topic: str
):
    for number in range(30):
        raw = Raw(router.nodes["az1"].brokers[3])
        message = produce_request(topic, number, acks=0, partition=2)
        raw.send(framed(message))
        raw.close()
    eventually(lambda: len(everything(router.brokers.servers, topic)) == 30, "all are there")


@BY_MAINS_NOW
def test_what_came_before_garbage_is_done(router: Router, topic: str):
    """Brokers do the same, even if the connection closes before the node is connected to one."""
    for number in range(5):
        raw = Raw(router.nodes["az1"].brokers[3])
        raw.send(framed(produce_request(topic, number, acks=0, partition=2)) + GARBAGE["random"])
        assert raw.is_ended
        raw.close()
    eventually(lambda: len(everything(router.brokers.servers, topic)) == 5, "all are there")


@BOTH_WAYS
def test_who_waits_for_no_answer_and_asks_the_wrong_broker_is_let_down(router: Router, topic: str):
    """The connection closes, as at a broker, so that the client looks for the leader."""
    raw = Raw(router.nodes["az1"].brokers[1])
    raw.send(framed(produce_request(topic, 1, acks=0, partition=2)))  # led by broker 3
    assert raw.is_ended
    raw.close()


def test_garbage_after_good_requests_ends_the_connection_too(router: Router):
    with neighbour(router):
        raw = Raw(router.nodes["az1"].brokers[2])
        raw.send(framed(API_VERSIONS) + framed(METADATA) + GARBAGE["random"])
        assert raw.is_ended
        raw.close()


def test_a_version_of_api_versions_that_is_too_new_is_answered_with_what_is_spoken(router: Router):
    raw = Raw(router.nodes["az1"].brokers[1])
    too_new = struct.pack(">hhih", 18, 77, 5, 0) + b"\0whatever it is"
    raw.send(framed(METADATA) + framed(too_new) + framed(API_VERSIONS))
    answers = [raw.answer() for _ in range(3)]
    assert [answer[:4] for answer in answers] == [struct.pack(">i", number) for number in (8, 5, 7)], "in order"
    assert answers[1][4:] == struct.pack(">hihhh", 35, 1, 18, 0, 4)
    raw.close()


def test_a_request_in_crumbs_is_answered(router: Router):
    raw = Raw(router.nodes["az1"].brokers[1])
    for byte in framed(API_VERSIONS) + framed(METADATA):
        raw.send(bytes([byte]))
        time.sleep(0.001)
    assert raw.answer()[:4] == struct.pack(">i", 7) and raw.answer()[:4] == struct.pack(">i", 8)
    raw.close()


def test_connections_that_stay_half_open_cost_nobody_anything(router: Router):
    """Clients send part of a request or nothing, and wait; their cost is bounded by the bytes sent."""
    node = router.nodes["az1"]
    before = node.memory()
    waiting = [Raw(node.brokers[1]) for _ in range(200)]
    for number, raw in enumerate(waiting):
        if number % 2:
            raw.send(struct.pack(">i", 90_000_000) + API_VERSIONS)
    with neighbour(router):
        pass
    producer = Producer(client(node))
    assert producer.list_topics(timeout=DEADLINE_SECONDS).brokers
    assert node.memory() - before < 30_000_000
    for raw in waiting:
        raw.close()
    eventually(lambda: node.samples("connections")[("east",)] < 50, "they are forgotten")


def test_who_goes_in_the_midst_of_a_request_is_forgotten(router: Router):
    with neighbour(router):
        for cut in (2, 4, 9, 20):
            raw = Raw(router.nodes["az1"].brokers[1])
            raw.send(framed(METADATA)[:cut])
            raw.close()
    assert router.nodes["az1"].lives


class Producing:
    """Idempotent producer of numbers to all partitions in the background."""

    def __init__(self, router: Router, topic: str, zone: str) -> None:
        self.done: list[Message] = []
        self.failed: list[str] = []
        self._topic, self._ended = topic, threading.Event()
        self._producer = Producer(
            client(
                router.nodes[zone],
                enable_idempotence=True,
                linger_ms=2,
                delivery_timeout_ms=1000 * int(DEADLINE_SECONDS),
                reconnect_backoff_max_ms=500,
            )
        )
        self._thread = threading.Thread(target=self._run)
        self.handed_in = 0

    def _run(self) -> None:
        while not self._ended.is_set():
            number = self.handed_in
            self._producer.produce(self._topic, str(number), partition=number % 6, on_delivery=self._delivered)
            self.handed_in += 1
            self._producer.poll(0.002)

    def _delivered(self, error: object, message: Message) -> None:
        (self.failed.append(str(error)) if error else self.done.append(message))

    def __enter__(self) -> Producing:
        self._thread.start()
        eventually(lambda: len(self.done) > 100, "records are written")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop producing, and flush."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(DEADLINE_SECONDS) == 0

    def resumed(self) -> None:
        """Wait until records produced from now on are written."""
        from_now = self.handed_in
        eventually(lambda: any(int(each.value()) >= from_now for each in reversed(self.done)), "it goes on")


def each_once(router: Router, topic: str, producing: Producing) -> None:
    """Assert that every produced record is there once, in its partition's order."""
    assert producing.failed == []
    log = everything(router.brokers.servers, topic)
    numbers = Counter(int(value) for _, _, _, _, value, _, _ in log)
    assert [number for number, times in numbers.items() if times > 1] == []
    assert set(numbers) == set(range(producing.handed_in))
    for partition in range(6):
        mine = [int(value) for at, _, _, _, value, _, _ in log if at == partition]
        assert mine == sorted(mine)


def test_a_node_that_is_killed_and_comes_back_loses_and_doubles_nothing(router: Router, topic: str):
    with Producing(router, topic, "az2") as producing:
        router.nodes["az2"].end(kill=True)
        time.sleep(1)
        router.nodes["az2"].start()
        producing.resumed()
    each_once(router, topic, producing)


@pytest.mark.nightly  # a node that is killed stays
def test_a_node_that_ends_in_order_answers_what_waits(router: Router, topic: str):
    with Producing(router, topic, "az2") as producing:
        assert router.nodes["az2"].end() == 0
        router.nodes["az2"].start()
        producing.resumed()
    each_once(router, topic, producing)


@pytest.mark.nightly  # a node that is killed stays
def test_a_node_that_stood_still_goes_on(router: Router, topic: str):
    node = router.nodes["az2"]
    with Producing(router, topic, "az2") as producing:
        assert node.process is not None
        os.kill(node.process.pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(node.process.pid, signal.SIGCONT)
        producing.resumed()
    each_once(router, topic, producing)


@BY_MAINS_NOW
def test_a_broker_that_is_killed_is_left_for_the_next_leader(router: Router, topic: str):
    before = router.nodes["az1"].refused("broker-away")
    with Producing(router, topic, "az1") as producing:
        router.brokers.kill(2)
        producing.resumed()
        router.brokers.start(2)
        producing.resumed()
    each_once(router, topic, producing)
    assert router.nodes["az1"].refused("broker-away") >= before


@pytest.mark.nightly
def test_a_reader_that_does_not_read_does_not_fill_the_node(router: Router, topic: str):
    """The client fetches 100 MB and does not read: the data stays in the brokers."""
    node = router.nodes["az1"]
    producer = Producer(client(node, linger_ms=20, message_max_bytes=1_000_000))
    for number in range(300):
        producer.produce(topic, os.urandom(500_000), partition=0 if number % 2 else 3)
        producer.poll(0)
        if number % 20 == 0:
            producer.flush()
    assert producer.flush(DEADLINE_SECONDS) == 0
    before = node.memory()
    name = topic.encode()
    asked = struct.pack(">iii", 100, 1, 100_000_000) + b"\0" + struct.pack(">iii", 0, -1, 1)
    asked = struct.pack(">i", -1) + asked + struct.pack(">h", len(name)) + name + struct.pack(">i", 2)
    for partition in (0, 3):
        asked += struct.pack(">iiqqi", partition, -1, 0, -1, 60_000_000)
    asked += struct.pack(">i", 0) + struct.pack(">h", 0)
    readers = [Raw(node.brokers[1]) for _ in range(8)]
    for reader in readers:
        for number in range(4):
            reader.send(framed(struct.pack(">hhih", 1, 11, number, 8) + b"zone=az1" + asked))
    time.sleep(4)
    grown = node.memory() - before
    assert grown < 8 * 24_000_000, grown
    first = readers[0].answer()
    assert first[:4] == struct.pack(">i", 0) and 4_000_000 < len(first) < 9_000_000
    for reader in readers:
        reader.close()
