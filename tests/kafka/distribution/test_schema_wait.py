"""Schema before data on two real clusters: records wait for schemas that the target's topic does not have yet."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from backend.domain.distribution.edges import Endpoint
from backend.kafka.copy import native
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.session import CopySession
from backend.registry.records import Content, SchemaVersion, VersionGone, encode
from tests.eventually import eventually
from tests.kafka.distribution.test_copy_session import Pair, numbered, values
from tests.support.kafka.topics import create_topic, read_all
from workers.distribution.schema_gates import SchemaGates

LONG_SECONDS = 3600.0
"""A wait longer than any test."""
NOBODY_LISTENS = "127.0.0.1:9"


def wire(schema_id, text):
    return b"\0" + struct.pack(">I", schema_id) + text


class Gated(Pair):
    """A pair whose source is the primary; both have a schemas topic of this test's own."""

    def __init__(self, estate, record_loop, wait_seconds=LONG_SECONDS):
        super().__init__(estate, record_loop=record_loop)
        self.schemas = f"_schemas.{self.mark}"
        for cluster in (self.a, self.b):
            create_topic(self.servers[cluster], self.schemas, 1, cleanup_policy="compact")
        self.sessions = []
        self.gates = self.new_gates(wait_seconds)

    def endpoint(self, name):
        number = 1 if name == self.a else 2
        return Endpoint(name=name, number=number, bootstrap_servers=self.servers[name], properties={})

    def new_gates(self, wait_seconds):
        """Create the gates of one worker process."""
        gates = SchemaGates(self.schemas, wait_seconds)
        gates.assign(self.endpoint(self.a))
        return gates

    def write_schemas(self, cluster, *ids, gone=()):
        producer = Producer({"bootstrap.servers": self.servers[cluster], "enable.idempotence": True})
        for schema_id in ids:
            content = Content(text=f'{{"type": "fixed", "name": "F{schema_id}", "size": 1}}')
            record = SchemaVersion(subject=f"s{schema_id}", version=1, id=schema_id, content=content)
            producer.produce(self.schemas, *reversed(encode(record)))
        for schema_id in gone:
            producer.produce(self.schemas, *reversed(encode(VersionGone(subject=f"s{schema_id}", version=1))))
        assert producer.flush(30) == 0

    def read_schemas(self):
        """Have the gates read both topics, so that nothing waits for their first read."""
        for name in (self.a, self.b):
            followed = self.gates.follow(self.endpoint(name))
            eventually(lambda followed=followed: followed.mirror.ready, f"the schemas of {name} are read")

    def session(self, source=None, plan=None, gates=None, **options):
        control_plane = ControlPlane(
            lost=self.lost.append, dead_letter=self.dead_letter, schema_gate=(gates or self.gates).of
        )
        session = CopySession(plan or self.plan(source), self.limits, control_plane=control_plane, **options)
        self.sessions.append(session)
        session.open(lambda: True)
        return session

    def copy_until(self, session, done, what):
        def look():
            session.copy_batch(0.2)
            return done()

        return eventually(look, what)

    def close(self):
        for session in self.sessions:
            session.close()
        self.gates.tidy(())


@pytest.fixture(params=[pytest.param("python", marks=pytest.mark.nightly), "native"])
def pair(request, estate):
    if request.param == "native" and not native.available():
        pytest.skip("the native record loop was not built")
    found = Gated(estate, request.param)
    yield found
    found.close()


def held(session):
    return session.totals.schema_holds > 0 and session.troubles()


def of(messages, partition):
    return [message.value() for message in messages if message.partition() == partition]


