"""Unreplicated records after an emergency switch: which there are, and whether they arrived or are lost."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from backend.queries.switch.switches import find_switch
from tests.eventually import eventually
from tests.kafka.switch.by_hand import ByHand
from tests.nightly import some_now
from tests.support.kafka.topics import DEADLINE_SECONDS
from workers.switches.scope import Scope
from workers.switches.unreplicated import UnreplicatedRecords


@pytest.fixture
def stranded(hand: ByHand) -> UnreplicatedRecords:
    """Return those of an emergency from `a` to `b`, after which only `a` has the last 5 of 35 records."""
    hand.produce("a", 30)
    hand.copy(("a", 2), ("b", 1))
    hand.produce("a", 5)
    return after_emergency(hand)


def after_emergency(hand: ByHand) -> UnreplicatedRecords:
    body = {"from": hand.name("a"), "to": hand.name("b"), "mode": "emergency"}
    answer = hand.rest("POST", "/switches", body)
    assert answer.status_code == 202, answer.text
    return of_switch(hand, answer.json()["id"])


def of_switch(hand: ByHand, switch: str) -> UnreplicatedRecords:
    """Return the unreplicated records of a switch, from an object without cached facts."""
    with hand.database.engine.connect() as connection:
        row = find_switch(connection, switch)
        return UnreplicatedRecords(hand.view(), row, Scope.read(connection, row))


def test_what_no_other_cluster_has_is_named_and_has_arrived_once_all_have_it(
    hand: ByHand, stranded: UnreplicatedRecords
):
    found = stranded.now()
    assert [(each["stream"], each["partition"], each["first"]) for each in found] == [(hand.stream, 0, 30)]
    assert stranded.arrived(found) is None
    hand.copy(("a", 2))
    assert stranded.arrived(found) is None, "one other cluster has it, another has not"
    hand.copy(("b", 1))
    arrived = eventually(lambda: stranded.arrived(found), "all have it")
    assert (arrived.records, arrived.partitions, arrived.lost) == (5, ((hand.stream, 0, 30, 34),), ())
    assert hand.values("b") == hand.values("c") == hand.values("a")


@pytest.mark.nightly
def test_what_another_process_found_is_enough_to_see_it_arrive(hand: ByHand, stranded: UnreplicatedRecords):
    found = stranded.now()
    hand.copy(("a", 2), ("b", 1))
    arrived = eventually(lambda: after_restart(hand).arrived(found), "all have it")
    assert arrived.records == 5


def after_restart(hand: ByHand) -> UnreplicatedRecords:
    """Return those of the same switch, in a process without cached facts."""
    (switch,) = hand.rest("GET", "/switches").json()["items"]
    return of_switch(hand, switch["id"])


@pytest.mark.nightly
def test_what_was_stranded_in_a_topic_that_was_made_anew_is_lost(hand: ByHand, stranded: UnreplicatedRecords):
    found = stranded.now()
    hand.make_anew("a")
    hand.produce("a", 40)
    hand.copy(("a", 2), ("b", 1))
    arrived = eventually(lambda: stranded.arrived(found), "all have what there is")
    assert (arrived.records, arrived.partitions) == (0, ())
    assert arrived.lost == ((hand.stream, 0, 30),), "though the new log is longer than the old one was"
    assert [what.unread[0].first_offset for what in hand.replaced if 0 in what.unread][:1] == [30]


@some_now("removed, late", [(32, ((32, 34),)), (35, ())], now=(0,))
def test_what_retention_removed_before_it_was_seen_to_arrive_may_be_lost(
    hand: ByHand, stranded: UnreplicatedRecords, removed: int, late: tuple[tuple[int, int], ...]
):
    found = stranded.now()
    admin = AdminClient({"bootstrap.servers": hand.servers("a")})
    place = TopicPartition(hand.topic("a"), 0, removed)
    admin.delete_records([place])[place].result(DEADLINE_SECONDS)
    hand.copy(("a", 2), ("b", 1))
    arrived = eventually(lambda: stranded.arrived(found), "all have what there is")
    assert arrived.partitions == tuple((hand.stream, 0, *each) for each in late)
    assert arrived.lost == ((hand.stream, 0, 30),)
    assert [loss.first_offset for loss in hand.losses if loss.partition == 0][:1] == [30]


def test_nothing_was_stranded(hand: ByHand):
    hand.produce("a", 30)
    hand.copy(("a", 2), ("b", 1))
    stranded = after_emergency(hand)
    assert stranded.now() == []
    arrived = eventually(lambda: stranded.arrived([]), "all have what there is")
    assert (arrived.records, arrived.partitions, arrived.lost) == (0, (), ())
