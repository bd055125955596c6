"""ACLs, credentials, quotas on real brokers: what clients need, what is seen and changed, what is refused."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from backend.domain.access.access_steps import (
    PARTS,
    AddAcls,
    RemoveAcls,
    RemoveCredentials,
    SetCredentials,
    SetQuotas,
    WantedAccess,
    access_steps,
    iterations_of,
)
from backend.domain.access.acls import Acl, acls_of, text
from backend.kafka.admin.access import AccessAdmin
from backend.kafka.base.errors import KafkaCallFailed
from tests.eventually import eventually
from tests.kafka.access.conftest import OPEN, SCRAM, Login
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import DEADLINE_SECONDS

CLUSTER = "cluster-1"
PASSWORD = "correct horse battery staple"


def properties(login: Login) -> dict[str, str]:
    """As the control plane keeps them, the password as a reference."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": SCRAM,
        "sasl.username": login.username,
        "sasl.password": f"${{file:{login.estate.home / 'secrets' / 'kafka-password'}}}",
    }


@pytest.fixture(scope="module")
def admin(secured: RunningEstate, control_plane: Login) -> Iterator[AccessAdmin]:
    opened = AccessAdmin(secured.bootstrap_servers(CLUSTER), properties(control_plane), 10.0)
    yield opened
    opened.close()


@pytest.fixture
def principal() -> str:
    return f"acme/retail/prod/a{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def topics(control_plane: Login) -> tuple[str, str]:
    client = AdminClient(control_plane.config(CLUSTER))
    names = [f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("in", "out")]
    for future in client.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result(DEADLINE_SECONDS)
    producer = Producer(control_plane.config(CLUSTER))
    for _ in range(3):
        producer.produce(names[0], b"v")
    assert producer.flush(DEADLINE_SECONDS) == 0
    return names[0], names[1]


class Refused(Exception):
    """A client was refused an operation."""


REFUSALS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


def refused(error: KafkaError) -> None:
    """Raise Refused if it says so."""
    if error.code() in REFUSALS:
        raise Refused(error.str())


def read_and_write(login: Login, topics: tuple[str, str], group: str, *, transactional: bool) -> None:
    """Act as a stock client: read as a member of the group, write idempotently. Raises Refused."""
    given = {"transactional_id": f"{login.username}/1"} if transactional else {"enable_idempotence": True}
    producer = Producer(login.config(CLUSTER, **given))
    consumer = Consumer(
        login.config(CLUSTER, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
    )
    try:
        if transactional:
            producer.init_transactions(DEADLINE_SECONDS)
            producer.begin_transaction()
        consumer.subscribe([topics[0]])
        message = None
        while message is None or message.error():
            message = consumer.poll(0.2)
            if message is not None and message.error():
                refused(message.error())
        outcome: list[KafkaError | None] = []
        producer.produce(topics[1], message.value(), on_delivery=lambda error, _: outcome.append(error))
        producer.flush(DEADLINE_SECONDS)
        if outcome[0] is not None:
            refused(outcome[0])
        offsets = [TopicPartition(topics[0], 0, message.offset() + 1)]
        if transactional:
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, metadata, DEADLINE_SECONDS)
            producer.commit_transaction(DEADLINE_SECONDS)
        else:
            consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        refused(error.args[0])
        raise
    finally:
        consumer.close()


def given(admin: AccessAdmin, principal: str, acls: frozenset[Acl]) -> None:
    """The principal may log in and has just these entries, on every broker."""
    there = admin.observe([principal], None)
    present = there.acls.get(principal, frozenset())
    assert not admin.remove_acls({principal: present - acls})
    assert not admin.add_acls({principal: acls - present})
    if principal not in there.credentials:
        assert not admin.set_credentials({principal: (SCRAM, iterations_of(1), PASSWORD)})
    eventually(lambda: admin.observe([principal], None).acls.get(principal, frozenset()) == acls, "the entries")
    eventually(lambda: principal in admin.observe([principal], None).credentials, "the credentials")


@pytest.mark.parametrize(
    "transactional", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["idempotent", "transactional"]
)
def test_stock_clients_need_just_what_an_application_gets(
    admin: AccessAdmin, secured: RunningEstate, principal: str, topics: tuple[str, str], transactional: bool
) -> None:
    def needed(by: str) -> frozenset[Acl]:
        return acls_of([topics[1]], [topics[0]], [by], f"{by}/" if transactional else None)

    def least(by: str) -> list[Acl]:
        # Kafka's own authorizer implies what is left out.
        return sorted(acl for acl in needed(by) if acl.operation != "describe")

    def use(by: str) -> None:
        read_and_write(Login(secured, by, PASSWORD), topics, by, transactional=transactional)

    def is_refused(by: str) -> bool:
        try:
            use(by)
        except Refused:
            return True
        return False

    given(admin, principal, needed(principal))
    use(principal)
    given(admin, principal, frozenset(least(principal)))
    use(principal)
    # One entry is left out at a time, each for a principal of its own, side by side: clients take seconds.
    lacking = {}
    for number in range(len(least(principal))):
        by = f"{principal}-{number}"
        lacking[by] = least(by)[number]
        given(admin, by, frozenset(least(by)) - {lacking[by]})
    with ThreadPoolExecutor(len(lacking)) as threads:
        refusals = dict(zip(lacking, threads.map(is_refused, lacking), strict=True))
    assert [text(lacking[by]) for by, refused in refusals.items() if not refused] == [], "not needed"


