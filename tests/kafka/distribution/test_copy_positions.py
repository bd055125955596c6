"""Positions and starting points of sessions after idle partitions, changed routes and missing origins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from backend.domain.distribution.rescan import Checkpoint
from backend.domain.records import copy_flags, origin
from backend.domain.records.origin import Origin
from backend.kafka.copy import session as copy_session
from backend.kafka.copy.control_plane import ControlPlane
from backend.kafka.copy.session import CopySession
from backend.kafka.groups import positions
from tests.kafka.distribution.test_copy_session import Pair, copy, drain, numbered, pair, values
from tests.support.kafka.topics import DEADLINE_SECONDS, create_topic, read_all

__all__ = ["pair"]


def delete_before(pair: Pair, offset: int) -> None:
    """Delete records as retention does, on partition 0 of the source."""
    admin = AdminClient({"bootstrap.servers": pair.servers[pair.a]})
    (deleted,) = admin.delete_records([TopicPartition(pair.topic, 0, offset)]).values()
    deleted.result(DEADLINE_SECONDS)


def header(pair: Pair, cluster: int, offset: int) -> tuple[str, bytes]:
    """Return the origin header of a record that was produced on partition 0 of a cluster."""
    return "copy-origin", origin.encode(Origin(cluster, origin.stream_id(pair.stream), 0, offset, 1))


def test_positions_of_idle_partitions_are_renewed_beside_busy_ones(pair, monkeypatch):
    pair.produce(numbered(10))
    session = pair.session()
    drain(session)
    pair.forget_positions()
    monkeypatch.setattr(copy_session, "_RENEW_POSITIONS_SECONDS", 0.0)
    monkeypatch.setattr(copy_session, "_SKIPPED_COMMIT_SECONDS", 1e9)  # partition 0 is never idle for so long
    pair.produce([{"value": b"busy", "partition": 0}])
    copy(session, 11)
    kept = positions.read_all(pair.servers[pair.b], {}, [pair.plan().task.kafka_name])
    session.close()
    assert set(kept) == {(pair.copy_topic, 0), (pair.copy_topic, 1)}
    pair.copy_until_idle()
    assert len(pair.copied()) == 11


def test_an_origin_that_cannot_be_holds_up_nothing(pair):
    poisoned = [header(pair, 2, -1), header(pair, 2, 2**63 - 1), header(pair, 2, -(2**63))]
    pair.produce([{"value": b"%d" % n, "partition": 0, "headers": [one]} for n, one in enumerate(poisoned)])
    pair.produce([{"value": b"after", "partition": 0}])
    pair.copy_until_idle()
    # The largest possible offset may be a copy's, so it is copied to no target.
    assert [value for value in values(pair.copied()) if value != b"1"] == [b"0", b"2", b"after"]


def test_what_retention_took_is_told_although_the_routes_have_changed(pair):
    copies = [
        {
            "value": b"3:%d" % n,
            "headers": [("copy-flags", copy_flags.encode(2)), header(pair, 3, n)],
            "partition": 0,
        }
        for n in range(2)
    ]
    pair.produce([*copies, *({"value": b"old", "partition": 0} for _ in range(5))])
    plan = pair.plan()
    before = replace(plan, rule=replace(plan.rule, known_origins=plan.rule.known_origins | {3}))
    session = pair.session(plan=before)
    drain(session)
    session.close()
    pair.produce([*({"value": b"gone", "partition": 0} for _ in range(10)), {"value": b"kept", "partition": 0}])
    delete_before(pair, 17)
    # Records of cluster 3 take this route now, too.
    session = pair.session(plan=replace(before, routes={**before.routes, 3: 3}, routes_version=2))
    drain(session)
    session.close()
    assert [(gone.first_offset, gone.last_offset) for gone in pair.lost] == [(0, 6), (7, 16)]
    assert "may have been among them" in pair.lost[0].reason
    assert values(pair.copied()) == [b"old"] * 5 + [b"kept"]


@pytest.mark.nightly  # the same in test_copy_session
def test_a_target_that_has_nothing_yet_gets_what_there_is_and_nothing_is_told(pair):
    pair.produce(numbered(10))
    delete_before(pair, 3)
    pair.copy_until_idle()
    assert not pair.lost
    assert len(pair.copied()) == 7


def test_without_origins_checkpoints_are_neither_taken_nor_believed(pair, monkeypatch):
    monkeypatch.setattr(copy_session, "_CHECKPOINT_SECONDS", -1.0)
    plan = pair.plan()
    plan = replace(plan, rule=replace(plan.rule, write_origin=False))
    pair.produce(numbered(100))
    session = pair.session(plan=plan)
    copy(session, 100)
    taken = session.take_checkpoints()
    session.close()
    assert not taken, "without vectors a place says nothing of what lies before it"
    # Another distributor of the same source, which has no position yet, must not start there.
    late = f"late.{pair.mark}"
    create_topic(pair.servers[pair.b], late, 2)
    (stream,) = plan.streams
    plan = replace(
        plan,
        task=replace(plan.task, level=2),
        rule=replace(plan.rule, level=2),
        streams=(replace(stream, target_topic=late),),
    )
    left_over = [Checkpoint(40, 1, {})]
    control_plane = ControlPlane(checkpoints=lambda places: dict.fromkeys(places, left_over))
    session = CopySession(plan, pair.limits, control_plane=control_plane)
    session.open(lambda: True)
    drain(session)
    session.close()
    assert len(read_all(pair.servers[pair.b], late)) == 100
