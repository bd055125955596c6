"""Throttles on real brokers: Treeline's beside an operator's, and removed without a trace."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import ResourceType

from backend.kafka.admin.configs import DELETE, SUBTRACT
from backend.kafka.admin.replica_admin import ReplicaAdmin
from backend.kafka.admin.replication_throttle import LISTS, RATES, Throttle, list_changes
from tests.eventually import eventually
from tests.kafka.placement.driving import course_of, topic_name
from tests.support.database.postgres import Database
from tests.support.kafka.three_brokers import NODES, Brokers, all_rates, operator_sets
from tests.support.kafka.topics import DEADLINE_SECONDS
from workers.placement.throttling import Throttling

LEADER, FOLLOWER = RATES
LEADERS, FOLLOWERS = LISTS


def everywhere(rate: int) -> dict[int, dict[str, str]]:
    return {node: {LEADER: str(rate), FOLLOWER: str(rate)} for node in NODES}


def lists_of(brokers: Brokers, topic: str) -> dict[str, set[str]]:
    return {key: set(text.split(",")) for key, text in brokers.own_config(ResourceType.TOPIC, topic).items()}


def are_listed(brokers: Brokers, topic: str, lists: dict[str, set[str]]) -> bool:
    """Wait until the configuration is seen: any broker may answer, and it may not have heard of it yet."""
    return eventually(lambda: lists_of(brokers, topic) == lists, f"{topic} has {lists}")


def test_an_operators_throttles_come_back_as_they_were(brokers: Brokers, admin: ReplicaAdmin) -> None:
    topic, all_of_it = topic_name(), topic_name()
    for each in (topic, all_of_it):
        brokers.create(each, [[1, 2], [1, 2]])
    operator_sets(brokers, ResourceType.BROKER, "1", {LEADER: "9000000"})
    operator_sets(brokers, ResourceType.BROKER, "2", {LEADER: "2000", FOLLOWER: "3000"})
    operator_sets(brokers, ResourceType.TOPIC, topic, {LEADERS: "0:1,1:1"})
    operator_sets(brokers, ResourceType.TOPIC, all_of_it, {LEADERS: "*"})
    rates = all_rates(brokers)
    lists = {each: lists_of(brokers, each) for each in (topic, all_of_it)}
    moves = {(topic, 0): ([1, 2], [3]), (all_of_it, 1): ([1, 2], [3])}

    throttle = admin.intended_throttle(5_000, moves)
    assert all_rates(brokers) == rates, "nothing is set yet"
    assert admin.throttle(throttle) == {}

    # The lower of both rates applies.
    assert all_rates(brokers) == {
        1: {LEADER: "5000", FOLLOWER: "5000"},
        2: {LEADER: "2000", FOLLOWER: "3000"},
        3: {LEADER: "5000", FOLLOWER: "5000"},
    }
    assert are_listed(brokers, topic, {LEADERS: {"0:1", "1:1", "0:2"}, FOLLOWERS: {"0:3"}})
    assert are_listed(brokers, all_of_it, {LEADERS: {"*"}, FOLLOWERS: {"1:3"}})

    assert admin.unthrottle(Throttle.read(json.loads(json.dumps(throttle.document())))) == {}
    assert all_rates(brokers) == rates
    assert all(are_listed(brokers, each, lists[each]) for each in (topic, all_of_it))


def test_what_somebody_sets_while_ours_is_there_stays(brokers: Brokers, admin: ReplicaAdmin) -> None:
    topic = topic_name()
    brokers.create(topic, [[1, 2]])
    throttle = admin.intended_throttle(5_000, {(topic, 0): ([1, 2], [3])})
    assert admin.throttle(throttle) == {}
    operator_sets(brokers, ResourceType.BROKER, "1", {LEADER: "777"})
    operator_sets(brokers, ResourceType.TOPIC, topic, {LEADERS: "0:1,0:2,0:3"})

    assert admin.unthrottle(throttle) == {}
    assert all_rates(brokers) == {1: {LEADER: "777"}, 2: {}, 3: {}}
    assert are_listed(brokers, topic, {LEADERS: {"0:3"}})


@pytest.mark.parametrize(
    ("seen", "changes"),
    [
        ({"0:1", "0:2"}, [(LEADERS, SUBTRACT, "0:1,0:2")]),  # it may have more, of which this broker has not heard
        ({"0:2", "0:3"}, [(LEADERS, SUBTRACT, "0:2")]),
        ({"0:3"}, None),
        (set(), [(LEADERS, DELETE, None)]),
        (None, None),
    ],
)
def test_a_list_is_deleted_once_it_is_seen_to_be_empty_and_not_before(seen, changes) -> None:
    listed = frozenset({"0:1", "0:2"}), frozenset[str]()
    throttle = Throttle(rates=(5_000,), brokers={}, topics={"t": listed})
    given = None if seen is None else frozenset(seen)
    assert list_changes(throttle, {"t": (given, None)}).get("t") == changes


def test_another_rate_and_more_partitions_are_taken_away_with_the_first(
    brokers: Brokers, admin: ReplicaAdmin
) -> None:
    first, second = topic_name(), topic_name()
    for each in (first, second):
        brokers.create(each, [[1]])
    throttle = admin.intended_throttle(5_000, {(first, 0): ([1], [2])})
    assert admin.throttle(throttle) == {}
    assert all_rates(brokers)[3] == {}

    more = admin.intended_throttle(6_000, {(second, 0): ([1], [3]), (first, 0): ([1], [2])}, throttle)
    assert (more.rates, more.brokers) == ((5_000, 6_000), dict.fromkeys([1, 2, 3], (None, None)))
    # If the run had ended before the throttle was set, the first rate would still be known as Treeline's.
    assert admin.throttle(more) == {}
    assert all_rates(brokers) == everywhere(6000)
    assert admin.throttle(more.at(5_000)) == {}
    assert all_rates(brokers) == everywhere(5000)

    assert admin.unthrottle(more) == {}
    assert all_rates(brokers) == {1: {}, 2: {}, 3: {}}
    assert are_listed(brokers, first, {}) and are_listed(brokers, second, {})


@pytest.mark.nightly  # another moment at which a throttle is removed
def test_a_broker_that_is_away_is_named_and_loses_its_throttle_when_it_is_back(
    brokers: Brokers, admin: ReplicaAdmin
) -> None:
    topic = topic_name()
    brokers.create(topic, [[1, 2]])
    moves = {(topic, 0): ([1, 2], [3])}
    throttle = admin.intended_throttle(5_000, moves)
    assert admin.throttle(throttle) == {}
    brokers.kill(2)

    left = admin.unthrottle(throttle)
    assert list(left) == ["broker 2"]
    assert are_listed(brokers, topic, {})
    again = admin.intended_throttle(5_000, moves)
    assert list(again.unknown) == [2]
    assert list(admin.throttle(again)) == ["broker 2"]

    brokers.start(2)
    assert eventually(lambda: not admin.unthrottle(throttle), "it is taken away once it is back")
    assert eventually(lambda: all_rates(brokers) == {1: {}, 2: {}, 3: {}}, "nothing is left")


def test_a_worker_that_dies_as_it_throttles_is_cleaned_up_after(
    brokers: Brokers, admin: ReplicaAdmin, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topic_name()
    brokers.create(topic, [[1, 2]])

    class Killed(BaseException):
        """The worker is killed at the moment at which the throttle is set."""

    set_it = admin.throttle

    def set_and_die(throttle: Throttle) -> dict[str, str]:
        assert set_it(throttle) == {}
        raise Killed

    monkeypatch.setattr(admin, "throttle", set_and_die)
    with pytest.raises(Killed):
        Throttling(database.engine, "p1").keep(admin, 5_000, course_of(topic, ((1, 2), (1, 3))))
    assert all_rates(brokers) == everywhere(5_000)

    assert Throttling(database.engine, "p1").remove(admin)
    assert all_rates(brokers) == {1: {}, 2: {}, 3: {}}
    assert are_listed(brokers, topic, {})


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "never there"])
def test_a_topic_that_is_gone_is_nothing_to_throttle(brokers: Brokers, admin: ReplicaAdmin, gone: bool) -> None:
    topic = topic_name()
    if gone:
        brokers.create(topic, [[1]])
    throttle = admin.intended_throttle(5_000, {(topic, 0): ([1], [2])})
    if gone:
        brokers.admin.delete_topics([topic])[topic].result(DEADLINE_SECONDS)
        eventually(lambda: (topic, 0) not in admin.read().partitions, "it is gone")
    assert admin.throttle(throttle) == {}
    assert admin.unthrottle(throttle) == {}
    assert all_rates(brokers) == {1: {}, 2: {}, 3: {}}
