"""Plans of the reconcile loop, as a table: observed against desired."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.domain.topics import steps
from backend.domain.topics.steps import (
    AlignTopic,
    CreateTopic,
    DeleteTopic,
    FollowGrowth,
    GrowTopic,
    KnownCluster,
    RecordOffline,
    RecordOnline,
    RefuseTopic,
    RestoreTopic,
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
CONFIG = {"retention.ms": "1000", "min.insync.replicas": "2"}
OTHER = {"retention.ms": "5", "min.insync.replicas": "2", "segment.ms": "9"}
THERE = SeenTopic(topic_id="t1", partitions=4, replication_factor=3, config=OTHER)
APPLIED = replace(WANTED, applied=True, topic_id="t1")


def plan(wanted, *, topic=None, brokers=3, **seen):
    topics = {"orders": topic} if topic else {}
    look = SeenCluster(kafka_cluster_id="k1", brokers=brokers, topics=topics, **seen)
    return steps.topic_steps([wanted], [], {"c": look})


def test_an_absent_topic_is_created_as_declared():
    assert plan(WANTED) == [CreateTopic(wanted=WANTED, replication_factor=3, config=CONFIG)]


def test_a_cluster_with_fewer_brokers_gets_as_many_replicas_as_it_can_hold():
    config = {**CONFIG, "min.insync.replicas": "1"}
    assert plan(WANTED, brokers=1) == [CreateTopic(wanted=WANTED, replication_factor=1, config=config)]


def test_a_setting_that_is_no_longer_declared_goes_back_to_the_default_once():
    released = replace(APPLIED, applied=False, released=frozenset({"segment.ms", "flush.ms"}))
    there = replace(THERE, config={**OTHER, **CONFIG}, own={"segment.ms": "9", "retention.ms": "1000"})
    (step,) = plan(released, topic=there)
    assert (step.config, step.reset) == ({}, ("segment.ms",))
    # From then on it is the topic's owner's.
    assert plan(replace(released, applied=True), topic=there) == []


@pytest.mark.parametrize(
    ("replicas", "leaves_one", "minimum"),
    [(1, True, "1"), (2, True, "1"), (3, True, "2"), (2, False, "2"), (1, False, "1")],
)
def test_a_minimum_that_nobody_declared_leaves_a_replica_to_spare(replicas, leaves_one, minimum):
    wanted = replace(WANTED, leaves_one=leaves_one)
    (step,) = plan(wanted, brokers=replicas)
    assert (step.replication_factor, step.config["min.insync.replicas"]) == (replicas, minimum)


LONE = replace(THERE, replication_factor=1, config={**OTHER, **CONFIG, "min.insync.replicas": "1"})
ON_ONE = replace(APPLIED, recorded_factor=1)
COPYING = {"in_sync": False}


@pytest.mark.parametrize(
    ("recorded", "present", "minimum", "factor"),
    [
        # Declared with 3 replicas and 2 in sync, created when there was one broker: nothing moves by that.
        (1, {"replication_factor": 1}, "1", None),
        # A replica that is being copied does not raise the minimum, nor make an event.
        (1, {"replication_factor": 2, **COPYING}, "1", None),
        (1, {"replication_factor": 2}, "2", 2),
        (1, {"replication_factor": 3}, "2", 3),
        (2, {"replication_factor": 3, **COPYING}, "2", None),
        (2, {"replication_factor": 3}, "2", 3),
        # Brokers that are away lower nothing.
        (3, {"replication_factor": 3, **COPYING}, "2", None),
        # Somebody took replicas away.
        (3, {"replication_factor": 1}, "1", 1),
        (3, {"replication_factor": 1, **COPYING}, "1", 1),
    ],
)
def test_the_minimum_in_sync_follows_the_replicas_that_are_there(recorded, present, minimum, factor):
    wanted = replace(APPLIED, recorded_factor=recorded)
    before = str(min(2, recorded))
    topic = replace(LONE, config={**LONE.config, "min.insync.replicas": before}, **present)
    changes = {} if minimum == before else {"min.insync.replicas": minimum}
    moved = AlignTopic(wanted=wanted, config=changes, topic_id="t1", replication_factor=factor)
    assert plan(wanted, topic=topic) == ([] if factor is None else [moved])


def test_a_minimum_above_the_replicas_is_a_drift_and_set_back():
    refusing = replace(LONE, config={**LONE.config, "min.insync.replicas": "2"})
    lowered = {"min.insync.replicas": "1"}
    assert plan(ON_ONE, topic=refusing) == [
        RestoreTopic(wanted=ON_ONE, found={"min.insync.replicas": "2"}, config=lowered)
    ]


def test_a_declaration_that_changes_while_replicas_are_copied_does_not_refuse_producers():
    wanted = replace(ON_ONE, applied=False, revision=2)
    copied = replace(LONE, replication_factor=2, in_sync=False)
    assert plan(wanted, topic=copied) == [
        AlignTopic(wanted=wanted, config={}, topic_id="t1", replication_factor=1)
    ]


def test_of_a_topic_that_is_there_only_what_differs_is_set_and_it_is_recorded_once():
    differs = {"retention.ms": "1000"}
    assert plan(WANTED, topic=THERE) == [
        AlignTopic(wanted=WANTED, config=differs, topic_id="t1", replication_factor=3)
    ]
    as_declared = replace(THERE, config={**OTHER, **CONFIG})
    assert plan(WANTED, topic=as_declared) == [
        AlignTopic(wanted=WANTED, config={}, topic_id="t1", replication_factor=3)
    ]
    assert plan(APPLIED, topic=as_declared) == []


def test_nothing_is_concluded_about_a_topic_whose_configuration_was_not_asked_for():
    assert plan(WANTED, topic=replace(THERE, config=None)) == []
    assert plan(APPLIED, topic=replace(THERE, config=None)) == []


def test_a_configuration_that_drifted_is_set_back_with_what_it_was():
    assert plan(APPLIED, topic=THERE) == [
        RestoreTopic(wanted=APPLIED, found={"retention.ms": "5"}, config={"retention.ms": "1000"})
    ]


@pytest.mark.parametrize("found", ["compact,delete", "delete,compact", "delete, compact"])
def test_the_order_of_cleanup_policies_is_no_difference(found):
    assert steps.differing({"cleanup.policy": "compact,delete"}, {"cleanup.policy": found}) == {}
    assert steps.differing({"cleanup.policy": "compact"}, {"cleanup.policy": found}) == {
        "cleanup.policy": "compact"
    }


def test_a_drift_that_could_not_be_set_back_is_recorded_as_over_once_somebody_else_did_it():
    failed = replace(APPLIED, failure="not allowed")
    assert plan(failed, topic=replace(THERE, config=CONFIG)) == [
        AlignTopic(wanted=failed, config={}, topic_id="t1", replication_factor=3)
    ]


def test_a_topic_that_somebody_made_anew_is_recorded_again():
    again = replace(WANTED, applied=True, topic_id="t0")
    assert plan(again, topic=replace(THERE, config=CONFIG)) == [
        AlignTopic(wanted=again, config={}, topic_id="t1", replication_factor=3)
    ]


DISTRIBUTED = {"message.timestamp.type": "CreateTime", **CONFIG}
STAMPED = replace(THERE, config={**CONFIG, "message.timestamp.type": "LogAppendTime"})


@pytest.mark.parametrize("topic_id", [None, "t0"], ids=["met for the first time", "made anew by somebody"])
def test_a_strangers_topic_with_append_time_is_refused_and_not_changed(topic_id):
    wanted = replace(WANTED, config=DISTRIBUTED, topic_id=topic_id, applied=topic_id is not None)
    (step,) = plan(wanted, topic=STAMPED)
    assert isinstance(step, RefuseTopic)
    assert "LogAppendTime" in step.reason
    assert plan(replace(wanted, failure=step.reason), topic=STAMPED) == []


def test_a_topic_of_ours_that_was_set_to_append_time_is_set_back():
    wanted = replace(APPLIED, config=DISTRIBUTED)
    (step,) = plan(wanted, topic=STAMPED)
    assert isinstance(step, RestoreTopic)
    assert step.config == {"message.timestamp.type": "CreateTime"}


def test_append_time_is_nobodys_business_where_the_stream_is_not_distributed():
    (step,) = plan(WANTED, topic=STAMPED)
    assert isinstance(step, AlignTopic)


KEEPS = {"cleanup.policy": "delete", "retention.ms": "-1"}


@pytest.mark.parametrize(
    ("records", "topic_id", "refused"),
    [(5, None, True), (0, None, False), (None, "t0", False)],
    ids=["holds records", "empty", "made anew under a known name"],
)
def test_a_strangers_records_are_not_deleted_by_a_shorter_retention(records, topic_id, refused):
    wanted = replace(WANTED, config={"cleanup.policy": "delete", "retention.ms": "1000"}, topic_id=topic_id)
    (step,) = plan(wanted, topic=replace(THERE, config=KEEPS, records=records))
    assert isinstance(step, RefuseTopic if refused else AlignTopic)


def test_a_topic_of_ours_that_somebody_grew_is_followed_by_its_stream():
    assert plan(APPLIED, topic=replace(THERE, partitions=6)) == [FollowGrowth(wanted=APPLIED, partitions=6)]
    internal = replace(APPLIED, revision=None)
    (step,) = plan(internal, topic=replace(THERE, partitions=6))
    assert isinstance(step, RefuseTopic)


def test_a_topic_that_the_cluster_hides_is_refused_with_its_reason_and_not_created():
    (step,) = plan(WANTED, refusals={"orders": "not authorized"})
    assert isinstance(step, RefuseTopic)
    assert "not authorized" in step.reason


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


def test_a_deleted_streams_topic_that_the_cluster_hides_is_not_taken_for_gone():
    gone = UnwantedTopic(stream="acme/retail/prod/orders", cluster="c", topic="orders", topic_id="t1")
    hidden = SeenCluster(kafka_cluster_id="k1", brokers=1, refusals={"orders": "not authorized"})
    assert steps.topic_steps([], [gone], {"c": hidden}) == []


def test_topics_leave_room_for_our_headers_and_keep_the_producers_time():
    settings = {"retention_ms": -1, "cleanup_policy": "compact", "max_message_bytes": 10_000_000}
    assert steps.topic_config(**settings, distributed=True, config={"flush.ms": "9"}) == {
        "cleanup.policy": "compact",
        "flush.ms": "9",
        "max.message.bytes": "10001024",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
    }
    assert "message.timestamp.type" not in steps.topic_config(**settings, distributed=False, config={})
