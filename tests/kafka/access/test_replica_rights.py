"""Moving replicas of a cluster that asks who one is, and does not let everybody do it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from backend.kafka.admin.access import AccessAdmin
from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.base.errors import KafkaCallFailed
from tests.eventually import eventually
from tests.kafka.access.conftest import SCRAM, Login
from tests.kafka.access.test_access_admin import CLUSTER, PASSWORD, given, properties
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import DEADLINE_SECONDS


@pytest.fixture
def topic(control_plane: Login) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    client = AdminClient(control_plane.config(CLUSTER))
    client.create_topics([NewTopic(name, 1, 1)])[name].result(DEADLINE_SECONDS)
    return name


@pytest.fixture
def weak(secured: RunningEstate, control_plane: Login, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReplicaAdmin]:
    """Yield the admin client of a user that may log in and nothing else."""
    name = f"acme/retail/prod/a{uuid.uuid4().hex[:8]}"
    access = AccessAdmin(secured.bootstrap_servers(CLUSTER), properties(control_plane), 10.0)
    given(access, name, frozenset())
    access.close()
    monkeypatch.setenv("RESTRICTED", PASSWORD)
    restricted = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": SCRAM,
        "sasl.username": name,
        "sasl.password": "${env:RESTRICTED}",
    }
    with ReplicaAdmin("east", secured.bootstrap_servers(CLUSTER), restricted) as admin:
        yield admin


def test_who_may_do_all_logs_in_as_the_properties_say(
    secured: RunningEstate, control_plane: Login, topic: str
) -> None:
    with ReplicaAdmin("east", secured.bootstrap_servers(CLUSTER), properties(control_plane)) as admin:
        eventually(lambda: (topic, 0) in admin.read().partitions, "it is seen")
        assert admin.read().unsized == {}
        assert admin.alter({(topic, 0): [1]}) == admin.elect_preferred([(topic, 0)]) == admin.ongoing() == {}
        throttle = admin.intended_throttle(1000, {(topic, 0): ([1], [])})
        assert admin.throttle(throttle) == admin.unthrottle(throttle) == {}


def test_who_may_not_is_told_what_it_takes(weak: ReplicaAdmin, topic: str) -> None:
    for call in (
        weak.ongoing,
        lambda: weak.alter({(topic, 0): [1]}),
        lambda: weak.alter({(topic, 0): None}),
        lambda: weak.elect_preferred([(topic, 0)]),
    ):
        with pytest.raises(
            KafkaCallFailed, match="east: the cluster does not let the control plane do this; it needs"
        ):
            call()
    throttle = weak.intended_throttle(1000, {(topic, 0): ([1], [])})
    assert list(throttle.unknown) == [1]
    refused = weak.throttle(throttle)
    assert set(refused) == {"broker 1", f"topic {topic}"}
    assert all("it needs" in reason for reason in refused.values())


def test_who_may_see_nothing_sees_brokers_without_sizes(weak: ReplicaAdmin, topic: str) -> None:
    seen = weak.read()
    assert (topic, 0) not in seen.partitions
    assert list(seen.brokers) == list(seen.unsized) == [1]
    assert "it needs" in seen.unsized[1]
