"""Search for one record in a real log, whatever the order of timestamps; and its time of arrival."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import Producer

from backend.domain.distribution import trace
from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.search import record_search
from backend.kafka.search.record_search import Log, NotThere, Place
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.kafka.topics import create_topic, produce, topics

STREAM = origin.stream_id("t/i/e/s")
CLOCKS_MS = 1_000
"""Far more than the observed difference of the clocks of two processes on one machine (10 ms)."""
BASE = 1_700_000_000_000


@pytest.fixture
def servers(estate):
    return estate.bootstrap_servers("cluster-1")


@pytest.fixture
def topic(servers):
    name = f"searched.{uuid.uuid4().hex[:8]}"
    create_topic(servers, name)
    return name


@pytest.fixture
def log(servers, topic):
    opened = Log(Place(servers, {}, topic, 0), 30.0)
    yield opened
    opened.close()


def copy(cluster, offset, timestamp_ms):
    headers = [
        ("copy-flags", copy_flags.encode(1)),
        ("copy-origin", origin.encode(Origin(cluster, STREAM, 0, offset, 1))),
    ]
    return {"value": b"v", "partition": 0, "timestamp": timestamp_ms, "headers": headers}


def judge_of(cluster, offset):
    def judge(record):
        found = trace.read_marks(record.headers, "copy-flags", "copy-origin").origin
        if found is None or found.cluster != cluster:
            return None
        return (found.offset > offset) - (found.offset < offset)

    return judge


ORDERS = {
    "timestamps rise": lambda n: BASE + n,
    "all the same": lambda n: BASE,
    "the first is the newest": lambda n: BASE + (1000 if n == 0 else n),
    "they fall": lambda n: BASE + 1000 - n,
}


@some_now("timestamp", ORDERS.values(), now=(0, 1), ids=ORDERS)
@some_now("scanned", [5, 5000], now=(0,))
def test_every_record_is_found_and_no_other(servers, topic, log, monkeypatch, timestamp, scanned):
    """Check two alternating origins; the first has even offsets only, so odd ones must not be found."""
    monkeypatch.setattr(record_search, "SCANNED_RECORDS", scanned)
    monkeypatch.setattr(record_search, "HALVED_DOWN_TO", 4)
    produce(servers, topic, [copy(1 + n % 2, n, timestamp(n)) for n in range(120)])
    for offset in (0, 2, 58, 60, 116, 118):
        found = log.find(judge_of(1, offset), timestamp(offset))
        assert not isinstance(found, NotThere), offset
        assert found.offset == offset
    for offset in (1, 59, 117):
        assert log.find(judge_of(1, offset), timestamp(offset)) == NotThere(later_there=True)
    assert log.find(judge_of(1, 500), timestamp(119)) == NotThere(later_there=False)
    assert isinstance(log.find(judge_of(3, 5), timestamp(0)), NotThere)


def test_behind_the_last_timestamp_there_is_nothing(servers, topic, log):
    assert log.find(judge_of(1, 0), BASE) == NotThere(later_there=False)
    produce(servers, topic, [copy(1, 0, BASE)])
    assert log.find(judge_of(1, 1), BASE + 1) == NotThere(later_there=False)


@pytest.fixture
def transactional(servers):
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"test.{uuid.uuid4().hex}"})
    producer.init_transactions(30)
    return producer


def commit(producer, log, end):
    """Commit, and wait until the marker stands before `end`: a coordinator answers before it sends it."""
    producer.commit_transaction(30)
    eventually(lambda: log.range().high == end, f"the marker stands before {end}")


@pytest.mark.nightly
def test_the_time_of_arrival_lies_between_production_and_commit(topic, log, transactional):
    moments = []
    for round_ in range(3):
        before = int(time.time() * 1000)
        transactional.begin_transaction()
        for n in range(3):
            transactional.produce(topic, b"v", timestamp=BASE + round_ * 10 + n)
        commit(transactional, log, 4 * (round_ + 1))
        moments += [(before, int(time.time() * 1000))] * 3
    offsets = [0, 1, 2, 4, 5, 6, 8, 9, 10]
    arrivals = [log.arrived_at_ms(log.at(offset), compacted=False) for offset in offsets]
    assert arrivals == sorted(arrivals)
    for first in (0, 3, 6):
        assert len({*arrivals[first : first + 3]}) == 1  # one transaction, one marker
    for arrived, (before, after) in zip(arrivals, moments, strict=True):
        assert before - CLOCKS_MS <= arrived <= after + CLOCKS_MS


def test_without_a_marker_the_time_of_arrival_is_not_known(servers, topic, log):
    produce(servers, topic, [{"value": b"v", "partition": 0, "timestamp": BASE + n} for n in range(3)])
    assert log.arrived_at_ms(log.at(1), compacted=False) is None


def test_a_timestamp_ahead_of_the_marker_hides_it(topic, log, transactional):
    ahead = int(time.time() * 1000) + 3_000
    for end, timestamp in ((2, ahead), (4, ahead + 1_800_000)):
        transactional.begin_transaction()
        transactional.produce(topic, b"v", timestamp=timestamp)
        commit(transactional, log, end)
    first, second = log.at(0), log.at(2)
    assert log.arrived_at_ms(second, compacted=False) is None
    assert log.arrived_at_ms(first, compacted=True) is None
    # A bound in the future says nothing; one in the past does.
    bound = eventually(lambda: log.arrived_at_ms(first, compacted=False), "the bound is in the past", 0.5)
    assert bound == ahead


def test_offsets_without_a_record(topic, log, transactional):
    transactional.begin_transaction()
    transactional.produce(topic, b"aborted")
    transactional.flush()
    assert log.range().high == 0  # nobody is shown an open transaction
    transactional.abort_transaction(30)
    transactional.begin_transaction()
    transactional.produce(topic, b"kept")
    commit(transactional, log, 4)
    assert log.range().low == 0
    assert [log.at(offset) and log.at(offset).offset for offset in range(4)] == [None, None, 2, None]
    assert [bool(log.at_uncommitted(offset)) for offset in range(4)] == [True, False, True, False]


def test_nobody_waits_longer_than_told_for_a_cluster_that_is_away():
    opened = Log(Place("127.0.0.1:9", {}, "orders", 0), 0.5)
    with pytest.raises(KafkaCallFailed) as failed:
        opened.range()
    assert failed.value.reason
    opened.close()


def test_an_unknown_topic_is_told(servers):
    opened = Log(Place(servers, {}, "never-made", 0), 5.0)
    with pytest.raises(KafkaCallFailed):
        opened.range()
    opened.close()
    assert "never-made" not in topics(servers)