def test_names_that_only_begin_alike_are_not_given(
    admin: AccessAdmin, secured: RunningEstate, principal: str, topics: tuple[str, str]
) -> None:
    given(admin, principal, acls_of([topics[1]], [topics[0]], [principal], f"{principal}/"))
    neighbour = Login(secured, principal, PASSWORD)
    with pytest.raises(Refused):
        read_and_write(neighbour, topics, f"{principal}-2", transactional=False)
    producer = Producer(neighbour.config(CLUSTER, transactional_id=f"{principal}-2/1"))
    with pytest.raises(KafkaException) as refusal:
        producer.init_transactions(DEADLINE_SECONDS)
    assert refusal.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def carry_out(admin: AccessAdmin, steps: list[object]) -> None:
    for step in steps:
        match step:
            case AddAcls(wanted=wanted, acls=acls):
                assert not admin.add_acls({wanted.principal: acls})
            case RemoveAcls(wanted=wanted, acls=acls):
                assert not admin.remove_acls({wanted.principal: acls if wanted.acls else None})
            case SetQuotas(wanted=wanted, after=after):
                assert not admin.set_quotas({wanted.principal: after})
            case SetCredentials(wanted=wanted, mechanism=mechanism, after=after):
                assert not admin.set_credentials({wanted.principal: (mechanism, after, PASSWORD)})
            case RemoveCredentials(wanted=wanted, before=before):
                assert not admin.remove_credentials({wanted.principal: before})


def test_a_plan_that_is_carried_out_leaves_nothing_to_do_and_others_alone(
    admin: AccessAdmin, principal: str
) -> None:
    other = f"{principal}x"
    theirs = {Acl("topic", "t", "literal", "all"), Acl("cluster", "kafka-cluster", "literal", "describe")}
    assert not admin.add_acls({other: theirs})
    assert not admin.set_credentials({other: ("SCRAM-SHA-256", 4096, PASSWORD)})
    assert not admin.set_quotas({other: {"request_percentage": 3.0}})
    strays = {
        Acl("topic", "t", "prefixed", "read", "10.0.0.1", "deny"),
        Acl("cluster", "kafka-cluster", "literal", "idempotent-write"),
    }
    assert not admin.add_acls({principal: strays})
    assert not admin.set_credentials({principal: ("SCRAM-SHA-256", 4096, PASSWORD)})
    assert not admin.set_quotas({principal: {"request_percentage": 3.0}})
    wanted = WantedAccess(
        principal=principal,
        cluster=CLUSTER,
        revision=1,
        acls=acls_of(["t"], ["u"], ["g"], f"{principal}/"),
        credentials=1,
        quotas={"producer_byte_rate": 1000.0, "consumer_byte_rate": 2.0**53 - 1},
    )
    first = access_steps(
        [wanted],
        eventually(
            lambda: (seen := admin.observe([principal], None)).acls.get(principal) == strays and seen, "the strays"
        ),
    )
    kinds = {type(step) for step in first}
    assert kinds >= {AddAcls, RemoveAcls, SetQuotas, SetCredentials, RemoveCredentials}
    carry_out(admin, list(first))
    applied = replace(wanted, applied=1, parts=dict.fromkeys(PARTS, "applied"))
    eventually(lambda: access_steps([applied], admin.observe([principal], None)) == [], "nothing left to do")
    gone = WantedAccess(principal=principal, cluster=CLUSTER, revision=0, gone=True)
    carry_out(admin, list(access_steps([gone], admin.observe([principal], None))))
    eventually(lambda: len(access_steps([gone], admin.observe([principal], None))) == 1, "all of it removed")
    seen = admin.observe([other], None)
    assert seen.acls == {other: theirs}
    assert seen.credentials == {other: {"SCRAM-SHA-256": 4096}}
    assert seen.quotas == {other: {"request_percentage": 3.0}}


def test_removing_what_is_gone_already_is_fine(admin: AccessAdmin, principal: str) -> None:
    assert not admin.remove_acls({principal: [Acl("topic", "t", "literal", "read")]})
    assert not admin.remove_credentials({principal: [SCRAM]})
    assert not admin.set_quotas({principal: {"request_percentage": None}})


def test_an_open_cluster_says_what_it_cannot_take(secured: RunningEstate, principal: str) -> None:
    admin = AccessAdmin(secured.bootstrap_servers(OPEN), {}, 10.0)
    seen = admin.observe([principal], None)
    assert set(seen.cannot) == {"acls", "credentials"}
    assert seen.cannot["acls"] == "the cluster has no authorizer"
    assert not admin.set_quotas({principal: {"request_percentage": 3.0}})
    eventually(lambda: admin.observe([principal], None).quotas == {principal: {"request_percentage": 3.0}}, "seen")
    assert not admin.set_quotas({principal: {"request_percentage": None}})
    admin.close()


def test_a_cluster_that_does_not_let_us_says_so_in_each_part(
    admin: AccessAdmin, secured: RunningEstate, principal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(admin, principal, frozenset())
    monkeypatch.setenv("RESTRICTED", PASSWORD)
    restricted = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": SCRAM,
        "sasl.username": principal,
        "sasl.password": "${env:RESTRICTED}",
    }
    weak = AccessAdmin(secured.bootstrap_servers(CLUSTER), restricted, 10.0)
    seen = weak.observe([principal], None)
    assert set(seen.cannot) == set(PARTS)
    assert all("does not let the control plane" in reason for reason in seen.cannot.values())
    weak.close()


def test_what_does_not_answer_or_is_another_cluster_is_a_failure(
    admin: AccessAdmin, control_plane: Login, principal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KafkaCallFailed, match="another Kafka cluster"):
        admin.observe([principal], "a cluster of another id")
    nobody = AccessAdmin("127.0.0.1:9", properties(control_plane), 1.0)
    with pytest.raises(KafkaCallFailed):
        nobody.observe([principal], None)
    nobody.close()
