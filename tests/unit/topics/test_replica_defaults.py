"""Replicas of streams that do not declare them, as tables."""

from __future__ import annotations

import pytest

from backend.domain.base.errors import ValueInvalid
from backend.domain.clusters import cluster
from backend.domain.clusters.cluster import AddCluster, ChangeCluster, ClusterAdded
from backend.domain.topics.replica_defaults import ClusterDefaultsSet, ReplicaDefaults, replicas_for
from backend.domain.topics.steps import AlignTopic, RestoreTopic, SeenCluster, SeenTopic, WantedTopic, topic_steps
from backend.domain.topics.stream_settings import StreamSettings
from backend.eventlog.registry import domain_registry


@pytest.mark.parametrize(
    ("declared", "defaults", "brokers", "topic"),
    [
        # (factor, minimum) that the stream declares, that the cluster has, brokers -> those of its topic
        ((None, None), (None, None), 1, (1, 1)),
        ((None, None), (None, None), 2, (2, 1)),
        ((None, None), (None, None), 3, (3, 2)),
        ((None, None), (None, None), 9, (3, 2)),
        ((1, None), (None, None), 3, (1, 1)),
        ((1, 1), (None, None), 3, (1, 1)),
        ((2, None), (None, None), 3, (2, 1)),
        ((5, None), (None, None), 9, (5, 2)),
        ((None, 1), (None, None), 3, (3, 1)),
        ((None, 3), (None, None), 3, (3, 3)),
        ((None, None), (2, None), 3, (2, 1)),
        ((None, None), (2, 2), 3, (2, 2)),
        ((None, None), (4, 3), 3, (3, 3)),
        ((2, None), (4, 3), 9, (2, 1)),
        ((3, 2), (1, 1), 3, (3, 2)),
    ],
)
def test_three_replicas_and_two_in_sync_unless_stream_or_cluster_say_otherwise(declared, defaults, brokers, topic):
    replicas = replicas_for(
        *declared, ReplicaDefaults(replication_factor=defaults[0], min_insync_replicas=defaults[1])
    )
    factor = min(replicas.factor, brokers)
    assert (factor, replicas.minimum_of(factor)) == topic


def test_a_cluster_shows_what_a_stream_gets_there():
    automatic = ReplicaDefaults()
    assert automatic.shown(3) == {"replication_factor": 3, "min_insync_replicas": 2}
    assert automatic.shown(1) == {"replication_factor": 1, "min_insync_replicas": 1}
    assert automatic.shown(None) == {"replication_factor": None, "min_insync_replicas": None}


ADDED = AddCluster(name="c1", number=1, bootstrap_servers="10.0.0.1:9092")
TWO = ReplicaDefaults(replication_factor=2)


def test_defaults_are_set_with_the_cluster_or_later_and_taken_back():
    (added,) = cluster.decide(None, ADDED)
    assert isinstance(added, ClusterAdded)
    state = cluster.evolve(None, added)
    (event,) = cluster.decide(state, ChangeCluster(defaults=TWO))
    assert event == ClusterDefaultsSet(replication_factor=2, min_insync_replicas=None)
    state = cluster.evolve(state, event)
    assert cluster.decide(state, ChangeCluster(defaults=TWO)) == []
    assert cluster.decide(state, ChangeCluster()) == []
    (event,) = cluster.decide(state, ChangeCluster(defaults=ReplicaDefaults()))
    assert event == ClusterDefaultsSet(replication_factor=None, min_insync_replicas=None)


@pytest.mark.parametrize(
    ("factor", "minimum", "pointer"),
    [
        (0, None, "/defaults/replication_factor"),
        (None, 0, "/defaults/min_insync_replicas"),
        (2, 3, "/defaults/min_insync_replicas"),
        (None, 4, "/defaults/min_insync_replicas"),
    ],
)
def test_defaults_that_no_topic_could_have_are_refused(factor, minimum, pointer):
    (added,) = cluster.decide(None, ADDED)
    wanted = ReplicaDefaults(replication_factor=factor, min_insync_replicas=minimum)
    with pytest.raises(ValueInvalid) as refused:
        cluster.decide(cluster.evolve(None, added), ChangeCluster(defaults=wanted))
    assert [error.pointer for error in refused.value.errors] == [pointer]


def test_streams_declared_before_keep_the_one_replica_that_they_had():
    data = {
        "tenant": "acme",
        "instance": "retail",
        "environment": "prod",
        "stream": "orders",
        "revision": 1,
        "partitions": 1,
        "replication_factor": 1,
        "min_insync_replicas": 1,
        "retention_ms": -1,
        "cleanup_policy": "delete",
        "max_message_bytes": 1000,
        "distributed": True,
    }
    event = domain_registry().decode("StreamDeclared", 2, data)
    assert (event.replication_factor, event.min_insync_replicas, event.config) == (1, 1, {})
    assert StreamSettings().replication_factor is None


@pytest.mark.parametrize(("found", "expected"), [("2", AlignTopic), ("3", RestoreTopic)])
def test_a_minimum_that_follows_other_defaults_was_changed_by_nobody(found, expected):
    before, now = ReplicaDefaults(), ReplicaDefaults(replication_factor=3, min_insync_replicas=1)
    wanted = replicas_for(None, None, now)
    topic = WantedTopic(
        stream="a/b/c/d", cluster="c1", topic="t", partitions=1, replication_factor=wanted.factor, config={},
        min_insync_replicas=wanted.minimum, leaves_one=wanted.leaves_one, revision=1, applied=True, topic_id="T",
        recorded_factor=3, replicas_before=replicas_for(None, None, before),
    )  # fmt: skip
    seen = SeenTopic(
        topic_id="T", partitions=1, replication_factor=3, config={"min.insync.replicas": found}, records=1
    )
    (step,) = topic_steps([topic], [], {"c1": SeenCluster(kafka_cluster_id="K", brokers=3, topics={"t": seen})})
    assert isinstance(step, expected) and step.config == {"min.insync.replicas": "1"}