def test_records_wait_for_their_schema_in_order_and_others_do_not(pair):
    pair.write_schemas(pair.a, 3, 5)
    pair.write_schemas(pair.b, 3)
    first = [wire(3, b"a"), b"plain", wire(5, b"b"), wire(3, b"c"), wire(5, b"d")]
    second = [wire(3, b"e"), b"f"]
    pair.produce([{"value": each, "partition": 0} for each in first])
    pair.produce([{"value": each, "partition": 1} for each in second])
    pair.read_schemas()
    session = pair.session()
    troubles = pair.copy_until(
        session, lambda: session.totals.copied_records == 4 and held(session), "what need not wait"
    )
    assert "schema 5" in troubles[pair.topic, 0]
    assert pair.b in troubles[pair.topic, 0]
    assert of(pair.copied(), 0) == first[:2]
    assert of(pair.copied(), 1) == second
    # Neighbours continue while it waits.
    pair.produce([{"value": b"g", "partition": 1}])
    pair.copy_until(session, lambda: session.totals.copied_records == 5, "the neighbour goes on")
    pair.write_schemas(pair.b, 5)
    pair.copy_until(session, lambda: session.totals.copied_records == 8, "what waited")
    assert of(pair.copied(), 0) == first
    assert session.totals.schema_holds >= 1
    assert session.totals.schema_held_seconds > 0
    assert session.totals.schema_waits_run_out == 0
    assert session.troubles() == {}


@pytest.mark.parametrize("pair", ["python", "native"], indirect=True)
def test_a_key_has_a_schema_too(pair):
    pair.write_schemas(pair.a, 3, 5)
    pair.write_schemas(pair.b, 3)
    # Otherwise the record could wait for the value's schema, which is not read yet.
    pair.read_schemas()
    pair.produce([{"key": wire(5, b"k"), "value": wire(3, b"v"), "partition": 0}])
    session = pair.session()
    pair.copy_until(session, lambda: held(session), "held")
    assert "waits for schema 5," in str(session.troubles())
    assert pair.copied() == []
    pair.write_schemas(pair.b, 5)
    pair.copy_until(session, lambda: session.totals.copied_records == 1, "what waited")


def test_a_session_that_dies_while_it_waits_is_followed_by_one_that_copies_once(pair):
    pair.write_schemas(pair.a, 5)
    sent = [b"before", wire(5, b"x"), b"behind"]
    pair.produce([{"value": each, "partition": 0} for each in sent])
    session = pair.session()
    pair.copy_until(session, lambda: session.totals.copied_records == 1 and held(session), "held")
    session.close()
    other_process = pair.new_gates(LONG_SECONDS)
    second = pair.session(gates=other_process)
    pair.copy_until(second, lambda: held(second), "held again")
    assert values(pair.copied()) == sent[:1]
    pair.write_schemas(pair.b, 5)
    pair.copy_until(second, lambda: second.totals.copied_records == 2, "what waited")
    assert values(pair.copied()) == sent
    assert pair.lost == []
    other_process.tidy(())


def test_when_the_wait_runs_out_records_go_before_their_schema(pair):
    pair.gates = pair.new_gates(0.5)
    pair.write_schemas(pair.a, 5, 6)
    pair.write_schemas(pair.b, 6)
    pair.read_schemas()
    sent = [wire(5, b"x"), wire(6, b"y"), wire(5, b"z")]
    pair.produce([{"value": each, "partition": 0} for each in sent])
    session = pair.session()
    pair.copy_until(session, lambda: session.totals.copied_records == 3, "all of it")
    assert values(pair.copied()) == sent
    assert session.totals.schema_holds >= 1
    assert session.totals.schema_waits_run_out == 1


def test_other_data_that_looks_like_an_id_goes_on(pair):
    pair.write_schemas(pair.a, 3)
    pair.write_schemas(pair.b, 3)
    numbers = [struct.pack(">q", n) for n in (0, 1, 2**24 * 4, 1_700_000_000_000, 2**24 * 5)]
    pair.produce([{"value": each, "partition": 0} for each in numbers])
    session = pair.session()
    pair.copy_until(session, lambda: session.totals.copied_records == 5, "all of it")
    assert values(pair.copied()) == numbers
    assert session.totals.schema_waits_run_out == 0


