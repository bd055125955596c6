"""Event stream `tenant-<name>`: given events, when a command, then events or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest

from backend.domain.base.errors import (
    AlreadyExists,
    DomainError,
    NameInvalid,
    NotFound,
    StateConflict,
    TechnicalNameTaken,
    ValueInvalid,
)
from backend.domain.base.event import Event
from backend.domain.names.formats import ClusterFormats
from backend.domain.names.names import StreamName
from backend.domain.tenants import stream, tenant
from backend.domain.tenants.stream import (
    StreamApplied,
    StreamApplyFailed,
    StreamChanged,
    StreamDeclared,
    StreamDeleted,
    StreamDrifted,
    StreamRemoved,
    StreamTailLost,
    StreamTopicKept,
)
from backend.domain.tenants.stream_records import (
    RecordApplied,
    RecordApplyFailed,
    RecordDrift,
    RecordRemoved,
    RecordTailLost,
    RecordTopicKept,
)
from backend.domain.tenants.tenant import EnvironmentChanged, EnvironmentCreated, InstanceCreated, TenantCreated
from backend.domain.tenants.tenant_commands import (
    ChangeEnvironment,
    ChangeStream,
    CreateEnvironment,
    CreateInstance,
    CreateTenant,
    DeclareStream,
    DeleteStream,
    TenantCommand,
    decide,
)
from backend.domain.topics.stream_settings import StreamSettings

IN: dict[str, Any] = {"instance": "retail", "environment": "prod", "stream": "orders"}
AT: dict[str, Any] = {"tenant": "acme", **IN}
SETTINGS: dict[str, Any] = {
    "partitions": 4,
    "replication_factor": 3,
    "min_insync_replicas": 2,
    "retention_ms": 604_800_000,
    "cleanup_policy": "delete",
    "max_message_bytes": 1_048_588,
    "distributed": True,
    "config": {},
}
TENANT = TenantCreated(tenant="acme")
INSTANCE = InstanceCreated(tenant="acme", instance="retail", tree="main")
ENVIRONMENT = EnvironmentCreated(
    tenant="acme",
    instance="retail",
    environment="prod",
    margin_seconds=60,
    offset_mode="margin",
    record_name_subjects=True,
)
CHANGED = EnvironmentChanged(
    tenant="acme",
    instance="retail",
    environment="prod",
    margin_seconds=60,
    offset_mode="margin",
    record_name_subjects=True,
)
SET_UP: list[Event] = [TENANT, INSTANCE, ENVIRONMENT]
DECLARED = StreamDeclared(**AT, revision=1, **SETTINGS)
WITH_STREAM: list[Event] = [*SET_UP, DECLARED]
APPLIED = StreamApplied(**AT, cluster="c1", topic_id="T1", incarnation=1, replication_factor=1)
DELETED = StreamDeleted(**AT, clusters=("c1",), confirmed=False)
REMOVED = StreamRemoved(**AT, cluster="c1")
KEPT = StreamTopicKept(**AT, cluster="c1")
DECLARED_AGAIN = replace(DECLARED, revision=2)
DECLARE = DeclareStream(**IN, settings=StreamSettings(**SETTINGS))
RECORD = RecordApplied(**IN, cluster="c1", topic_id="T1", replication_factor=1)
DRIFT = RecordDrift(**IN, cluster="c1", found={"retention.ms": "1"}, reason="no", revision=1)
DRIFTED = StreamDrifted(**AT, cluster="c1", found={"retention.ms": "1"}, reason="no")
TAIL = RecordTailLost(**IN, cluster="c1", partition=2, first_offset=40, last_offset=79, incarnation=1)
TAIL_LOST = StreamTailLost(**AT, cluster="c1", partition=2, first_offset=40, last_offset=79, incarnation=2)
FULL = "{tenant}-{instance}-{environment}-{topic}"
C1 = ClusterFormats("c1", FULL, FULL)
C4 = ClusterFormats("c4", "{tenant}-{topic}", FULL)


def when(given: Sequence[Event], command: TenantCommand) -> list[Any]:
    return list(decide(reduce(tenant.evolve, given, tenant.INITIAL), command))


@pytest.mark.parametrize(
    ("given", "command", "then"),
    [
        ([], CreateTenant(tenant="acme"), [TENANT]),
        ([TENANT], CreateInstance(instance="retail", known_trees=frozenset({"main"})), [INSTANCE]),
        ([TENANT, INSTANCE], CreateEnvironment(instance="retail", environment="prod"), [ENVIRONMENT]),
        (SET_UP, ChangeEnvironment(instance="retail", environment="prod", margin_seconds=60), []),
        (
            SET_UP,
            ChangeEnvironment(instance="retail", environment="prod", offset_mode="exact"),
            [
                EnvironmentChanged(
                    tenant="acme",
                    instance="retail",
                    environment="prod",
                    margin_seconds=60,
                    offset_mode="exact",
                    record_name_subjects=True,
                )
            ],
        ),
        (
            SET_UP,
            ChangeEnvironment(instance="retail", environment="prod", record_name_subjects=False),
            [replace(CHANGED, record_name_subjects=False)],
        ),
        (
            [*SET_UP, replace(CHANGED, record_name_subjects=False)],
            ChangeEnvironment(instance="retail", environment="prod", margin_seconds=5),
            [replace(CHANGED, record_name_subjects=False, margin_seconds=5)],
        ),
        (SET_UP, DECLARE, [DECLARED]),
        (WITH_STREAM, ChangeStream(**IN), []),
        (WITH_STREAM, ChangeStream(**IN, partitions=4, distributed=True), []),
        (
            WITH_STREAM,
            ChangeStream(**IN, partitions=8),
            [StreamChanged(**AT, revision=2, **{**SETTINGS, "partitions": 8})],
        ),
        (
            WITH_STREAM,
            ChangeStream(**IN, distributed=False),
            [StreamChanged(**AT, revision=2, **{**SETTINGS, "distributed": False})],
        ),
        (
            WITH_STREAM,
            ChangeStream(**IN, retention_ms=1, clusters_with_records=()),
            [StreamChanged(**AT, revision=2, **{**SETTINGS, "retention_ms": 1})],
        ),
        (
            WITH_STREAM,
            ChangeStream(**IN, cleanup_policy="compact", confirm="acme/retail/prod/orders"),
            [StreamChanged(**AT, revision=2, **{**SETTINGS, "cleanup_policy": "compact"})],
        ),
        (WITH_STREAM, RECORD, [APPLIED]),
        ([*WITH_STREAM, APPLIED], RECORD, []),
        ([*WITH_STREAM, APPLIED], replace(RECORD, replication_factor=3), [replace(APPLIED, replication_factor=3)]),
        (
            [*WITH_STREAM, APPLIED],
            replace(RECORD, topic_id="T2"),
            [replace(APPLIED, topic_id="T2", incarnation=2)],
        ),
        (WITH_STREAM, replace(RECORD, revision=2), []),
        (WITH_STREAM, replace(RECORD, revision=1), [APPLIED]),
        (
            [*WITH_STREAM, APPLIED, StreamChanged(**AT, revision=2, **SETTINGS)],
            replace(RECORD, revision=2),
            [APPLIED],
        ),
        (
            WITH_STREAM,
            RecordApplyFailed(**IN, cluster="c1", reason="no"),
            [StreamApplyFailed(**AT, cluster="c1", reason="no")],
        ),
        (
            [*WITH_STREAM, StreamApplyFailed(**AT, cluster="c1", reason="no")],
            RecordApplyFailed(**IN, cluster="c1", reason="no"),
            [],
        ),
        ([*WITH_STREAM, StreamApplyFailed(**AT, cluster="c1", reason="no")], RECORD, [APPLIED]),
        ([*WITH_STREAM, APPLIED], DRIFT, [DRIFTED]),
        ([*WITH_STREAM, APPLIED], replace(DRIFT, reason=None), [replace(DRIFTED, reason=None)]),
        # Tried again each few seconds, told once; over when it is applied again.
        ([*WITH_STREAM, APPLIED, DRIFTED], DRIFT, []),
        ([*WITH_STREAM, APPLIED, DRIFTED], RECORD, [APPLIED]),
        ([*WITH_STREAM, APPLIED, DRIFTED], replace(DRIFT, reason=None), [replace(DRIFTED, reason=None)]),
        # Of an older declaration, or of a topic that is not as declared anyway: that is no drift.
        ([*WITH_STREAM, APPLIED, StreamChanged(**AT, revision=2, **SETTINGS)], DRIFT, []),
        (WITH_STREAM, DRIFT, []),
        (WITH_STREAM, DeleteStream(**IN), [replace(DELETED, clusters=())]),
        ([*WITH_STREAM, APPLIED], DeleteStream(**IN), [DELETED]),
        (
            [*WITH_STREAM, APPLIED],
            DeleteStream(**IN, clusters_with_records=("c1",), confirm="acme/retail/prod/orders"),
            [replace(DELETED, confirmed=True)],
        ),
        ([*WITH_STREAM, APPLIED, DELETED], RecordRemoved(**IN, cluster="c1"), [REMOVED]),
        ([*WITH_STREAM, APPLIED, DELETED, REMOVED], RecordRemoved(**IN, cluster="c1"), []),
        ([*WITH_STREAM, APPLIED], RecordRemoved(**IN, cluster="c1"), []),
        ([*WITH_STREAM, APPLIED, DELETED], RecordTopicKept(**IN, cluster="c1"), [KEPT]),
        # The same topic, taken up again: what knows nothing of its incarnations must not mistake its records.
        ([*WITH_STREAM, APPLIED, DELETED, KEPT, DECLARED_AGAIN], RECORD, [APPLIED]),
        (
            [*WITH_STREAM, APPLIED, TAIL_LOST, DELETED, KEPT, DECLARED_AGAIN],
            RECORD,
            [replace(APPLIED, incarnation=TAIL_LOST.incarnation + 1)],
        ),
        ([*WITH_STREAM, APPLIED, DELETED, KEPT], RecordTopicKept(**IN, cluster="c1"), []),
        ([*WITH_STREAM, APPLIED], RecordTopicKept(**IN, cluster="c1"), []),
        # The incarnation outlives the deletion: the next topic's offsets must not be taken for the first's.
        (
            [*WITH_STREAM, APPLIED, DELETED, REMOVED],
            replace(DECLARE, clusters=[C1]),
            [replace(DECLARED, revision=2)],
        ),
        # A cluster that left the tree must not stand in the way, and is still to be cleaned.
        ([*WITH_STREAM, APPLIED, DELETED], replace(DECLARE, clusters=[C4]), [replace(DECLARED, revision=2)]),
        ([*WITH_STREAM, APPLIED, DELETED, replace(DECLARED, revision=2)], RECORD, []),
        (
            [*WITH_STREAM, APPLIED, DELETED, replace(DECLARED, revision=2)],
            RecordRemoved(**IN, cluster="c1"),
            [REMOVED],
        ),
        (
            [*WITH_STREAM, APPLIED, DELETED, REMOVED, replace(DECLARED, revision=2)],
            replace(RECORD, topic_id="T2"),
            [replace(APPLIED, topic_id="T2", incarnation=2)],
        ),
        # A topic that was made while its stream was deleted is recorded, so that it gets removed; one that was
        # there before is not: it is somebody's.
        ([*WITH_STREAM, replace(DELETED, clusters=())], replace(RECORD, made=True), [APPLIED]),
        ([*WITH_STREAM, replace(DELETED, clusters=())], RECORD, []),
        ([*WITH_STREAM, replace(DELETED, clusters=()), APPLIED], RecordRemoved(**IN, cluster="c1"), [REMOVED]),
        ([*WITH_STREAM, DELETED], RecordApplyFailed(**IN, cluster="c1", reason="no"), []),
        # Several tasks find one loss; the next one of any partition, and the next topic, are numbered on.
        ([*WITH_STREAM, APPLIED], TAIL, [TAIL_LOST]),
        ([*WITH_STREAM, APPLIED, TAIL_LOST], TAIL, []),
        (
            [*WITH_STREAM, APPLIED, TAIL_LOST],
            replace(TAIL, incarnation=2, first_offset=30),
            [replace(TAIL_LOST, first_offset=30, incarnation=3)],
        ),
        (
            [*WITH_STREAM, APPLIED, TAIL_LOST],
            replace(TAIL, partition=0),
            [replace(TAIL_LOST, partition=0, incarnation=3)],
        ),
        ([*WITH_STREAM, APPLIED, TAIL_LOST], RECORD, []),
        (
            [*WITH_STREAM, APPLIED, TAIL_LOST],
            replace(RECORD, topic_id="T2"),
            [replace(APPLIED, topic_id="T2", incarnation=3)],
        ),
        ([*WITH_STREAM, APPLIED, TAIL_LOST, replace(APPLIED, topic_id="T2", incarnation=3)], TAIL, []),
    ],
)
def test_decisions(given: list[Event], command: TenantCommand, then: list[Event]) -> None:
    assert when(given, command) == then


@pytest.mark.parametrize(
    ("given", "command", "error"),
    [
        ([TENANT], CreateTenant(tenant="acme"), AlreadyExists),
        ([], CreateTenant(tenant="Acme"), NameInvalid),
        ([], CreateInstance(instance="retail", known_trees=frozenset({"main"})), NotFound),
        ([TENANT], CreateInstance(instance="retail"), ValueInvalid),
        ([TENANT], CreateInstance(instance="retail", tree="other", known_trees=frozenset({"main"})), ValueInvalid),
        ([TENANT, INSTANCE], CreateInstance(instance="retail", known_trees=frozenset({"main"})), AlreadyExists),
        ([TENANT], CreateEnvironment(instance="retail", environment="prod"), NotFound),
        (
            [TENANT, INSTANCE],
            CreateEnvironment(instance="retail", environment="prod", margin_seconds=-1),
            ValueInvalid,
        ),
        (
            [TENANT, INSTANCE],
            CreateEnvironment(instance="retail", environment="prod", offset_mode="x"),
            ValueInvalid,
        ),
        (SET_UP, CreateEnvironment(instance="retail", environment="prod"), AlreadyExists),
        (SET_UP, ChangeEnvironment(instance="retail", environment="dev"), NotFound),
        (SET_UP, replace(DECLARE, environment="dev"), NotFound),
        (SET_UP, replace(DECLARE, stream="_treeline.verify"), NameInvalid),
        (WITH_STREAM, DECLARE, AlreadyExists),
        ([*WITH_STREAM, APPLIED, DELETED], replace(DECLARE, clusters=[C1]), StateConflict),
        (
            SET_UP,
            replace(
                DECLARE,
                clusters=[C4],
                taken_topics={("c4", "acme-orders"): StreamName("acme", "retail", "dev", "orders")},
            ),
            TechnicalNameTaken,
        ),
        (SET_UP, replace(DECLARE, clusters=[ClusterFormats("c1", "x" * 245 + "{topic}", FULL)]), NameInvalid),
        (WITH_STREAM, ChangeStream(**IN, partitions=3), ValueInvalid),
        (WITH_STREAM, ChangeStream(**IN, replication_factor=1, min_insync_replicas=2), ValueInvalid),
        (WITH_STREAM, ChangeStream(**IN, retention_ms=1), StateConflict),
        (WITH_STREAM, ChangeStream(**IN, retention_ms=1, clusters_with_records=("c1",)), StateConflict),
        (WITH_STREAM, ChangeStream(**IN, partitions=9, confirm="acme/retail/prod/other"), StateConflict),
        (WITH_STREAM, ChangeStream(**{**IN, "stream": "nothing"}), NotFound),
        ([*WITH_STREAM, DELETED], ChangeStream(**IN), NotFound),
        ([*WITH_STREAM, DELETED], DeleteStream(**IN), NotFound),
        (WITH_STREAM, DeleteStream(**IN, clusters_with_records=("c1",)), StateConflict),
        (WITH_STREAM, DeleteStream(**IN, clusters_with_records=("c1",), confirm="orders"), StateConflict),
        (SET_UP, RECORD, NotFound),
    ],
)
def test_refusals(given: list[Event], command: TenantCommand, error: type[DomainError]) -> None:
    with pytest.raises(error):
        when(given, command)


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"partitions": 0}, "/partitions"),
        ({"partitions": 10_001}, "/partitions"),
        ({"replication_factor": 0}, "/replication_factor"),
        ({"replication_factor": 32_768}, "/replication_factor"),
        ({"min_insync_replicas": 4}, "/min_insync_replicas"),
        ({"retention_ms": -2}, "/retention_ms"),
        ({"retention_ms": 2**63}, "/retention_ms"),
        ({"cleanup_policy": "forget"}, "/cleanup_policy"),
    ],
)
def test_a_setting_out_of_range_is_refused_at_its_place(wrong: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValueInvalid) as refused:
        when(SET_UP, replace(DECLARE, settings=replace(DECLARE.settings, **wrong)))
    assert pointer in [error.pointer for error in refused.value.errors]


def test_all_wrong_settings_are_named_at_once() -> None:
    with pytest.raises(ValueInvalid) as refused:
        when(SET_UP, replace(DECLARE, settings=replace(DECLARE.settings, partitions=0, retention_ms=-5)))
    assert [error.pointer for error in refused.value.errors] == ["/partitions", "/retention_ms"]


def test_a_clash_names_both_streams_and_the_cluster() -> None:
    other = StreamName("acme", "retail", "dev", "orders")
    with pytest.raises(TechnicalNameTaken, match=r"acme/retail/prod/orders and acme/retail/dev/orders .* on c4"):
        when(SET_UP, replace(DECLARE, clusters=[C4], taken_topics={("c4", "acme-orders"): other}))


def test_history_that_does_not_apply_never_makes_evolve_fail() -> None:
    strange: list[Event] = [
        APPLIED,
        ENVIRONMENT,
        TENANT,
        DECLARED,
        ENVIRONMENT,
        APPLIED,
        INSTANCE,
        DELETED,
        *SET_UP,
    ]
    state = reduce(tenant.evolve, strange, tenant.INITIAL)
    assert state is not None
    assert set(state.instances) == {"retail"}


def test_a_second_cut_takes_the_place_of_what_was_born_behind_it() -> None:
    topic = stream.Topic(topic_id="T1", incarnation=1, replication_factor=1)
    assert topic.incarnations(2) == ((0, 1),)
    lost = [
        TAIL_LOST,
        replace(TAIL_LOST, first_offset=90, incarnation=3),
        replace(TAIL_LOST, first_offset=60, incarnation=4),
    ]
    state = reduce(tenant.evolve, [*WITH_STREAM, APPLIED, *lost], tenant.INITIAL)
    assert state is not None
    found = state.instances["retail"].environments["prod"].streams["orders"].topics["c1"]
    assert (found.incarnations(0), found.incarnations(2)) == (((0, 1),), ((0, 1), (40, 2), (60, 4)))
