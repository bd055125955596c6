"""Report on a cluster's replication from one observation, and the advice to operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.placement import leader_elections
from backend.domain.placement.leader_elections import RecordElection
from backend.domain.replication.replication_alerts import Severity, alerts
from backend.domain.replication.replication_health import (
    MOST_NAMED,
    NOBODY,
    Condition,
    Health,
    Named,
    ObservedBroker,
    ObservedCluster,
    ObservedPartition,
    Place,
    TopicSettings,
    conditions,
    health,
)
from backend.domain.replication.topic_replication import FactorMismatch

C = Condition
NONE = Named(0, ())
ALIKE = FactorMismatch(fewer=NONE, more=NONE)
SOUND = TopicSettings(min_insync_replicas=2, unclean_election=False)
BROKERS = {1: ObservedBroker("az1", True), 2: ObservedBroker("az2", True), 3: ObservedBroker("az3", True)}


def partition(*replicas: int, isr: tuple[int, ...] | None = None, leader: int | None = None) -> ObservedPartition:
    return ObservedPartition(replicas, replicas if isr is None else isr, replicas[0] if leader is None else leader)


def seen(
    partitions: Mapping[Place, ObservedPartition], brokers: Mapping[int, ObservedBroker] = BROKERS
) -> ObservedCluster:
    return ObservedCluster(cluster_id="k", brokers=brokers, partitions=partitions)


def judged(*partitions: ObservedPartition, settings: TopicSettings | None = SOUND, **more: Any) -> Health:
    places = {("t", number): each for number, each in enumerate(partitions)}
    return health(seen(places, **more), {} if settings is None else {"t": settings}, {})


@pytest.mark.parametrize(
    ("given_one", "minimum", "told"),
    [
        (partition(1, 2, 3), 2, []),
        (partition(1, 2, 3), None, []),
        (partition(1, 2, 3, isr=(1, 2)), 2, [C.UNDER_REPLICATED, C.AT_MIN_ISR, C.DOWN_TO_MIN_ISR]),
        (partition(1, 2, 3, isr=(1, 2)), 1, [C.UNDER_REPLICATED]),
        (partition(1, 2, 3, isr=(1,)), 2, [C.UNDER_REPLICATED, C.UNDER_MIN_ISR]),
        (partition(1, 2, 3, isr=(1,)), None, [C.UNDER_REPLICATED]),
        (partition(1, 2), 2, [C.AT_MIN_ISR]),
        # Brokers take a minimum above the factor for the factor.
        (partition(1, 2), 3, [C.AT_MIN_ISR]),
        (partition(1, 2, isr=(1,)), 3, [C.UNDER_REPLICATED, C.UNDER_MIN_ISR]),
        (partition(1), 1, [C.UNREPLICATED, C.AT_MIN_ISR]),
        # Without a leader nobody is in sync with it, and nobody can write, whatever the minimum.
        (partition(1, leader=NOBODY), 1, [C.WITHOUT_LEADER, C.UNDER_REPLICATED, C.UNREPLICATED]),
        (partition(1, 2, 3, isr=(2,), leader=NOBODY), 2, [C.WITHOUT_LEADER, C.UNDER_REPLICATED]),
        (partition(1, 2, 3, leader=2), 2, [C.NOT_PREFERRED, C.ELECTABLE]),
        (partition(1, 2, 3, isr=(2, 3), leader=2), 1, [C.UNDER_REPLICATED, C.NOT_PREFERRED]),
    ],
)
def test_a_partition_is_told_by_its_replicas(
    given_one: ObservedPartition, minimum: int | None, told: list[Condition]
) -> None:
    assert conditions(given_one, minimum) == told


@pytest.mark.parametrize(
    ("given_one", "told"),
    [
        # Moved from 1, 2 to 3, 2: 3 has not caught up yet, which is no replica that is missing.
        (ObservedPartition((3, 2, 1), (1, 2), 1, adding=(3,), removing=(1,)), [C.MOVING]),
        # ... and if 2 falls out of sync, one is missing.
        (ObservedPartition((3, 2, 1), (1, 3), 1, adding=(3,), removing=(1,)), [C.UNDER_REPLICATED, C.MOVING]),
        # What is added and in sync counts where acks=all waits for it.
        (ObservedPartition((3, 1), (1, 3), 1, adding=(3,)), [C.UNREPLICATED, C.MOVING]),
        # It had begun, and ended before the rest was told.
        (ObservedPartition((3, 2), (3, 2), 3, adding=(3,)), [C.UNREPLICATED, C.MOVING]),
    ],
)
def test_a_partition_that_is_moved_is_judged_by_the_replicas_that_it_had(
    given_one: ObservedPartition, told: list[Condition]
) -> None:
    assert conditions(given_one, 1) == told


def test_a_sound_cluster_has_no_alerts_and_its_brokers_are_told() -> None:
    found = judged(partition(1, 2, 3), partition(2, 3, 1), partition(3, 1, 2))
    assert alerts(found, ALIKE, "east") == []
    assert [(each.id, each.rack, each.replicas, each.leaders, each.preferred) for each in found.brokers] == [
        (1, "az1", 3, 1, 1),
        (2, "az2", 3, 1, 1),
        (3, "az3", 3, 1, 1),
    ]
    assert (found.leaders_spread, found.preferred_spread, found.replicas_spread) == (0, 0, 0)
    assert (found.topics, found.partitions, found.away.count) == (1, 3, 0)


def test_an_unreplicated_topic_is_counted_and_is_no_alert() -> None:
    one_each = TopicSettings(min_insync_replicas=1, unclean_election=True)
    found = judged(partition(1), partition(2), partition(3), settings=one_each)
    assert found.conditions[C.UNREPLICATED].count == 3
    assert found.conditions[C.UNREPLICATED].examples == ("t-0", "t-1", "t-2")
    assert alerts(found, ALIKE, "east") == []


@pytest.mark.parametrize(
    ("settings", "replicas", "told"),
    [
        (TopicSettings(2, False), (1, 2, 3), []),
        (TopicSettings(1, False), (1, 2, 3), ["one-copy-acknowledged"]),
        (TopicSettings(3, False), (1, 2, 3), ["min-isr-not-below-factor"]),
        (TopicSettings(4, False), (1, 2, 3), ["min-isr-not-below-factor"]),
        (TopicSettings(2, False), (1, 2), ["min-isr-not-below-factor"]),
        # Of two replicas either the one or the other has to be put up with.
        (TopicSettings(1, False), (1, 2), []),
        (TopicSettings(2, True), (1, 2, 3), ["unclean-election"]),
    ],
)
def test_a_topics_settings_are_judged(settings: TopicSettings, replicas: tuple[int, ...], told: list[str]) -> None:
    found = alerts(judged(partition(*replicas), settings=settings), ALIKE, "east")
    assert [each.alert for each in found] == told
    assert all(each.examples == ("t",) and each.count == 1 for each in found)


def test_a_topic_whose_settings_are_not_known_is_not_judged_by_them() -> None:
    found = judged(partition(1, 2, 3, isr=(1,)), settings=None)
    assert found.settings_unknown.examples == ("t",)
    assert [each.alert for each in alerts(found, ALIKE, "east")] == ["under-replicated"]


def test_a_broker_that_is_away_is_told_with_all_that_it_leaves_behind() -> None:
    brokers = {**BROKERS, 3: ObservedBroker("az3", False)}
    found = judged(
        partition(1, 2, 3, isr=(1, 2)),
        partition(3, 1, 2, isr=(1, 2), leader=1),
        partition(3, leader=NOBODY),
        brokers=brokers,
    )
    assert [(each.alert, each.severity, each.examples) for each in alerts(found, ALIKE, "east")] == [
        ("partition-without-leader", Severity.CRITICAL, ("t-2",)),
        ("broker-away", Severity.WARNING, ("3",)),
        ("under-replicated", Severity.WARNING, ("t-0", "t-1", "t-2")),
        ("down-to-min-isr", Severity.WARNING, ("t-0", "t-1")),
        ("not-preferred-leader", Severity.ADVICE, ("t-1",)),
        ("leaders-uneven", Severity.ADVICE, ("1: 2", "2: 0")),
    ]
    assert found.conditions[C.ELECTABLE].count == 0


@pytest.mark.parametrize(("replicas", "advice"), [((1, 9), "Start it. "), ((1, 8, 9), "Start them. ")])
def test_one_broker_is_told_of_as_one(replicas: tuple[int, ...], advice: str) -> None:
    found = alerts(judged(partition(*replicas, isr=(1,))), ALIKE, "east")
    assert [each.what_to_do[: len(advice)] for each in found if each.alert == "broker-away"] == [advice]


def test_a_broker_that_only_replicas_tell_of_is_away() -> None:
    found = judged(partition(1, 9, isr=(1,)))
    assert found.away.examples == ("9",)
    assert [(each.id, each.is_here, each.rack) for each in found.brokers if each.id == 9] == [(9, False, None)]


@pytest.mark.parametrize(
    ("leaders", "preferred", "advice"),
    [
        ([1, 1, 2, 3], [1, 1, 2, 3], None),  # they cannot be more even
        ([1] * 12 + [2] * 11 + [3] * 10, [1] * 12 + [2] * 11 + [3] * 10, "plan a placement"),
        ([1] * 22 + [2] * 21 + [3] * 20, [1] * 22 + [2] * 21 + [3] * 20, None),  # less than a tenth
        ([1, 1, 1, 1, 2, 2], [1, 1, 2, 2, 3, 3], "elect them"),
        ([1, 1, 1, 1, 2, 2], [1, 1, 1, 1, 2, 2], "plan a placement"),
    ],
)
def test_leaders_that_are_uneven_are_told_with_what_makes_them_even(
    leaders: list[int], preferred: list[int], advice: str | None
) -> None:
    others = {1: (1, 2, 3), 2: (2, 3, 1), 3: (3, 1, 2)}
    given_ones = [partition(*others[p], leader=led) for led, p in zip(leaders, preferred, strict=True)]
    found = [each for each in alerts(judged(*given_ones), ALIKE, "east") if each.alert == "leaders-uneven"]
    assert [advice in each.what_to_do for each in found if advice] == ([True] if advice else [])
    assert bool(found) is (advice is not None)


def test_names_are_some_and_all_are_counted() -> None:
    many = [partition(1, 2, isr=(1,)) for _ in range(MOST_NAMED + 30)]
    found = judged(*many).conditions[C.UNDER_REPLICATED]
    assert found.count == MOST_NAMED + 30
    assert found.examples == tuple(f"t-{number}" for number in range(MOST_NAMED))


def test_a_cluster_without_anything_is_told() -> None:
    found = health(seen({}, {}), {}, {})
    assert (found.topics, found.brokers, found.leaders_spread, alerts(found, ALIKE, "east")) == (0, (), 0, [])


def test_an_election_is_told_if_anything_changed() -> None:
    command = RecordElection(cluster="c1", topics=("t",), elected=2, refused={"it is being moved": 1})
    (event,) = leader_elections.decide(leader_elections.INITIAL, command)
    assert vars(event) == vars(command)
    assert leader_elections.evolve(leader_elections.INITIAL, event) == leader_elections.INITIAL
    assert leader_elections.decide(leader_elections.INITIAL, replace(command, elected=0)) == []


@st.composite
def looks(draw: st.DrawFn) -> tuple[ObservedCluster, dict[str, TopicSettings]]:
    brokers = draw(st.dictionaries(st.integers(1, 5), st.booleans(), min_size=1))
    partitions = {}
    for place in draw(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 4)))):
        replicas = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True))
        isr = draw(st.sets(st.sampled_from(replicas)))
        leader = draw(st.sampled_from(sorted(isr))) if isr else NOBODY
        moved = draw(st.sets(st.sampled_from(replicas), max_size=len(replicas) - 1))
        partitions[place] = ObservedPartition(tuple(replicas), tuple(isr), leader, adding=tuple(moved))
    settings = draw(
        st.dictionaries(st.sampled_from("abc"), st.builds(TopicSettings, st.integers(1, 4), st.booleans()))
    )
    known = {broker: ObservedBroker(None, is_here) for broker, is_here in brokers.items()}
    return seen(partitions, known), settings


@given(looks(), st.randoms())
def test_everything_is_counted_once_in_whatever_order_it_was_seen(
    look: tuple[ObservedCluster, dict[str, TopicSettings]], random: Any
) -> None:
    cluster, settings = look
    found = health(cluster, settings, {1: 30_000})
    count = {condition: found.conditions[condition].count for condition in Condition}
    assert sum(each.replicas for each in found.brokers) == sum(
        len(each.replicas) for each in cluster.partitions.values()
    )
    assert sum(each.leaders for each in found.brokers) == found.partitions - count[C.WITHOUT_LEADER]
    assert sum(each.preferred for each in found.brokers) == found.partitions
    assert count[C.ELECTABLE] <= count[C.NOT_PREFERRED]
    assert count[C.DOWN_TO_MIN_ISR] <= min(count[C.AT_MIN_ISR], count[C.UNDER_REPLICATED])
    shuffled = list(cluster.partitions.items())
    random.shuffle(shuffled)
    assert health(replace(cluster, partitions=dict(shuffled)), settings, {1: 30_000}) == found


@given(looks())
def test_what_is_elected_is_led_by_its_preferred_broker_and_nothing_else_changes(
    look: tuple[ObservedCluster, dict[str, TopicSettings]],
) -> None:
    cluster, settings = look
    elected = {
        place: each._replace(leader=each.replicas[0]) if C.ELECTABLE in conditions(each, None) else each
        for place, each in cluster.partitions.items()
    }
    before, after = health(cluster, settings, {}), health(replace(cluster, partitions=elected), settings, {})
    ready = before.conditions[C.ELECTABLE].count
    assert after.conditions[C.ELECTABLE].count == 0
    assert after.conditions[C.NOT_PREFERRED].count == before.conditions[C.NOT_PREFERRED].count - ready
    for condition in set(Condition) - {C.ELECTABLE, C.NOT_PREFERRED}:
        assert after.conditions[condition] == before.conditions[condition]