def test_an_id_that_is_deleted_for_good_meanwhile_is_waited_for_no_more(pair):
    pair.write_schemas(pair.a, 5)
    pair.produce([{"value": wire(5, b"x"), "partition": 0}])
    session = pair.session()
    pair.copy_until(session, lambda: held(session), "held")
    pair.write_schemas(pair.a, gone=[5])
    pair.copy_until(session, lambda: session.totals.copied_records == 1, "what waited")
    assert session.totals.schema_waits_run_out == 0


def test_a_schemas_topic_that_cannot_be_read_holds_records_up_once(pair):
    pair.gates = pair.new_gates(0.5)
    pair.gates.assign(replace(pair.endpoint(pair.a), bootstrap_servers=NOBODY_LISTENS))
    pair.write_schemas(pair.b, 3)
    sent = [wire(3, b"known"), wire(4, b"x"), wire(5, b"y"), wire(6, b"z")]
    pair.produce([{"value": each, "partition": 0} for each in sent])
    session = pair.session()
    pair.copy_until(session, lambda: session.totals.copied_records == 4, "all of it")
    assert values(pair.copied()) == sent
    assert session.totals.schema_waits_run_out >= 1


@pytest.mark.nightly  # skipped records: tests/unit/native and test_copy_session::test_nothing_comes_back
def test_what_is_not_copied_waits_for_nothing(pair):
    """Check the reverse case: the source has copies of the target's own records."""
    pair.gates.assign(replace(pair.endpoint(pair.a), name="elsewhere"))
    pair.produce([{"value": wire(7, b"x"), "partition": 0}])
    there = pair.session(gates=SchemaGates(pair.schemas, 0))
    pair.copy_until(there, lambda: there.totals.copied_records == 1, "copied without a gate")
    back = pair.session(source=pair.b)
    pair.copy_until(back, lambda: back.totals.skipped_records == 1, "left alone")
    assert back.totals.schema_holds == 0


@pytest.mark.nightly  # test_schema_gate
def test_a_stream_that_is_let_go_while_it_waits_comes_back(pair):
    pair.write_schemas(pair.a, 5)
    pair.read_schemas()
    pair.produce([{"value": wire(5, b"x"), "partition": 0}])
    session, plan = pair.session(), pair.plan()
    pair.copy_until(session, lambda: held(session), "held")
    holds = session.totals.schema_holds
    session.update(())
    assert session.troubles() == {}
    session.copy_batch(0.1)
    session.update(plan.streams)
    pair.copy_until(session, lambda: session.totals.schema_holds > holds, "held again")
    pair.write_schemas(pair.b, 5)
    pair.copy_until(session, lambda: session.totals.copied_records == 1, "what waited")


def test_streams_without_schemas_open_no_connection_for_them(pair):
    pair.produce(numbered(50))
    session = pair.session()
    pair.copy_until(session, lambda: session.totals.copied_records == 50, "all of it")
    assert pair.gates.followed(pair.endpoint(pair.a)) is None
    assert pair.gates.followed(pair.endpoint(pair.b)) is None


@pytest.mark.nightly  # many at once: test_schema_gate has the order
def test_many_ids_and_many_partitions_at_once(pair):
    ids = range(1, 400)
    pair.write_schemas(pair.a, *ids)
    sent = [(n % 2, wire(1 + n * 7 % 399, b"%d" % n)) for n in range(5000)]
    pair.produce([{"value": value, "partition": partition} for partition, value in sent])
    session = pair.session()
    for first in range(1, 400, 100):
        pair.copy_until(session, lambda: held(session), "held")
        pair.write_schemas(pair.b, *range(first, min(first + 100, 400)))
    pair.copy_until(session, lambda: session.totals.copied_records == 5000, "all of it")
    copied = read_all(pair.servers[pair.b], pair.copy_topic)
    for partition in (0, 1):
        assert of(copied, partition) == [value for at, value in sent if at == partition]
