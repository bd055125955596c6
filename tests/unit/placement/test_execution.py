"""Step-by-step execution of a placement on a simulated cluster, with completions in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.placement.execution.progress import progress, seconds_left
from backend.placement.execution.steps import (
    Brokers,
    ClusterNow,
    Course,
    Limits,
    Place,
    next_steps,
    stand,
    throttled,
    to_cancel,
    to_elect,
)
from tests.unit.placement.simulated import Simulated

BROKERS = range(1, 8)
PLENTY = Limits(moves_per_broker=100, partitions_at_once=100)
T0, T1 = ("t", 0), ("t", 1)

lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True).map(tuple)
places = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3))
limits = st.builds(Limits, moves_per_broker=st.integers(1, 3), partitions_at_once=st.integers(1, 4))
racks = st.fixed_dictionaries({broker: st.sampled_from([None, "az1", "az2", "az3"]) for broker in BROKERS})


@st.composite
def courses(draw: st.DrawFn) -> Course:
    both = draw(st.dictionaries(places, st.tuples(lists, lists), min_size=1, max_size=8))
    return Course(
        originals={place: pair[0] for place, pair in both.items()},
        targets={place: pair[1] for place, pair in both.items()},
    )


def steps_of(course: Course, place: Place) -> int:
    """Return the minimum number of steps with one replica at a time."""
    before, after = course.originals[place], course.targets[place]
    apart = max(len(set(after) - set(before)), len(set(before) - set(after)))
    return apart or int(before != after)


def follow(cluster: Simulated, course: Course, limits: Limits, data: st.DataObject, rounds: int) -> None:
    """Run some rounds: request the next steps, then complete some of the ongoing reassignments."""
    for _ in range(rounds):
        steps = cluster.advance(course, limits)
        if not cluster.ongoing:
            if not steps.ask:
                return
            continue  # another order is there at once
        ending = data.draw(st.sets(st.sampled_from(sorted(cluster.ongoing)), min_size=1))
        for place in sorted(ending):
            cluster.complete(place)


@given(courses(), racks, limits, st.data())
def test_whatever_ends_when_it_comes_to_the_target_in_as_few_steps_as_there_can_be(course, racks, limits, data):
    cluster = Simulated(course, racks)
    least = sum(steps_of(course, place) for place in course.targets)
    follow(cluster, course, limits, data, least + 1)
    assert cluster.replicas == course.targets
    assert stand(course, cluster.now()).is_finished
    assert cluster.asked == least


@given(courses(), racks, limits, st.data())
def test_from_any_middle_the_way_back_leads_to_the_originals_in_their_order(course, racks, limits, data):
    cluster = Simulated(course, racks)
    follow(cluster, course, limits, data, data.draw(st.integers(0, 6)))
    cluster.advance(course, limits)
    back = course.reversed()
    for place in to_cancel(back, cluster.now(), only_wrong_way=True):
        cluster.cancel(place)
    follow(cluster, back, limits, data, 100)
    assert cluster.replicas == course.originals
    assert stand(back, cluster.now()).is_finished


@given(courses(), racks, limits, st.data())
def test_what_is_given_back_can_be_gone_on_with(course, racks, limits, data):
    cluster = Simulated(course, racks)
    follow(cluster, course, limits, data, data.draw(st.integers(0, 6)))
    before = {place: set(brokers) for place, brokers in cluster.replicas.items()}
    steps = cluster.advance(course, limits)
    started = set(steps.ask) & set(cluster.ongoing)
    given_back = to_cancel(course, cluster.now())
    assert set(given_back) == set(cluster.ongoing)
    for place in given_back:
        cluster.cancel(place)
    assert all(set(cluster.replicas[place]) == before[place] for place in started)
    assert not stand(course, cluster.now()).moving
    follow(cluster, course, limits, data, 100)
    assert cluster.replicas == course.targets


@given(courses(), racks, limits, st.sampled_from(BROKERS), st.data())
def test_without_a_broker_the_others_go_on_and_what_waits_for_it_is_named(course, racks, limits, dead, data):
    cluster = Simulated(course, racks)
    follow(cluster, course, limits, data, data.draw(st.integers(0, 3)))
    cluster.advance(course, limits)
    rack = cluster.brokers.pop(dead)
    cluster.leaders = {
        place: next((broker for broker in cluster.replicas[place] if broker in cluster.brokers), -1)
        for place in cluster.leaders
    }
    while True:
        steps = cluster.advance(course, limits)
        able = [place for place, (_, adding, _) in cluster.ongoing.items() if dead not in adding]
        able = [place for place in able if cluster.leaders[place] != -1]
        if not able and not steps.ask:
            break
        if able:
            cluster.complete(data.draw(st.sampled_from(sorted(able))))
    standing = stand(course, cluster.now())
    assert set(steps.waiting) == {*standing.moving, *standing.pending}
    for place, reason in steps.waiting.items():
        assert ("no leader" in reason) if cluster.leaders[place] == -1 else (f"broker {dead}," in reason)
    cluster.brokers[dead] = rack
    cluster.leaders = {place: brokers[0] for place, brokers in cluster.replicas.items()}
    follow(cluster, course, limits, data, 100)
    assert cluster.replicas == course.targets


@given(courses(), racks, limits, st.data())
def test_what_is_done_only_grows_until_all_of_it_is(course, racks, limits, data):
    cluster = Simulated(course, racks)
    sizes = {place: data.draw(st.integers(0, 1000)) for place in course.targets}
    seen = [progress(course, stand(course, cluster.now()), sizes)]
    assert seen[0].moves_done == seen[0].bytes_done == 0
    total = seen[0].moves_left
    for _ in range(100):
        steps = cluster.advance(course, limits)
        if not cluster.ongoing:
            if not steps.ask:
                break
            continue
        seen.append(progress(course, stand(course, cluster.now()), sizes))
        copied = {place: data.draw(st.integers(0, 1200)) for place in cluster.ongoing}
        seen.append(progress(course, stand(course, cluster.now()), sizes, copied))
        cluster.complete(data.draw(st.sampled_from(sorted(cluster.ongoing))))
        # No more than was copied: a completed move counts all its bytes.
        seen.append(progress(course, stand(course, cluster.now()), sizes))
    last = progress(course, stand(course, cluster.now()), sizes)
    assert last.is_finished and last.fraction == 1.0
    assert (last.moves_done, last.moves_in_flight, last.moves_left, last.bytes_left) == (total, 0, 0, 0)
    for each in seen:
        assert each.moves_done + each.moves_in_flight + each.moves_left == total
        assert each.bytes_done + each.bytes_left == last.bytes_done
        assert 0 <= each.fraction <= 1
        assert each.is_finished or each.fraction < 0.995, "nor is it rounded up to all"
    done = [each.moves_done for each in seen]
    assert done == sorted(done)


@given(courses(), lists, racks)
def test_what_somebody_else_has_moved_is_named_and_left_alone(course, elsewhere, racks):
    place = min(course.targets)
    cluster = Simulated(course, racks)
    cluster.replicas[place] = tuple(broker + 100 for broker in elsewhere)
    assert stand(course, cluster.now()).changed_by_others == {place: cluster.replicas[place]}
    assert place not in next_steps(course, cluster.now(), PLENTY).ask


def one(
    original: Brokers, target: Brokers, here: Brokers | None = None, racks: str = "", **more: object
) -> tuple[Course, ClusterNow]:
    """Build a course and state of a single partition on brokers 1 to 9; `racks` has one letter per broker."""
    brokers = {number: racks[number - 1] if number <= len(racks) else None for number in range(1, 10)}
    now = {"replicas": {T0: here or original}, "leaders": {T0: (here or original)[0]}, "brokers": brokers} | more
    return Course(originals={T0: original}, targets={T0: target}), ClusterNow(**now)


@pytest.mark.parametrize(
    ("original", "target", "here", "wanted"),
    [
        pytest.param((1, 2, 3), (1, 2, 4), None, (1, 2, 4), id="one replaces another"),
        pytest.param((1, 2, 3), (4, 5, 6), None, (1, 4, 3), id="the leader stays until the end"),
        pytest.param((1, 2, 3), (4, 5, 6), (1, 4, 5), (4, 5, 6), id="the order is that of the target at the end"),
        pytest.param((1, 2, 3), (3, 2, 1), None, (3, 2, 1), id="another order"),
        pytest.param((1,), (3, 2, 1), None, (1, 3), id="a factor grows one by one"),
        pytest.param((1, 2, 3), (3,), None, (1, 3), id="a factor shrinks one by one, the leader last"),
        pytest.param((1, 2), (3,), None, (1, 3), id="it is replaced before one is dropped"),
        pytest.param((1, 2), (3, 4, 5), None, (1, 2, 3), id="one is added before any is replaced"),
    ],
)
def test_the_next_step_of_a_partition(original, target, here, wanted):
    course, now = one(original, target, here)
    assert next_steps(course, now, PLENTY).ask == {T0: wanted}


def test_a_replica_takes_the_place_of_one_in_its_own_rack():
    course, now = one((1, 2, 3), (1, 5, 6), racks="abcacb")  # 6 is in the rack of 2, 5 in that of 3
    assert next_steps(course, now, PLENTY).ask == {T0: (1, 2, 5)}


def test_a_replica_on_a_broker_that_is_away_is_replaced_first():
    course, now = one((1, 2, 3), (1, 5, 6), brokers=dict.fromkeys([1, 2, 5, 6]))
    assert next_steps(course, now, PLENTY).ask == {T0: (1, 2, 5)}


def test_a_replica_on_a_broker_that_is_away_is_dropped_first():
    course, now = one((1, 2, 3), (1,), brokers=dict.fromkeys([1, 2]))
    assert next_steps(course, now, PLENTY).ask == {T0: (1, 2)}


def test_a_broker_that_is_away_holds_up_its_own_replica_alone():
    course, now = one((1, 2, 3), (1, 5, 6), brokers=dict.fromkeys([1, 2, 3, 6]))
    assert next_steps(course, now, PLENTY).ask == {T0: (1, 6, 3)}


@pytest.mark.parametrize(
    ("original", "target", "here"),
    [
        pytest.param((1, 2), (1, 3), (2, 3), id="without a broker that both have"),
        pytest.param((1, 2), (1, 3), (1,), id="with too few"),
        pytest.param((1, 2), (1, 3), (1, 2, 3), id="with too many"),
        pytest.param((1, 2), (1, 3), (1, 9), id="with one that neither has"),
    ],
)
def test_replicas_that_no_step_leads_to_were_changed_by_others(original, target, here):
    course, now = one(original, target, here)
    assert stand(course, now).changed_by_others == {T0: here}
    assert next_steps(course, now, PLENTY).ask == {}
    assert stand(course.reversed(), now).changed_by_others == {T0: here}


def test_partitions_that_lack_a_replica_go_before_others():
    course = Course(originals={T0: (1, 2), T1: (3, 4)}, targets={T0: (1, 5), T1: (3, 5)})
    now = ClusterNow(replicas=course.originals, leaders={T0: 1, T1: 3}, brokers=dict.fromkeys([1, 2, 3, 5]))
    assert next_steps(course, now, Limits(moves_per_broker=1, partitions_at_once=9)).ask == {T1: (3, 5)}


def test_moves_of_others_count_where_brokers_are_full_and_are_not_ours_to_cancel():
    course, now = one(
        (1, 2), (1, 3), ongoing={("theirs", 0): ((7, 8), (7,), (8,)), ("theirs", 1): ((3,), (3,), ())}
    )
    assert next_steps(course, now, Limits(moves_per_broker=1, partitions_at_once=1)).ask == {}
    assert next_steps(course, now, Limits(moves_per_broker=2, partitions_at_once=1)).ask == {T0: (1, 3)}
    assert to_cancel(course, now) == {}


def test_a_reassignment_that_leads_elsewhere_belongs_to_others():
    course, now = one((1, 2), (1, 3), ongoing={T0: ((1, 9, 2), (9,), (2,))})
    assert stand(course, now).changed_by_others == {T0: (1, 9)}
    assert to_cancel(course, now) == next_steps(course, now, PLENTY).ask == {}


def test_only_what_leads_away_is_given_back_for_the_way_back():
    course = Course(originals={T0: (1, 2), T1: (1, 2)}, targets={T0: (1, 3), T1: (1, 3)})
    ongoing = {T0: ((1, 3, 2), (3,), (2,)), T1: ((1, 2, 3), (2,), (3,))}
    now = ClusterNow(
        replicas={T0: (1, 3, 2), T1: (1, 2, 3)}, brokers=dict.fromkeys([1, 2, 3]), leaders={}, ongoing=ongoing
    )
    assert to_cancel(course.reversed(), now, only_wrong_way=True) == {T0: None}
    assert to_cancel(course, now, only_wrong_way=True) == {T1: None}


@pytest.mark.parametrize("recreated", [False, True], ids=["deleted", "deleted and recreated"])
def test_a_topic_that_is_gone_is_named_and_left_alone(recreated):
    course, now = one(
        (1, 2), (1, 3), replicas={T0: (1, 2)} if recreated else {}, recreated={"t"} if recreated else ()
    )
    standing = stand(course, now)
    assert (standing.gone, standing.grown, standing.is_finished) == ([T0], [], True)
    assert next_steps(course, now, PLENTY).ask == {}


def test_partitions_that_a_topic_has_grown_by_are_named_and_left_alone():
    course, now = one((1, 2), (1, 3), replicas={T0: (1, 2), T1: (2, 3), ("other", 0): (1,)})
    assert stand(course, now).grown == [T1]
    assert next_steps(course, now, PLENTY).ask == {T0: (1, 3)}


def test_leaders_are_elected_where_replicas_have_arrived_and_the_preferred_broker_is_there():
    course = Course(
        originals={T0: (1, 2), T1: (1, 2), ("t", 2): (1, 2)}, targets={T0: (2, 1), T1: (2, 3), ("t", 2): (3, 1)}
    )
    now = ClusterNow(
        replicas={T0: (2, 1), T1: (1, 2), ("t", 2): (3, 1)},
        leaders={T0: 1, T1: 1, ("t", 2): 1},
        brokers=dict.fromkeys([1, 2]),
    )
    assert to_elect(course, now) == [T0]


def test_throttled_are_what_is_copied_from_and_what_is_copied_to():
    course = Course(originals={T0: (1, 2), T1: (1, 2)}, targets={T0: (3, 1, 4), T1: (2, 1)})
    assert throttled(course) == {T0: ((1, 2, 3, 4), (3, 4))}


@pytest.mark.parametrize(("original", "target"), [((), (1,)), ((1,), ()), ((1,), (2, 2)), ((1, 1), (2,))], ids=str)
def test_a_course_without_replicas_or_with_a_broker_twice_is_refused(original, target):
    with pytest.raises(ValueError, match="t-0 cannot have its replicas on"):
        Course(originals={T0: original}, targets={T0: target})


@pytest.mark.parametrize("limits", [(0, 1), (1, 0)], ids=str)
def test_limits_that_let_nothing_move_are_refused(limits):
    with pytest.raises(ValueError, match="no replica would ever move"):
        Limits(moves_per_broker=limits[0], partitions_at_once=limits[1])


@pytest.mark.parametrize(
    ("samples", "bytes_left", "seconds"),
    [
        ([(0.0, 0), (10.0, 100)], 50, 5.0),
        ([(0.0, 0), (5.0, 100), (10.0, 100)], 50, 5.0),
        ([(10.0, 100)], 50, None),
        ([(0.0, 100), (10.0, 100)], 50, None),
        ([(0.0, 100), (10.0, 40)], 50, None),
        ([(10.0, 0), (10.0, 40)], 50, None),
        ([(0.0, 0), (10.0, 10_000)], 1, 1.0),
        ([(0.0, 0), (10.0, 10_000)], 0, None),
    ],
)
def test_the_time_left_is_at_the_pace_of_what_was_seen(samples, bytes_left, seconds):
    assert seconds_left(samples, bytes_left, is_finished=False) == seconds
    assert seconds_left(samples, bytes_left, is_finished=True) == 0


def test_it_is_not_told_to_be_whole_while_small_partitions_are_still_to_go():
    places = [("t", number) for number in range(14)]
    course = Course(originals=dict.fromkeys(places, (1,)), targets=dict.fromkeys(places, (2,)))
    cluster = Simulated(course, dict.fromkeys(BROKERS))
    cluster.advance(course, PLENTY)
    cluster.complete(places[0])
    found = progress(course, stand(course, cluster.now()), dict.fromkeys(places, 0) | {places[0]: 10**9})
    assert (found.moves_done, found.moves_in_flight, f"{found.fraction:.0%}") == (1, 13, "99%")
