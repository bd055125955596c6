"""Event stream `cluster-<name>`: given events, when a command, then events or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import pytest

from backend.domain.base.errors import (
    AlreadyExists,
    DomainError,
    FormatInvalid,
    NameInvalid,
    NotFound,
    PropertiesInvalid,
    StateConflict,
    TechnicalNameTaken,
    ValueInvalid,
)
from backend.domain.base.event import Event
from backend.domain.clusters import cluster
from backend.domain.clusters.cluster import (
    AddCluster,
    ChangeCluster,
    ClusterAdded,
    ClusterCameOnline,
    ClusterChanged,
    ClusterRemoved,
    ClusterWentOffline,
    RecordOffline,
    RecordOnline,
    RemoveCluster,
)
from backend.domain.names.names import StreamName

FULL = "{tenant}-{instance}-{environment}-{topic}"
GROUP = "{tenant}-{instance}-{environment}-{group}"
ADD = AddCluster(name="c6", number=6, bootstrap_servers="h:9092", kafka_cluster_id="K6", brokers=3)
ADDED = ClusterAdded(
    name="c6",
    number=6,
    bootstrap_servers="h:9092",
    zone=None,
    topic_format=FULL,
    group_format=GROUP,
    subject_format=FULL,
    properties={},
    kafka_cluster_id="K6",
    brokers=3,
)
UNSEEN = replace(ADDED, kafka_cluster_id=None, brokers=None)
CHANGED = ClusterChanged(
    bootstrap_servers="h:9092",
    zone=None,
    topic_format=FULL,
    group_format=GROUP,
    subject_format=FULL,
    properties={},
)
OFFLINE = ClusterWentOffline(reason="refused")
ORDERS = StreamName("acme", "retail", "prod", "orders")
DEV_ORDERS = StreamName("acme", "retail", "dev", "orders")


def when(given: Sequence[Event], command: cluster.ClusterCommand) -> list[cluster.ClusterEvent]:
    return cluster.decide(reduce(cluster.evolve, given, cluster.INITIAL), command)


@pytest.mark.parametrize(
    ("given", "command", "then"),
    [
        ([], ADD, [ADDED]),
        (
            [],
            replace(ADD, kafka_cluster_id=None, brokers=None, unreachable="refused"),
            [UNSEEN, OFFLINE],
        ),
        ([ADDED, ClusterRemoved()], replace(ADD, number=7), [replace(ADDED, number=7)]),
        ([ADDED], ChangeCluster(), []),
        ([ADDED], ChangeCluster(bootstrap_servers="h:9092"), []),
        ([ADDED], ChangeCluster(zone="az1"), [replace(CHANGED, zone="az1")]),
        ([replace(ADDED, zone="az1")], ChangeCluster(clear_zone=True), [CHANGED]),
        (
            [ADDED],
            ChangeCluster(bootstrap_servers="i:1", kafka_cluster_id="K6"),
            [replace(CHANGED, bootstrap_servers="i:1")],
        ),
        ([ADDED], ChangeCluster(topic_format="x-{topic}"), [replace(CHANGED, topic_format="x-{topic}")]),
        (
            [replace(ADDED, properties={"sasl.password": "${env:C6}"})],
            ChangeCluster(properties={"sasl.password": "***", "sasl.username": "u"}),
            [replace(CHANGED, properties={"sasl.password": "${env:C6}", "sasl.username": "u"})],
        ),
        ([ADDED], RemoveCluster(), [ClusterRemoved()]),
        ([ADDED], RecordOnline(kafka_cluster_id="K6", brokers=3), []),
        (
            [ADDED],
            RecordOnline(kafka_cluster_id="K6", brokers=2),
            [ClusterCameOnline(kafka_cluster_id="K6", brokers=2)],
        ),
        (
            [ADDED, OFFLINE],
            RecordOnline(kafka_cluster_id="K6", brokers=3),
            [ClusterCameOnline(kafka_cluster_id="K6", brokers=3)],
        ),
        (
            [UNSEEN, OFFLINE],
            RecordOnline(kafka_cluster_id="K9", brokers=1),
            [ClusterCameOnline(kafka_cluster_id="K9", brokers=1)],
        ),
        ([ADDED], RecordOffline(reason="refused"), [OFFLINE]),
        ([ADDED, OFFLINE], RecordOffline(reason="refused"), []),
        ([ADDED, OFFLINE], RecordOffline(reason="timeout"), [ClusterWentOffline(reason="timeout")]),
        (
            [ADDED],
            RecordOnline(kafka_cluster_id="K7", brokers=1),
            [ClusterWentOffline(reason="another Kafka cluster answers: K7 instead of K6")],
        ),
        (
            [UNSEEN, OFFLINE],
            RecordOnline(kafka_cluster_id="K1", brokers=1, known_kafka_clusters={"K1": "c1"}),
            [ClusterWentOffline(reason="it is the same Kafka cluster as 'c1', K1")],
        ),
    ],
)
def test_decisions(given: list[Event], command: cluster.ClusterCommand, then: list[Event]) -> None:
    assert when(given, command) == then
    # Carrying a decision out and asking again never decides the same a second time.
    if not isinstance(command, AddCluster | RemoveCluster):
        assert when([*given, *then], command) == []


@pytest.mark.parametrize(
    ("given", "command", "error"),
    [
        ([ADDED], ADD, AlreadyExists),
        ([], replace(ADD, name="C6"), NameInvalid),
        ([], replace(ADD, name="x" * 64), NameInvalid),
        ([], replace(ADD, zone="a b"), NameInvalid),
        ([], replace(ADD, bootstrap_servers=""), ValueInvalid),
        ([], replace(ADD, bootstrap_servers="h"), ValueInvalid),
        ([], replace(ADD, bootstrap_servers="h:0"), ValueInvalid),
        ([], replace(ADD, bootstrap_servers="h:65536"), ValueInvalid),
        ([], replace(ADD, bootstrap_servers="h:1,"), ValueInvalid),
        ([], replace(ADD, bootstrap_servers="http://h:1"), ValueInvalid),
        ([], replace(ADD, bootstrap_servers="h:٣"), ValueInvalid),
        ([], replace(ADD, bootstrap_servers="\x00:1"), ValueInvalid),
        ([], replace(ADD, topic_format="{group}"), FormatInvalid),
        ([], replace(ADD, group_format="{topic}"), FormatInvalid),
        ([], replace(ADD, subject_format=""), FormatInvalid),
        ([], replace(ADD, properties={"sasl.password": "plain"}), PropertiesInvalid),
        ([], replace(ADD, known_kafka_clusters={"K6": "c1"}), StateConflict),
        ([], replace(ADD, topic_format="{topic}", declared_streams=[ORDERS, DEV_ORDERS]), TechnicalNameTaken),
        ([ADDED], ChangeCluster(bootstrap_servers=""), ValueInvalid),
        ([ADDED], ChangeCluster(topic_format=""), FormatInvalid),
        ([ADDED], ChangeCluster(zone=""), NameInvalid),
        ([ADDED], ChangeCluster(topic_format="{topic}", live_stream=ORDERS), StateConflict),
        ([ADDED], ChangeCluster(group_format="{group}", live_stream=ORDERS), StateConflict),
        (
            [ADDED],
            ChangeCluster(topic_format="{topic}", declared_streams=[ORDERS, DEV_ORDERS]),
            TechnicalNameTaken,
        ),
        ([ADDED], ChangeCluster(bootstrap_servers="i:1", kafka_cluster_id="K7"), StateConflict),
        (
            [UNSEEN],
            ChangeCluster(bootstrap_servers="i:1", kafka_cluster_id="K1", known_kafka_clusters={"K1": "c1"}),
            StateConflict,
        ),
        ([ADDED], RemoveCluster(trees=("main",)), StateConflict),
        ([], RemoveCluster(), NotFound),
        ([], ChangeCluster(), NotFound),
        ([ADDED, ClusterRemoved()], RecordOnline(kafka_cluster_id="K6", brokers=1), NotFound),
    ],
)
def test_refusals(given: list[Event], command: cluster.ClusterCommand, error: type[DomainError]) -> None:
    with pytest.raises(error):
        when(given, command)


@pytest.mark.parametrize("servers", ["h:1", "a.b-c:65535,10.0.0.1:9092,[::1]:9092", "my_host:9092"])
def test_addresses_that_librdkafka_takes_are_accepted(servers: str) -> None:
    cluster.check_bootstrap_servers(servers)


@pytest.mark.parametrize(
    "servers", ["a:1, b:2", " a:1", "a:1 ", "a :1", "a:1,\tb:2", "a:1,\nb:2", "a\u00a0b:1", "a:1,b\u2003:2"]
)
def test_addresses_with_white_space_are_refused(servers: str) -> None:
    with pytest.raises(ValueInvalid, match="white space") as refused:
        when([], replace(ADD, bootstrap_servers=servers))
    assert [error.pointer for error in refused.value.errors] == ["/bootstrap_servers"]


def test_a_leaf_is_not_removed_and_the_refusal_names_its_tree() -> None:
    with pytest.raises(StateConflict, match="leaf of tree main"):
        when([ADDED], RemoveCluster(trees=("main",)))


def test_history_that_does_not_apply_never_makes_evolve_fail() -> None:
    strange: list[Event] = [CHANGED, ClusterRemoved(), OFFLINE, ADDED, ADDED, ClusterRemoved(), ClusterRemoved()]
    assert reduce(cluster.evolve, strange, cluster.INITIAL) is None
