"""What the reconcile loop plans, as a table: observed against desired."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.domain import steps
from backend.domain.steps import (
    AlignTopic,
    CreateTopic,
    DeleteTopic,
    GrowTopic,
    KnownCluster,
    RecordOffline,
    RecordOnline,
    RefuseTopic,
    SeenCluster,
    SeenTopic,
    UnwantedTopic,
    WantedTopic,
)

ONLINE = KnownCluster(online=True, reason=None, kafka_cluster_id="k1", brokers=3)
NEW = KnownCluster(online=False, reason=None, kafka_cluster_id=None, brokers=None)
DOWN = KnownCluster(online=False, reason="refused", kafka_cluster_id="k1", brokers=3)
ANSWERS = SeenCluster(kafka_cluster_id="k1", brokers=3)
SILENT = SeenCluster(reason="refused")


@pytest.mark.parametrize(
    ("known", "seen", "planned"),
    [
        (ONLINE, ANSWERS, []),
        (ONLINE, SILENT, [RecordOffline(cluster="c", reason="refused")]),
        (ONLINE, SeenCluster(unsure=True), []),
        (ONLINE, replace(ANSWERS, brokers=2), [RecordOnline(cluster="c", kafka_cluster_id="k1", brokers=2)]),
        (DOWN, SILENT, []),
        (DOWN, ANSWERS, [RecordOnline(cluster="c", kafka_cluster_id="k1", brokers=3)]),
        (NEW, SILENT, [RecordOffline(cluster="c", reason="refused")]),
        (NEW, ANSWERS, [RecordOnline(cluster="c", kafka_cluster_id="k1", brokers=3)]),
    ],
    ids=["fine", "went", "unsure", "lost a broker", "still down", "came back", "never came", "came first"],
)
def test_only_a_change_of_a_clusters_health_is_recorded(known, seen, planned):
    assert steps.cluster_steps("c", known, seen) == planned


WANTED = WantedTopic(
    stream="acme/retail/prod/orders",
    cluster="c",
    topic="orders",
    partitions=4,
    replication_factor=3,
    min_insync_replicas=2,
    config={"retention.ms": "1000"},
    revision=1,
    applied=False,
    topic_id=None,
)
THERE = SeenTopic(topic_id="t1", partitions=4, replication_factor=3)
CONFIG = {"retention.ms": "1000", "min.insync.replicas": "2"}


def plan(wanted, *, topic=None, brokers=3, **seen):
    topics = {"orders": topic} if topic else {}
    look = SeenCluster(kafka_cluster_id="k1", brokers=brokers, topics=topics, **seen)
    return steps.topic_steps([wanted], [], {"c": look})


def test_an_absent_topic_is_created_as_declared():
    assert plan(WANTED) == [CreateTopic(wanted=WANTED, replication_factor=3, config=CONFIG)]


def test_a_cluster_with_fewer_brokers_gets_as_many_replicas_as_it_can_hold():
    config = {**CONFIG, "min.insync.replicas": "1"}
    assert plan(WANTED, brokers=1) == [CreateTopic(wanted=WANTED, replication_factor=1, config=config)]


def test_a_topic_that_is_there_is_aligned_and_recorded_once():
    assert plan(WANTED, topic=THERE) == [
        AlignTopic(wanted=WANTED, config=CONFIG, topic_id="t1", replication_factor=3)
    ]
    assert plan(replace(WANTED, applied=True, topic_id="t1"), topic=THERE) == []


def test_a_topic_that_somebody_made_anew_is_recorded_again():
    again = replace(WANTED, applied=True, topic_id="t0")
    assert plan(again, topic=THERE) == [
        AlignTopic(wanted=again, config=CONFIG, topic_id="t1", replication_factor=3)
    ]


def test_too_few_partitions_grow():
    assert plan(WANTED, topic=replace(THERE, partitions=2)) == [GrowTopic(wanted=WANTED, present=2)]


def test_too_many_partitions_are_refused_with_both_numbers_and_only_once():
    (step,) = plan(WANTED, topic=replace(THERE, partitions=6))
    assert isinstance(step, RefuseTopic)
    assert "6" in step.reason and "4" in step.reason
    assert plan(replace(WANTED, failure=step.reason), topic=replace(THERE, partitions=6)) == []


def test_nothing_is_done_on_a_cluster_that_does_not_answer_or_was_not_looked_at():
    assert steps.topic_steps([WANTED], [], {"c": SILENT}) == []
    assert steps.topic_steps([WANTED], [], {}) == []


@pytest.mark.parametrize(
    ("topic", "present"),
    [(THERE, True), (replace(THERE, topic_id="made anew"), False), (None, False)],
    ids=["there", "another topic of the name", "gone"],
)
def test_only_the_deleted_streams_own_topic_is_deleted(topic, present):
    gone = UnwantedTopic(stream="acme/retail/prod/orders", cluster="c", topic="orders", topic_id="t1")
    look = SeenCluster(kafka_cluster_id="k1", brokers=1, topics={"orders": topic} if topic else {})
    assert steps.topic_steps([], [gone], {"c": look}) == [DeleteTopic(unwanted=gone, present=present)]


def test_topics_leave_room_for_our_headers_and_keep_the_producers_time():
    config = steps.topic_config(None, "compact")
    assert int(config["max.message.bytes"]) > steps.DEFAULT_MAX_MESSAGE_BYTES
    assert config["message.timestamp.type"] == "CreateTime"
    assert "retention.ms" not in config
