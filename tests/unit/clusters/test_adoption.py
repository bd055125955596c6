"""Plans of adopting a cluster, as tables; and the adoption's own events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.domain.base.errors import StateConflict, ValueInvalid
from backend.domain.clusters import adoption, adoption_plan
from backend.domain.clusters.adoption import AdoptedTopic, AdoptionBegun, AdoptionEnded, BeginAdoption, EndAdoption
from backend.domain.clusters.adoption_facts import AdoptionFacts, DeclaredStream, FoundTopic
from backend.domain.names.formats import ClusterFormats
from backend.domain.names.names import StreamName
from backend.domain.topics.stream_settings import StreamSettings
from backend.eventlog.registry import domain_registry

FULL = "{tenant}-{instance}-{environment}-{topic}"
SHORT = "{tenant}-{environment}-{topic}"
RETAIL = ("acme", "retail", "prod")
ORDERS = StreamName(*RETAIL, "orders")
CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
    "message.timestamp.type": "CreateTime",
    "segment.ms": "1",
}
TOPIC = FoundTopic(
    topic="acme-retail-prod-orders", topic_id="t1", partitions=4, replication_factor=3, config=CONFIG, records=9
)
FACTS = AdoptionFacts(
    cluster=ClusterFormats("c3", FULL, FULL),
    group_format="{tenant}-{instance}-{environment}-{group}",
    in_tree=True,
    topics=[TOPIC],
    groups=[],
    environments=[RETAIL],
    streams={},
    leaves=[
        ClusterFormats("c1", FULL, FULL),
        ClusterFormats("c3", FULL, FULL),
        ClusterFormats("c4", SHORT, SHORT),
    ],
    elsewhere={"c1": {}, "c4": {}},
)
DECLARED = {ORDERS: DeclaredStream(settings=StreamSettings(partitions=4, replication_factor=3), topic_id=None)}


def plan(facts=FACTS, named=None, **changes):
    return adoption_plan.plan(replace(facts, **changes), named or {})


def only(facts=FACTS, named=None, **changes):
    (row,) = plan(facts, named, **changes).topics
    return row


def configured(**changes):
    return replace(TOPIC, config={**CONFIG, **{key.replace("_", "."): value for key, value in changes.items()}})


def test_a_topic_becomes_a_stream_with_the_settings_that_it_has():
    topic = configured(
        cleanup_policy="delete, compact", retention_ms="-1", max_message_bytes="9000000", min_insync_replicas="2"
    )
    row = only(topics=[topic])
    assert (row.action, row.stream) == ("declare", ORDERS)
    assert row.settings == StreamSettings(
        partitions=4,
        replication_factor=3,
        min_insync_replicas=2,
        retention_ms=-1,
        cleanup_policy="compact,delete",
        max_message_bytes=9_000_000,
    )
    # Room for our headers is all that it needs.
    assert row.changes == {"max.message.bytes": ("9000000", "9001024")}


OWN = {"compression.type": "zstd", "segment.bytes": "2097152", "segment.ms": "1", "retention.ms": "604800000"}
TUNED = replace(TOPIC, config={**CONFIG, **OWN}, own=OWN)


def test_settings_that_a_stream_does_not_declare_are_warned_of():
    row = only(topics=[TUNED])
    assert row.settings.config == {}
    assert row.undeclared == {"compression.type": "zstd", "segment.bytes": "2097152", "segment.ms": "1"}
    (warning,) = row.warnings
    assert "compression.type=zstd, segment.bytes=2097152, segment.ms=1" in warning
    assert plan(topics=[TUNED]).topics_to_adopt(None)[0].config == {}
    # A default of the cluster is nothing that the topic has of its own.
    assert only(topics=[replace(TUNED, own={})]).undeclared == {}


def test_settings_are_taken_over_if_the_operator_wants():
    taken = adoption_plan.plan(replace(FACTS, topics=[TUNED]), {}, take_settings=True)
    (row,) = taken.topics
    assert row.settings.config == {"compression.type": "zstd", "segment.bytes": "2097152", "segment.ms": "1"}
    assert (row.undeclared, row.warnings, row.changes) == ({}, (), {"max.message.bytes": ("1048588", "1049612")})
    assert taken.topics_to_adopt(None)[0].config == row.settings.config
    assert taken.digest != plan(topics=[TUNED]).digest


def test_a_setting_that_no_stream_can_declare_stays_with_the_topic_and_is_warned_of():
    own = {"segment.bytes": "1000", "confluent.tier.enable": "true", "flush.ms": "5"}
    found = replace(TOPIC, config={**CONFIG, **own}, own=own)
    (row,) = adoption_plan.plan(replace(FACTS, topics=[found]), {}, take_settings=True).topics
    assert row.settings.config == {"flush.ms": "5"}
    assert row.undeclared == {"confluent.tier.enable": "true", "segment.bytes": "1000"}
    assert [each for each in row.warnings if "segment.bytes=1000 stays on this topic only" in each]
    assert [each for each in row.warnings if "is no topic setting of Kafka" in each]


def test_a_topic_that_joins_changes_to_what_is_declared_and_keeps_the_rest():
    settings = replace(DECLARED[ORDERS].settings, config={"compression.type": "lz4"})
    streams = {ORDERS: DeclaredStream(settings=settings, topic_id=None)}
    (row,) = adoption_plan.plan(replace(FACTS, topics=[TUNED], streams=streams), {}, take_settings=True).topics
    assert row.settings.config == {"compression.type": "lz4"}
    assert row.changes["compression.type"] == ("zstd", "lz4")
    assert row.undeclared == {"segment.bytes": "2097152", "segment.ms": "1"}


def test_what_another_cluster_has_otherwise_is_named():
    other = replace(
        TOPIC, topic="acme-prod-orders", config={**CONFIG, "compression.type": "gzip"}, own={}, records=0
    )
    row = only(topics=[TUNED], elsewhere={"c1": {}, "c4": {"acme-prod-orders": other}})
    assert "the stream's topic on c4 has compression.type=gzip, which differs from this one" in row.warnings


def test_a_topic_with_records_beyond_what_a_stream_keeps_is_refused():
    settings = replace(DECLARED[ORDERS].settings, config={"retention.bytes": "1000"})
    row = only(streams={ORDERS: DeclaredStream(settings=settings, topic_id=None)})
    assert row.action == "unmanaged"
    assert "retention.bytes" in row.reason


def test_a_topic_of_a_declared_stream_joins_it_and_one_that_is_recorded_is_kept():
    assert only(streams=DECLARED).action == "join"
    recorded = {ORDERS: replace(DECLARED[ORDERS], topic_id="t1")}
    assert only(streams=recorded).action == "kept"
    assert plan(streams=recorded).topics_to_adopt(None) == ()
    assert only(streams={ORDERS: replace(DECLARED[ORDERS], topic_id="t0")}).action == "join"


@pytest.mark.parametrize(
    ("here", "declared", "elsewhere", "after", "changes"),
    [
        (6, 4, 0, 6, {"stream partitions": ("4", "6")}),
        (2, 4, 0, 4, {"partitions": ("2", "4")}),
        (2, None, 5, 5, {"partitions": ("2", "5")}),
        (4, 2, 5, 5, {"stream partitions": ("2", "5"), "partitions": ("4", "5")}),
    ],
    ids=["stream grows", "topic grows", "another cluster has more", "both grow"],
)
def test_partitions_only_grow_and_the_plan_says_which(here, declared, elsewhere, after, changes):
    streams = (
        {}
        if declared is None
        else {ORDERS: DeclaredStream(settings=StreamSettings(partitions=declared), topic_id=None)}
    )
    others = {"c4": {"acme-prod-orders": replace(TOPIC, partitions=elsewhere)}} if elsewhere else {}
    row = only(topics=[replace(TOPIC, partitions=here)], streams=streams, elsewhere=others)
    assert row.settings.partitions == after
    assert {name: each for name, each in row.changes.items() if "partitions" in name} == changes
    assert any("with the same key will then go to another partition" in each for each in row.warnings) == (
        after > here
    )


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        (replace(TOPIC, topic="__consumer_offsets"), "internal"),
        (replace(TOPIC, topic="_schemas"), "internal"),
        (replace(TOPIC, topic="_treeline.verify"), "internal"),
        (replace(TOPIC, topic="acme-retail-prod-app-store-changelog"), "Kafka Streams"),
        (replace(TOPIC, topic="acme-retail-prod-app-by-key-repartition"), "Kafka Streams"),
        (replace(TOPIC, topic="mm2-offset-syncs.c1.internal"), "MirrorMaker 2"),
        (replace(TOPIC, topic="heartbeats"), "MirrorMaker 2"),
        (configured(message_timestamp_type="LogAppendTime"), "LogAppendTime"),
        (configured(max_message_bytes="100000000"), "67107840"),
        (replace(TOPIC, partitions=10_001), "10000"),
        (replace(TOPIC, refusal="not authorized"), "not authorized"),
        (replace(TOPIC, topic="Orders"), "lower case"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_adopted_says_why_and_stays(topic, why):
    row = only(topics=[topic])
    assert row.action == "unmanaged"
    assert why in row.reason
    with pytest.raises(ValueInvalid) as refused:
        plan(topics=[topic]).topics_to_adopt([topic.topic])
    assert refused.value.errors[0].pointer == "/topics/0"


@pytest.mark.parametrize(
    ("config", "records", "action"),
    [
        ({"retention_ms": "-1"}, 9, "unmanaged"),
        ({"retention_ms": "604800001"}, 9, "unmanaged"),
        ({"retention_ms": "604799999"}, 9, "join"),
        ({"cleanup_policy": "compact"}, 9, "unmanaged"),
        ({"retention_ms": "-1"}, 0, "join"),
    ],
)
def test_a_topic_that_would_lose_records_to_the_declaration_does_not_join(config, records, action):
    row = only(topics=[replace(configured(**config), records=records)], streams=DECLARED)
    assert row.action == action


def test_a_declared_stream_is_raised_to_the_records_that_the_topic_takes():
    row = only(topics=[configured(max_message_bytes="5000000")], streams=DECLARED)
    assert row.settings.max_message_bytes == 5_000_000
    assert row.changes["stream max_message_bytes"] == ("1048588", "5000000")


def test_the_operator_names_what_is_ambiguous_and_overrides_what_only_looks_internal():
    two = [RETAIL, ("acme", "retail-prod", "app")]
    topic = replace(TOPIC, topic="acme-retail-prod-app-changelog")
    stream = StreamName(*RETAIL, "app-changelog")
    ambiguous = only(topics=[replace(TOPIC, topic="acme-retail-prod-app-x")], environments=two)
    assert (ambiguous.action, len(ambiguous.readings)) == ("ambiguous", 2)
    assert only(topics=[topic], environments=two, named={topic.topic: stream}).stream == stream


@pytest.mark.parametrize("topic", ["acme-retail-prod-other", "nowhere"])
def test_a_topic_can_only_be_named_as_what_its_name_can_mean(topic):
    with pytest.raises(ValueInvalid) as refused:
        plan(named={topic: StreamName(*RETAIL, "other")})
    assert refused.value.errors[0].pointer == "/as"


def test_names_that_clash_on_any_cluster_of_the_tree_are_left_to_the_operator():
    """One technical name on c4, whose format leaves the instance out; and `.` against `_`."""
    environments = [RETAIL, ("acme", "wholesale", "prod")]
    names = [
        "acme-retail-prod-orders",
        "acme-wholesale-prod-orders",
        "acme-retail-prod-a.b",
        "acme-retail-prod-a_b",
    ]
    rows = plan(topics=[replace(TOPIC, topic=name) for name in names], environments=environments).topics
    actions = {row.topic: row.action for row in rows}
    assert actions == dict(zip(names, ["declare", "unmanaged", "declare", "unmanaged"], strict=True))
    reasons = " ".join(row.reason or "" for row in rows)
    assert "acme/retail/prod/orders" in reasons and "c4" in reasons


def test_a_name_too_long_for_another_cluster_is_refused_with_the_place():
    leaves = [*FACTS.leaves, ClusterFormats("c5", "x" * 230 + "{topic}-{tenant}", FULL)]
    row = only(leaves=leaves, topics=[replace(TOPIC, topic="acme-retail-prod-" + "o" * 40)])
    assert row.action == "unmanaged"
    assert "on c5: it has 275 characters" in row.reason


def test_data_on_both_sides_and_silent_or_mirrored_clusters_are_warned_of():
    both = {"c4": {"acme-prod-orders": replace(TOPIC, records=5)}, "c1": None}
    found = plan(elsewhere=both, in_tree=False)
    assert "another replicator" in found.topics[0].warnings[0]
    assert [word in " ".join(found.warnings) for word in ("c1 did not answer", "in no tree")] == [True, True]
    copied = plan(topics=[replace(TOPIC, has_copies=True)])
    assert "treated as copies" in copied.topics[0].warnings[0]
    mirrored = plan(elsewhere={"c1": {"mm2-offset-syncs.c3.internal": TOPIC}})
    assert "MirrorMaker 2" in mirrored.warnings[0]
    assert plan().warnings == ()


def test_groups_are_read_back_by_their_format():
    groups = [
        ("acme-retail-prod-billing", "classic"),
        ("_treeline.x", "classic"),
        ("s", "share"),
        ("odd", "consumer"),
    ]
    rows = {row.group: row for row in plan(groups=groups).groups}
    assert rows["acme-retail-prod-billing"].found == StreamName(*RETAIL, "billing")
    assert all(rows[name].found is None and rows[name].reason for name in ("_treeline.x", "s", "odd"))


def test_the_digest_stands_for_what_would_be_done_not_for_how_much_there_is():
    assert plan().digest == plan(topics=[replace(TOPIC, records=10)]).digest
    others = [replace(TOPIC, topic_id="t2"), replace(TOPIC, partitions=5), configured(retention_ms="5")]
    assert plan().digest not in {plan(topics=[topic]).digest for topic in others}


def test_chosen_topics_carry_all_that_is_declared():
    (chosen,) = plan().topics_to_adopt(["acme-retail-prod-orders"])
    assert chosen == ADOPTED


ADOPTED = AdoptedTopic(
    topic="acme-retail-prod-orders",
    topic_id="t1",
    tenant="acme",
    instance="retail",
    environment="prod",
    stream="orders",
    partitions=4,
    replication_factor=3,
    min_insync_replicas=1,
    retention_ms=604_800_000,
    cleanup_policy="delete",
    max_message_bytes=1_048_588,
    config={},
)
BEGUN = AdoptionBegun(cluster="c3", topics=(ADOPTED,))
ENDED = AdoptionEnded(cluster="c3", refused={})


def test_a_topic_joins_a_stream_that_leaves_replicas_to_each_cluster():
    """Read its event again as it was written: adoptions into such streams never ended."""
    declared = DeclaredStream(settings=StreamSettings(partitions=4), topic_id=None)
    planned = plan(streams={ORDERS: declared})
    (joined,) = planned.topics_to_adopt(None)
    assert (joined.replication_factor, joined.min_insync_replicas) == (None, None)
    begun, registry = AdoptionBegun(cluster="c3", topics=(joined,)), domain_registry()
    assert registry.decode("AdoptionBegun", 2, registry.encode(begun)) == begun


@pytest.mark.parametrize(
    ("given", "command", "then"),
    [
        ([], BeginAdoption(cluster="c3", topics=(ADOPTED,)), [BEGUN]),
        ([BEGUN, ENDED], BeginAdoption(cluster="c3", topics=(ADOPTED,)), [BEGUN]),
        ([BEGUN], EndAdoption(refused={}), [ENDED]),
        ([BEGUN, ENDED], EndAdoption(refused={}), []),
        ([], EndAdoption(refused={}), []),
    ],
)
def test_an_adoption_begins_once_and_ends_once(given, command, then):
    state = adoption.INITIAL
    for event in given:
        state = adoption.evolve(state, event)
    assert adoption.decide(state, command) == then


def test_one_adoption_at_a_time_and_not_more_topics_than_an_event_holds():
    with pytest.raises(StateConflict):
        adoption.decide(adoption.evolve(None, BEGUN), BeginAdoption(cluster="c3", topics=(ADOPTED,)))
    for topics in ((), (ADOPTED,) * 1001):
        with pytest.raises(ValueInvalid):
            adoption.decide(None, BeginAdoption(cluster="c3", topics=topics))
