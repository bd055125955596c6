"""Decisions of a target's gate about schema ids: wait, for how long, or pass as unknown."""

from __future__ import annotations

import pytest

from backend.domain.distribution.edges import Endpoint
from backend.kafka.copy.schema_wait import Verdict, wire_id
from backend.registry.records import Content, SchemaVersion, VersionGone
from workers.distribution import schema_gates
from workers.distribution.schema_gates import SchemaGates

WAIT_SECONDS = 10.0


def endpoint(name, number):
    return Endpoint(name=name, number=number, bootstrap_servers="127.0.0.1:9", properties={})


PRIMARY, TARGET = endpoint("one", 1), endpoint("two", 2)


class Registry:
    """Return one cluster's mirror as if it had read a topic; nothing is connected."""

    def __init__(self, gates, at):
        self.mirror = gates.follow(at).mirror

    def read(self, *ids):
        for schema_id in ids:
            content = Content(text=f"schema {schema_id}")
            version = SchemaVersion(subject=f"s{schema_id}", version=1, id=schema_id, content=content)
            self.mirror.catalog.apply(version)
        self.mirror.on_news()
        self.mirror.ready = True

    def delete(self, schema_id):
        self.mirror.catalog.apply(VersionGone(subject=f"s{schema_id}", version=1))
        self.mirror.on_news()


class World:
    def __init__(self):
        self.now = 100.0
        self.gates = SchemaGates("_schemas", WAIT_SECONDS, lambda: self.now)
        self.gates.assign(PRIMARY)
        self.gate = self.gates.of(TARGET)
        self.primary, self.target = Registry(self.gates, PRIMARY), Registry(self.gates, TARGET)


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(schema_gates.Mirror, "start", lambda mirror: None)
    return World()


def test_an_id_that_the_primary_has_is_waited_for_until_the_target_has_it(world):
    world.primary.read(1, 2)
    world.target.read(1)
    assert world.gate.knows(1) and not world.gate.knows(2)
    assert world.gate.verdict(2) is Verdict.WAIT
    news = world.gate.news
    world.target.read(2)
    assert world.gate.news != news
    assert world.gate.knows(2)


def test_the_wait_is_over_once_for_all_records_of_an_id(world):
    world.primary.read(1, 2)
    world.target.read()
    assert world.gate.verdict(1) is Verdict.WAIT
    world.now += WAIT_SECONDS
    assert world.gate.verdict(1) is Verdict.RAN_OUT
    assert world.gate.verdict(1) is Verdict.RAN_OUT
    assert world.gate.verdict(2) is Verdict.WAIT


def test_what_a_target_loses_again_is_waited_for_again(world):
    world.primary.read(1)
    world.target.read()
    world.gate.verdict(1)
    world.now += WAIT_SECONDS
    world.target.read(1)
    assert world.gate.knows(1)
    world.target.delete(1)
    assert not world.gate.knows(1)
    assert world.gate.verdict(1) is Verdict.WAIT


def test_an_id_that_the_primary_has_not_got_a_moment_later_is_nobodys(world):
    world.primary.read(1)
    world.target.read(1)
    assert world.gate.verdict(2) is Verdict.WAIT
    world.now += 1.0
    assert world.gate.verdict(2) is Verdict.NOBODYS
    world.primary.read(2)
    assert world.gate.verdict(2) is Verdict.WAIT


def test_an_id_that_was_deleted_for_good_is_nobodys(world):
    world.primary.read(1)
    world.target.read()
    assert world.gate.verdict(1) is Verdict.WAIT
    world.primary.delete(1)
    assert world.gate.verdict(1) is Verdict.WAIT
    world.now += 1.0
    assert world.gate.verdict(1) is Verdict.NOBODYS


def test_while_the_primary_is_away_nobody_can_say_that_an_id_is_nobodys(world):
    world.primary.read(1)
    world.target.read(1)
    world.primary.mirror.reason = "it does not answer"
    assert world.gate.verdict(2) is Verdict.WAIT
    world.now += WAIT_SECONDS - 1
    assert world.gate.verdict(2) is Verdict.WAIT
    world.now += 1
    assert world.gate.verdict(2) is Verdict.RAN_OUT


def test_a_topic_that_cannot_be_read_is_waited_for_once_whatever_the_ids(world):
    world.primary.read(1, 2)
    assert world.gate.verdict(1) is Verdict.WAIT
    world.now += WAIT_SECONDS
    assert world.gate.verdict(1) is Verdict.RAN_OUT
    assert world.gate.verdict(2) is Verdict.RAN_OUT
    news = world.gate.news
    world.target.read()
    assert world.gate.news != news
    assert world.gate.verdict(2) is Verdict.WAIT


def test_ids_far_above_the_highest_are_not_asked_for(world):
    assert world.gate.highest == 2**32 - 1
    world.primary.read(7)
    assert world.gate.highest == 1007


def test_the_primary_waits_for_nobody(world):
    gate = world.gates.of(PRIMARY)
    assert gate.highest == 0
    assert gate.verdict(1) is Verdict.NOBODYS


def test_nothing_waits_where_the_setting_is_0_or_there_is_no_tree():
    assert SchemaGates("_schemas", 0).of(TARGET) is None
    gate = SchemaGates("_schemas", WAIT_SECONDS).of(TARGET)
    assert gate.highest == 0
    assert gate.verdict(1) is Verdict.NOBODYS


def test_another_primary_is_asked_from_then_on(world):
    world.primary.read(1)
    world.target.read()
    third = endpoint("three", 3)
    news = world.gate.news
    world.gates.assign(third)
    assert world.gate.news != news
    Registry(world.gates, third).read(1, 5)
    assert world.gate.verdict(5) is Verdict.WAIT


def test_topics_are_followed_as_long_as_tasks_copy_to_their_cluster(world):
    assert world.gates.followed(TARGET) and world.gates.followed(PRIMARY)
    world.gates.tidy({"two"})
    assert world.gates.followed(TARGET) and world.gates.followed(PRIMARY)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (None, 0),
        (b"", 0),
        (b"\0\0\0\1", 0),
        (b"\0\0\0\0\1", 1),
        (b"\0\0\0\1\0more", 256),
        (b"\0\0\0\3\xe9", 0),  # 1001
        (b"\1\0\0\0\1", 0),
        (b"\0\0\0\0\0", 0),
    ],
)
def test_ids_stand_behind_a_zero_byte(data, found):
    assert wire_id(data, 1000) == found
