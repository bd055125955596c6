"""Two tenants' applications on an estate where clients log in: what they may, and what becomes of it."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)

from tests.eventually import eventually
from tests.kafka.access.applications import (
    NOT_LET_IN,
    REFUSED,
    Application,
    ConsoleTools,
    declare,
    environment,
    everywhere,
)
from tests.kafka.access.conftest import OPEN, SCRAM, SECURED, Login
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import DEADLINE_SECONDS

ACME, GLOBEX = "acme/retail/prod", "globex/shop/prod"


@dataclass(frozen=True)
class Two:
    """An application of each tenant: one produces orders, the other may read them."""

    writer: Application
    writing: Login
    reader: Application
    reading: Login


@pytest.fixture(scope="module")
def globex(rest: RestClient) -> None:
    rest.ok("POST", "/tenants", {"name": "globex"})
    rest.ok("POST", "/tenants/globex/instances", {"name": "shop", "tree": "main"})
    rest.ok("POST", "/tenants/globex/instances/shop/environments", {"name": "prod"})
    rest.ok("POST", f"{environment(GLOBEX)}/streams", {"name": "items", "partitions": 1})


@pytest.fixture
def two(rest: RestClient, secured: RunningEstate, globex: None) -> Iterator[Two]:
    writer = declare(rest, secured, ACME, produces=["orders"], consumes=[f"{GLOBEX}/items"])
    reader = declare(rest, secured, GLOBEX, consumes=[f"{ACME}/orders"], producer_bytes_per_second=1_000_000)
    made = Two(writer, writer.issue(), reader, reader.issue())
    writer.applied()
    reader.applied()
    yield made
    for each in (writer, reader):
        rest("DELETE", each.path)


def topic(rest: RestClient, place: str, name: str, cluster: str) -> str:
    return str(rest.ok("GET", f"{environment(place)}/streams/{name}")["technical_names"][cluster])


@pytest.mark.nightly  # eight Java programs; test_kafkas_tools_show and test_access_admin have the same rules
@pytest.mark.parametrize("cluster", SECURED)
def test_kafkas_console_tools_may_what_was_granted_and_nothing_else(
    two: Two, rest: RestClient, tmp_path: Path, cluster: str
) -> None:
    orders, line = topic(rest, ACME, "orders", cluster), uuid.uuid4().hex
    writer, reader = ConsoleTools(two.writing, cluster, tmp_path), ConsoleTools(two.reading, cluster, tmp_path)
    group = two.reader.shown()["technical_groups"][cluster][0]
    assert "Exception" not in writer.produce(orders, line)
    with ThreadPoolExecutor(1) as threads:
        # Who may read waits for more; meanwhile the others are refused.
        read = threads.submit(reader.consume_one, orders, group)
        assert REFUSED in reader.produce(orders, "not allowed")
        assert REFUSED in writer.try_to_consume(orders, two.writer.shown()["technical_groups"][cluster][0])
        assert REFUSED in reader.try_to_consume(orders, f"{group}-of-another")
        assert line in read.result()
    assert REFUSED in reader.try_to_consume(topic(rest, GLOBEX, "items", cluster), group)


@pytest.mark.parametrize("cluster", [pytest.param(SECURED[0], marks=pytest.mark.nightly), *SECURED[1:]])
@pytest.mark.nightly
def test_kafkas_tools_show_just_what_the_application_says_is_due(
    two: Two, control_plane: Login, tmp_path: Path, cluster: str
) -> None:
    tools = ConsoleTools(control_plane, cluster, tmp_path)
    for application in (two.writer, two.reader):
        assert tools.acls(application.principal) == set(application.shown()["acls"][cluster])
    quotas = tools.configs(two.reader.principal)
    assert "producer_byte_rate=1000000.0" in quotas
    assert f"{SCRAM}=iterations=8193" in quotas


def test_an_open_cluster_says_what_it_does_not_take_and_that_is_no_failure(two: Two) -> None:
    shown = two.writer.shown()
    assert (shown["applied"][OPEN], shown["failures"]) == ("applied", {})
    assert shown["parts"][OPEN]["acls"] == "the cluster has no authorizer"
    assert "SCRAM" in shown["parts"][OPEN]["credentials"]
    assert shown["parts"][OPEN]["quotas"] == "applied"
    assert shown["parts"]["cluster-1"] == {"acls": "applied", "credentials": "applied", "quotas": "applied"}


# Kafka as its users' administrators see it.


def acls(login: Login, cluster: str, principal: str) -> dict[str, AclBinding]:
    client = AdminClient(login.config(cluster))
    found = client.describe_acls(_of(principal)).result(DEADLINE_SECONDS)
    return {f"{each.restype.name} {each.name} {each.operation.name}": each for each in found}


def _of(principal: str) -> AclBindingFilter:
    any_name, any_host = None, None
    return AclBindingFilter(
        ResourceType.ANY,
        any_name,
        ResourcePatternType.ANY,
        f"User:{principal}",
        any_host,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def iterations(login: Login, cluster: str, user: str) -> int | None:
    client = AdminClient(login.config(cluster))
    found = client.describe_user_scram_credentials().result(DEADLINE_SECONDS).get(user)
    return None if found is None else int(found.scram_credential_infos[0].iterations)


def logs_in(login: Login, cluster: str) -> bool:
    try:
        Consumer(login.config(cluster, group_id="g")).list_topics(timeout=3)
    except KafkaException:
        return False
    return True


def may_produce(login: Login, cluster: str, name: str) -> bool:
    producer, errors = Producer(login.config(cluster)), []
    producer.produce(name, b"v", on_delivery=lambda error, _: errors.append(error))
    producer.flush(DEADLINE_SECONDS)
    (error,) = errors
    return error is None


@pytest.mark.parametrize("cluster", [pytest.param(SECURED[0], marks=pytest.mark.nightly), *SECURED[1:]])
@pytest.mark.nightly  # test_access_steps, with a mutant; the plan of what is different stays in test_access_admin
def test_what_somebody_changes_by_hand_is_set_back_and_is_an_event(
    two: Two, rest: RestClient, control_plane: Login, cluster: str
) -> None:
    who, orders = two.writer.principal, topic(rest, ACME, "orders", cluster)
    before = set(acls(control_plane, cluster, who))
    client = AdminClient(control_plane.config(cluster))

    write = AclBindingFilter(*acls(control_plane, cluster, who)[f"TOPIC {orders} WRITE"]._to_tuple())
    next(iter(client.delete_acls([write]).values())).result(DEADLINE_SECONDS)
    two.writer.drifted(f"missing: topic {orders}: write", cluster)

    kind, every, host = ResourceType.TOPIC, ResourcePatternType.LITERAL, "*"
    stray = AclBinding(kind, "other", every, f"User:{who}", host, AclOperation.READ, AclPermissionType.ALLOW)
    theirs = AclBinding(kind, "other", every, "User:stranger", host, AclOperation.READ, AclPermissionType.ALLOW)
    for future in client.create_acls([stray, theirs]).values():
        future.result(DEADLINE_SECONDS)
    two.writer.drifted("in excess: topic other: read", cluster)

    gone = UserScramCredentialDeletion(who, ScramMechanism.SCRAM_SHA_512)
    client.alter_user_scram_credentials([gone])[who].result(DEADLINE_SECONDS)
    two.writer.drifted(f"missing: {SCRAM} credentials", cluster)

    eventually(lambda: set(acls(control_plane, cluster, who)) == before, "as it was", 0.3)
    assert may_produce(two.writing, cluster, orders)
    assert set(acls(control_plane, cluster, "stranger")) == {"TOPIC other READ"}
    assert two.reader.events("ApplicationDrifted") == []


def test_what_is_withdrawn_is_refused_and_new_grants_are_given(two: Two, rest: RestClient) -> None:
    orders = {cluster: topic(rest, ACME, "orders", cluster) for cluster in SECURED}
    assert all(may_produce(two.writing, cluster, orders[cluster]) for cluster in SECURED)
    decision = {"application": two.writer.principal, "stream": f"{ACME}/orders", "operation": "produce"}
    rest.ok("POST", "/tenants/acme/grants", {**decision, "decision": "withdraw", "reason": "enough"})
    everywhere(lambda c: not may_produce(two.writing, c, orders[c]), "refused")
    rest.ok("POST", "/tenants/acme/grants", {**decision, "decision": "grant"})
    everywhere(lambda c: may_produce(two.writing, c, orders[c]), "allowed again")
    assert two.writer.events("ApplicationDrifted") == []


def test_new_credentials_replace_the_old_and_revoked_ones_let_nobody_in(two: Two, control_plane: Login) -> None:
    new = two.writer.issue()
    two.writer.applied()
    for cluster in SECURED:
        assert iterations(control_plane, cluster, two.writer.principal) == 8194
    everywhere(lambda c: logs_in(new, c) and not logs_in(two.writing, c), "only the new password")
    two.writer.rest.ok("DELETE", f"{two.writer.path}/credentials")
    everywhere(lambda c: not logs_in(new, c), "nobody")


@pytest.mark.nightly  # a Java program beside librdkafka
def test_kafkas_tools_are_not_let_in_with_revoked_credentials(two: Two, tmp_path: Path) -> None:
    new = two.writer.issue()
    two.writer.applied()
    two.writer.rest.ok("DELETE", f"{two.writer.path}/credentials")
    everywhere(lambda c: not logs_in(new, c), "nobody")
    tools = ConsoleTools(new, SECURED[0], tmp_path)
    assert NOT_LET_IN in tools.try_to_consume("any", "any")


@pytest.mark.nightly  # grants that come and go stay; streams: test_wanted_access
def test_streams_that_come_and_go_are_followed_without_a_word_of_drift(
    two: Two, rest: RestClient, control_plane: Login
) -> None:
    name = f"s{uuid.uuid4().hex[:8]}"
    streams = f"{environment(ACME)}/streams"
    rest.ok("POST", streams, {"name": name, "partitions": 1})
    two.writer.change(produces=["orders", name])
    two.writer.applied()
    names = {cluster: topic(rest, ACME, name, cluster) for cluster in SECURED}
    everywhere(lambda c: f"TOPIC {names[c]} WRITE" in acls(control_plane, c, two.writer.principal), "there")
    rest.ok("DELETE", f"{streams}/{name}")
    everywhere(lambda c: f"TOPIC {names[c]} WRITE" not in acls(control_plane, c, two.writer.principal), "gone")
    assert two.writer.events("ApplicationDrifted") == []


@pytest.mark.nightly  # test_access_changes, with a mutant; withdrawn grants stay on clusters
def test_a_deleted_application_leaves_nothing_and_others_stay(
    two: Two, rest: RestClient, control_plane: Login
) -> None:
    who = two.writer.principal
    rest.ok("DELETE", two.writer.path)
    everywhere(lambda c: acls(control_plane, c, who) == {} and iterations(control_plane, c, who) is None, "gone")
    eventually(lambda: len(two.writer.events("ApplicationRemoved")) == 3, "recorded for all clusters", 0.3)
    assert not logs_in(two.writing, SECURED[0])
    assert two.reader.shown()["applied"] == dict.fromkeys((*SECURED, OPEN), "applied")
    assert logs_in(two.reading, SECURED[0])


@pytest.mark.nightly
def test_a_cluster_that_is_away_holds_up_nobody_and_gets_all_when_it_is_back(
    two: Two, rest: RestClient, secured: RunningEstate, control_plane: Login
) -> None:
    broker = secured.process("kafka:cluster-2:1")["pid"]
    os.kill(broker, signal.SIGSTOP)
    try:
        eventually(lambda: rest.ok("GET", "/clusters/cluster-2")["state"] == "offline", "offline", 0.3)
        new = two.writer.issue()
        late = declare(rest, secured, ACME, produces=["orders"])
        late.applied("cluster-1", OPEN)
        two.writer.applied("cluster-1", OPEN)
        assert logs_in(new, "cluster-1")
        assert late.shown()["applied"]["cluster-2"] == "pending"
        rest.ok("DELETE", two.reader.path)
    finally:
        os.kill(broker, signal.SIGCONT)
    late.applied()
    two.writer.applied()
    eventually(lambda: logs_in(new, "cluster-2"), "the new password there", 0.3)
    eventually(lambda: len(two.reader.events("ApplicationRemoved")) == 3, "removed there too", 0.3)
    assert acls(control_plane, "cluster-2", two.reader.principal) == {}
    rest.ok("DELETE", late.path)


@pytest.mark.nightly  # test_wanted_access, with a mutant
def test_a_cluster_that_leaves_the_tree_loses_all_and_gets_it_again_with_the_tree(
    two: Two, rest: RestClient, control_plane: Login
) -> None:
    who, left = two.writer.principal, "cluster-2"
    root = rest.ok("GET", "/trees/main")["root"]
    smaller = {"level": 2, "children": [{"cluster": "cluster-1"}, {"cluster": OPEN}]}
    rest.ok("PUT", "/trees/main", smaller)
    try:
        eventually(lambda: two.writer.shown()["leaving"] == {}, "removed there", 0.3)
        assert [row["cluster"] for row in two.writer.events("ApplicationRemoved")] == [left]
        assert acls(control_plane, left, who) == {}
        assert iterations(control_plane, left, who) is None
        assert not logs_in(two.writing, left)
        assert logs_in(two.writing, "cluster-1")
    finally:
        rest.ok("PUT", "/trees/main", root)
    two.writer.applied()
    everywhere(lambda c: logs_in(two.writing, c), "let in again, by the same password")
    assert two.writer.events("ApplicationDrifted") == []
