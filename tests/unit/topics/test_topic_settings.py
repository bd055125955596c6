"""Kafka's topic settings in a stream's `config`: what is taken, and what each refusal says."""

from __future__ import annotations

import pytest

from backend.domain.base.errors import ValueInvalid
from backend.domain.topics.stream_settings import StreamSettings, check_settings
from backend.domain.topics.topic_drift import Drift, InForce, TopicSeen, drifts, not_as_declared
from backend.domain.topics.topic_settings import DECLARABLE, canonical, same_value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.type", "zstd"),
        ("compression.gzip.level", "-1"),
        ("compression.zstd.level", "-131072"),
        ("segment.bytes", "1048576"),
        ("retention.bytes", "-1"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("preallocate", "TRUE"),
        ("flush.ms", "9223372036854775807"),
        ("unclean.leader.election.enable", "false"),
    ],
)
def test_a_topic_setting_is_declared_with_a_value_of_its_type(name, value):
    check_settings(StreamSettings(config={name: value}))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("retention.ms", "5", "managed by the stream's field retention_ms"),
        ("cleanup.policy", "compact", "managed by the stream's field cleanup_policy"),
        ("max.message.bytes", "5", "managed by the stream's field max_message_bytes"),
        ("min.insync.replicas", "2", "managed by the stream's field min_insync_replicas"),
        ("message.timestamp.type", "LogAppendTime", "managed by the stream's field distributed"),
        ("leader.replication.throttled.replicas", "*", "placements set it"),
        ("segment_bytes", "5", "did you mean segment.bytes?"),
        ("confluent.tier.enable", "true", "is no topic setting of Kafka"),
        ("", "true", "is no topic setting of Kafka"),
        ("compression.type", "brotli", "must be one of producer, uncompressed, gzip"),
        ("compression.type", "ZSTD", "must be one of producer, uncompressed, gzip"),
        ("compression.gzip.level", "0", "must be a whole number from 1 to 9, or -1, not '0'"),
        ("segment.bytes", "1e9", "must be a whole number from 1048576 to 2147483647, not '1e9'"),
        ("segment.bytes", "1_048_576", "must be a whole number"),
        ("segment.bytes", "२१४७४८३६", "must be a whole number"),
        ("min.cleanable.dirty.ratio", "nan", "must be a number from 0 to 1"),
        ("preallocate", "yes", "must be true or false"),
    ],
)
def test_a_setting_that_cannot_be_declared_is_refused_with_the_reason(name, value, said):
    with pytest.raises(ValueInvalid) as refused:
        check_settings(StreamSettings(config={name: value}))
    (error,) = refused.value.errors
    assert error.pointer == f"/config/{name}"
    assert said in error.detail


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        (
            StreamSettings(config={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}),
            "min.compaction.lag.ms",
        ),
        (StreamSettings(config={"local.retention.ms": "9"}, retention_ms=8), "local.retention.ms"),
        (
            StreamSettings(config={"remote.storage.enable": "true"}, cleanup_policy="compact,delete"),
            "remote.storage.enable",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, pointer):
    with pytest.raises(ValueInvalid) as refused:
        check_settings(settings)
    assert [error.pointer for error in refused.value.errors] == [f"/config/{pointer}"]


def test_the_time_of_records_is_free_where_nothing_is_copied():
    check_settings(StreamSettings(distributed=False, config={"message.timestamp.type": "LogAppendTime"}))


def test_values_are_compared_as_brokers_show_them():
    assert canonical(
        {"preallocate": "TRUE", "min.cleanable.dirty.ratio": ".50", "segment.bytes": " 1048576 "}
    ) == {
        "min.cleanable.dirty.ratio": "0.5",
        "preallocate": "true",
        "segment.bytes": "1048576",
    }
    assert same_value("cleanup.policy", "compact,delete", "delete, compact")
    assert not same_value("segment.bytes", "1048576", None)
    assert all(name == name.lower() for name in DECLARABLE)


DEFAULTS = {"compression.type": "producer", "retention.ms": "604800000"}
DECLARED = {"retention.ms": "5000"}


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        ({"c1": {}, "c2": {}}, []),
        (
            {"c1": {"compression.type": "zstd"}, "c2": {}},
            [("compression.type", None, {"c1": ("zstd", "topic"), "c2": ("producer", "default")})],
        ),
        # Alike everywhere, whoever set it.
        ({"c1": {"compression.type": "zstd"}, "c2": {"compression.type": "zstd"}}, []),
        ({"c1": {"compression.type": "producer"}, "c2": {}}, []),
        # Changed by somebody and not yet set back.
        (
            {"c1": {"retention.ms": "1"}, "c2": {}},
            [("retention.ms", "5000", {"c1": ("1", "topic"), "c2": ("5000", "declared")})],
        ),
        ({"c1": {"retention.ms": "1"}}, [("retention.ms", "5000", {"c1": ("1", "topic")})]),
        ({"c1": {"compression.type": "zstd"}}, []),
    ],
)
def test_settings_that_differ_between_clusters_are_drift(seen, found):
    polled = {cluster: TopicSeen(own=own, defaults=DEFAULTS) for cluster, own in seen.items()}
    assert drifts(DECLARED, polled) == [
        Drift(
            setting=name,
            declared=declared,
            clusters={c: InForce(value=value, source=source) for c, (value, source) in clusters.items()},
        )
        for name, declared, clusters in found
    ]


def test_clusters_whose_defaults_differ_drift_too():
    seen = {
        "c1": TopicSeen(defaults={"segment.bytes": "1048576"}),
        "c2": TopicSeen(defaults={"segment.bytes": "2"}),
    }
    assert [each.setting for each in drifts({}, seen)] == ["segment.bytes"]
    # A version of Kafka that does not know a setting has no value of it.
    assert drifts({}, {**seen, "c2": TopicSeen()}) == []


def test_only_what_is_set_on_the_topic_and_not_declared_is_kept():
    own = {
        "retention.ms": "5000",
        "flush.ms": "7",
        "min.insync.replicas": "2",
        "leader.replication.throttled.replicas": "*",
    }
    assert not_as_declared(own, {"retention.ms": "5000"}) == {"flush.ms": "7"}
