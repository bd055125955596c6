"""Barriers on a real broker: ids that may have copied to a leaf are fenced before it enters its routes."""

from __future__ import annotations

import threading
import uuid

import pytest
import sqlalchemy as sa
from confluent_kafka import KafkaException, Producer

from backend import deciders
from backend.dispatch import Dispatcher
from backend.domain.distribution.assignment import Task
from backend.domain.distribution.leaf import EnterRoutes
from backend.eventlog.registry import domain_registry
from backend.kafka.copy import fencing
from backend.projections.catalogue import PROJECTIONS
from backend.queries.distribution.leaf_routes import get_leaf
from tests.eventually import eventually
from tests.support.api.rest import rest_settings
from tests.support.api.streams import worker_records
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, read_all
from workers import context
from workers.distribution.barrier import Barriers

BUCKETS = 2
FORMER_LEVEL, FORMER_BUCKETS, LEVEL = 5, 4, 2


class Joined:
    """Two leaves with unique names; `leaf` had other routes before, with more tasks."""

    def __init__(self, rest, database, estate):
        mark = uuid.uuid4().hex[:8]
        self.leaf, self.other = f"leaf-{mark}", f"other-{mark}"
        self.topic = f"barrier.{mark}"
        self.servers = estate.bootstrap_servers("cluster-1")
        self.database = database
        create_topic(self.servers, self.topic)
        rest.add_clusters(self.leaf, bootstrap_servers=self.servers)
        rest.add_clusters(self.other)
        self.put_tree(rest, FORMER_LEVEL)
        routes = self.routes().wanted
        entered = EnterRoutes(cluster=self.leaf, routes=routes, wanted=routes, fenced=4, buckets=FORMER_BUCKETS)
        worker_records(rest, entered, deciders.LEAF, f"leaf-{self.leaf}")
        self.put_tree(rest, LEVEL)
        with database.engine.begin() as connection:
            # Its broker may have been too busy for the probe.
            online = sa.text("UPDATE clusters SET state = 'online', reason = NULL WHERE name = :name")
            connection.execute(online, {"name": self.leaf})

    def put_tree(self, rest, level):
        children = [{"cluster": self.leaf}, {"cluster": self.other}]
        answer = rest("PUT", "/trees/main", {"level": level, "children": children})
        assert answer.status_code in (200, 201), answer.text

    def routes(self):
        with self.database.engine.connect() as connection:
            return get_leaf(connection, self.leaf)

    @property
    def has_entered(self):
        return self.routes().entered_as(BUCKETS)


@pytest.fixture
def joined(rest, database, estate):
    return Joined(rest, database, estate)


@pytest.fixture
def barriers(database, monkeypatch):
    made = Dispatcher(database.engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: made)
    return Barriers(database.engine, rest_settings(database.url, partition_buckets=BUCKETS))


def test_what_copied_before_is_fenced_before_the_leaf_has_entered(joined, barriers):
    former = Task(joined.other, FORMER_LEVEL, FORMER_BUCKETS - 1)
    late = Producer({"bootstrap.servers": joined.servers, "transactional.id": former.kafka_name})
    late.init_transactions(DEADLINE_SECONDS)
    late.begin_transaction()
    late.produce(joined.topic, b"of the former routes")
    assert late.flush(DEADLINE_SECONDS) == 0
    barriers.tick()
    eventually(lambda: joined.has_entered, "the leaf has entered")
    with pytest.raises(KafkaException):
        late.commit_transaction(DEADLINE_SECONDS)
    assert read_all(joined.servers, joined.topic) == []


def test_a_leaf_with_an_id_that_cannot_be_fenced_has_not_entered(joined, barriers, monkeypatch):
    def passes():
        return any(each.name == f"barrier-{joined.leaf}" for each in threading.enumerate())

    with monkeypatch.context() as patch:
        # Brokers refuse a transaction with such a long timeout.
        patch.setattr(fencing, "_SECONDS", 100_000.0)
        barriers.tick()
        eventually(lambda: not passes(), "the barrier is given up")
    assert not joined.has_entered
    barriers.tick()
    eventually(lambda: joined.has_entered, "the leaf has entered once its ids could be fenced")
