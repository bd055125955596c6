"""Outcomes of the reconcile loop are recorded in batches, and one refusal does not affect the others."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from backend import deciders
from backend.dispatch import Directed, Dispatcher
from backend.domain.tenants.tenant_commands import (
    CreateEnvironment,
    CreateInstance,
    CreateTenant,
    DeclareStream,
    DeleteStream,
)
from backend.domain.topics.steps import AlignTopic, UnwantedTopic, WantedTopic
from backend.eventlog.faults import LogBusy
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.queries.base import events as queries
from backend.queries.base.observed import internal_topics
from backend.queries.tenants.streams import list_streams
from tests.support.database.sample_events import METADATA, TIME
from workers import context
from workers.topics import recording
from workers.topics.recording import Outcomes

PLACE = {"instance": "retail", "environment": "prod"}
STREAMS = [f"s{number}" for number in range(7)]


class Counted(Dispatcher):
    """A dispatcher that remembers the size of each transaction."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.sizes: list[int] = []

    def execute_many(self, commands, *, time):
        self.sizes.append(len(commands))
        return super().execute_many(commands, time=time)


@pytest.fixture
def dispatcher(database, monkeypatch):
    made = Counted(database.engine, domain_registry(), PROJECTIONS)
    commands = [
        CreateTenant(tenant="acme"),
        CreateInstance(instance="retail", known_trees=frozenset({"main"})),
        CreateEnvironment(**PLACE),
        *(DeclareStream(**PLACE, stream=stream) for stream in STREAMS),
    ]
    made.execute_many([Directed(deciders.TENANT, "tenant-acme", each, METADATA) for each in commands], time=TIME)
    made.sizes.clear()
    monkeypatch.setattr(context, "dispatcher", lambda: made)
    monkeypatch.setattr(context, "engine", lambda: database.engine)
    return made


def wanted(stream: str, revision: int | None = 1) -> WantedTopic:
    return WantedTopic(
        stream=f"acme/retail/prod/{stream}",
        cluster="c1",
        topic=stream,
        partitions=1,
        replication_factor=1,
        min_insync_replicas=1,
        config={},
        revision=revision,
        applied=False,
        topic_id=None,
    )


def aligned(stream: str, revision: int | None = 1) -> AlignTopic:
    return AlignTopic(wanted=wanted(stream, revision), config={}, topic_id=f"id-{stream}", replication_factor=1)


def new_events(database) -> list[tuple[str, str, str]]:
    with database.engine.connect() as connection:
        found = queries.list_events(connection, after=3 + len(STREAMS), limit=1000)
        return [(event.name, event.data["stream"], event.metadata.request_id) for event in found]


def test_a_rounds_outcomes_are_recorded_at_once_in_their_order(dispatcher, database):
    outcomes = Outcomes()
    outcomes.applied(aligned("s0"), "r0")
    outcomes.failed(wanted("s1"), "no space", "r1")
    outcomes.removed(UnwantedTopic(stream="acme/retail/prod/s2", cluster="c1", topic="s2", topic_id="t"), "r2")
    outcomes.applied(aligned("s3"), "r3")
    assert new_events(database) == []
    outcomes.record()
    # No topic of s2 waited for its removal.
    assert new_events(database) == [
        ("StreamApplied", "s0", "r0"),
        ("StreamApplyFailed", "s1", "r1"),
        ("StreamApplied", "s3", "r3"),
    ]
    assert dispatcher.sizes == [4]
    outcomes.record()
    assert dispatcher.sizes == [4], "what was recorded is not recorded again"


def test_a_transaction_takes_only_so_many(dispatcher, database, monkeypatch):
    monkeypatch.setattr(recording, "MOST_AT_ONCE", 3)
    monkeypatch.setattr(recording, "LONGEST_WAIT_SECONDS", 1e9)
    outcomes = Outcomes()
    for stream in STREAMS:
        outcomes.applied(aligned(stream), "r")
        outcomes.record_if_due()
    outcomes.record()
    assert dispatcher.sizes == [3, 3, 1]
    with database.engine.connect() as connection:
        assert {row.name for row in list_streams(connection)} == set(STREAMS)
    assert [stream for _, stream, _ in new_events(database)] == STREAMS


def test_nobody_waits_for_a_long_round_to_end(dispatcher, database, monkeypatch):
    monkeypatch.setattr(recording, "LONGEST_WAIT_SECONDS", -1)
    outcomes = Outcomes()
    outcomes.record_if_due()
    outcomes.applied(aligned("s0"), "r")
    outcomes.record_if_due()
    assert len(new_events(database)) == 1


def test_one_that_is_refused_is_logged_and_the_others_are_recorded(dispatcher, database):
    outcomes = Outcomes()
    for stream in ("s0", "unknown", "s1"):
        outcomes.applied(aligned(stream), "r")
    with capture_logs() as logged:
        outcomes.record()
    assert [stream for _, stream, _ in new_events(database)] == ["s0", "s1"]
    assert dispatcher.sizes == [3, 1, 1, 1]
    warned = [entry for entry in logged if entry["log_level"] != "info"]
    assert [("unknown" in entry["outcome"], entry["log_level"]) for entry in warned] == [(True, "warning")]


def test_a_stream_that_was_deleted_since_it_was_planned_disturbs_nobody(dispatcher, database):
    gone = Directed(deciders.TENANT, "tenant-acme", DeleteStream(**PLACE, stream="s0"), METADATA)
    dispatcher.execute_many([gone], time=TIME)
    outcomes = Outcomes()
    outcomes.failed(wanted("s0"), "no space", "r")
    outcomes.applied(aligned("s1"), "r")
    outcomes.record()
    assert new_events(database)[1:] == [("StreamApplied", "s1", "r")]


def test_a_database_that_is_busy_is_not_asked_again_for_each(dispatcher, database, monkeypatch):
    asked = []

    def busy(commands, *, time):
        asked.append(len(commands))
        raise LogBusy("busy")

    monkeypatch.setattr(dispatcher, "execute_many", busy)
    outcomes = Outcomes()
    for stream in STREAMS:
        outcomes.applied(aligned(stream), "r")
    with capture_logs() as logged:
        outcomes.record()
    assert asked == [len(STREAMS)]
    assert [entry["reason"] for entry in logged] == ["busy"]
    assert new_events(database) == []


def test_internal_topics_are_observations_not_events(dispatcher, database):
    outcomes = Outcomes()
    outcomes.applied(aligned("verify", revision=None), "r")
    outcomes.failed(wanted("verify", revision=None), "no space", "r")
    outcomes.record()
    assert (new_events(database), dispatcher.sizes) == ([], [])
    with database.engine.connect() as connection:
        assert connection.execute(sa.select(internal_topics.c.topic_id)).scalars().all() == ["id-verify"]
