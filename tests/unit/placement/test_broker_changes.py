"""Brokers that joined or left, and the requests for placements that follow."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.placement.broker_changes import (
    BrokerChange,
    BrokerPresence,
    BrokerStatus,
    EarlierPlacement,
    broker_change,
    broker_status,
    hold_back_reason,
    should_propose,
    updated_presence,
)
from backend.domain.placement.placement_proposals import Proposal
from backend.domain.placement.placement_runs import PlacementState

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SETTLED, AWAY = timedelta(seconds=60), timedelta(minutes=30)
MINUTE = timedelta(minutes=1)

HERE, EMPTY, GONE, GONE_EMPTY = (True, False), (True, True), (False, False), (False, True)
Look = dict[int, tuple[bool, bool]]


def known(*looks: Look, pause: timedelta = MINUTE, start: datetime = T0) -> dict[int, BrokerPresence]:
    """Return the known brokers after these observations, one after the other."""
    found: dict[int, BrokerPresence] = {}
    for number, look in enumerate(looks):
        late = pause > timedelta(minutes=3) and number > 0
        found = updated_presence(found, look, start + number * pause, is_first=not found, is_late=late)
    return found


def change(*looks: Look, later: timedelta = timedelta(0)) -> BrokerChange | None:
    """Return the changes up to the last of these observations, or `later`."""
    now = T0 + (len(looks) - 1) * MINUTE + later
    return broker_change(known(*looks).values(), SETTLED, AWAY, now)


THREE: Look = {1: HERE, 2: HERE, 3: HERE}


def test_a_broker_that_comes_without_replicas_has_joined_after_a_minute() -> None:
    assert change(THREE, {**THREE, 4: EMPTY}) is None, "more may come"
    found = change(THREE, {**THREE, 4: EMPTY}, later=SETTLED)
    assert found == BrokerChange(
        joined=(4,), left=(), returned=(), target_brokers=(1, 2, 3, 4), brokers=4, since=T0 + MINUTE
    )
    assert change(THREE, {**THREE, 4: HERE}, later=SETTLED) is not None
    assert not change(THREE, {**THREE, 4: HERE}, later=SETTLED), "it was given replicas already"


def test_brokers_that_come_one_after_the_other_are_one_change() -> None:
    looks = (THREE, {**THREE, 4: EMPTY}, {**THREE, 4: EMPTY, 5: EMPTY})
    assert change(*looks, later=timedelta(seconds=59)) is None
    found = change(*looks, later=SETTLED)
    assert found is not None and found.joined == (4, 5)


def test_what_is_empty_when_a_cluster_is_first_looked_at_is_meant_to_be() -> None:
    found = change({**THREE, 4: EMPTY}, later=AWAY)
    assert found is not None and not found and found.target_brokers == (1, 2, 3)


def test_a_cluster_without_replicas_has_nothing_to_be_moved() -> None:
    found = change({1: EMPTY}, {1: EMPTY, 2: EMPTY}, later=SETTLED)
    assert found is not None and not found


def test_who_is_away_has_left_after_its_time_and_not_by_a_restart() -> None:
    gone = {**THREE, 3: GONE}
    assert change(THREE, gone, later=AWAY - timedelta(seconds=1)) is None
    found = change(THREE, gone, later=AWAY)
    assert found is not None
    assert (found.left, found.target_brokers, found.brokers, found.since) == ((3,), (1, 2), 3, T0 + MINUTE)
    back = change(THREE, gone, THREE, later=AWAY)
    assert back is not None and not back


def test_nothing_is_decided_while_another_broker_is_being_started_again() -> None:
    assert change(THREE, {**THREE, 4: EMPTY}, {**THREE, 4: EMPTY, 2: GONE}, later=SETTLED) is None


def test_after_a_time_without_looks_who_is_away_may_have_been_here() -> None:
    gone = {**THREE, 3: GONE}
    late = known(THREE, gone, gone, pause=timedelta(hours=1))
    assert late[3].since == T0 + timedelta(hours=2)
    assert broker_status(late[3], SETTLED, AWAY, T0 + timedelta(hours=2)) is BrokerStatus.AWAY
    assert late[1].since == T0


def test_who_was_emptied_while_it_was_here_stays_empty() -> None:
    four = {**THREE, 4: HERE}
    found = change(four, {**THREE, 4: EMPTY}, later=AWAY)
    assert found is not None and not found and found.target_brokers == (1, 2, 3)


@pytest.mark.parametrize("between", [THREE, {**THREE, 4: GONE_EMPTY}])
def test_who_was_emptied_and_is_started_again_has_returned(between: Look) -> None:
    looks = ({**THREE, 4: HERE}, {**THREE, 4: EMPTY}, between, {**THREE, 4: EMPTY})
    found = change(*looks, later=SETTLED)
    assert found is not None and (found.joined, found.returned) == ((4,), (4,))
    # Once it is filled it is a broker like any other.
    again = change(*looks, {**THREE, 4: HERE}, THREE, {**THREE, 4: EMPTY}, later=SETTLED)
    assert again is not None and again.returned == ()


def test_who_was_taken_out_while_it_was_away_joins_when_it_is_back() -> None:
    looks = (THREE, {**THREE, 3: GONE}, {1: HERE, 2: HERE}, {**THREE, 3: EMPTY})
    found = change(*looks, later=SETTLED)
    assert found is not None and (found.joined, found.returned) == ((3,), ())


def test_a_run_that_is_taken_back_is_not_asked_for_again() -> None:
    filled_and_emptied = (THREE, {**THREE, 4: EMPTY}, {**THREE, 4: HERE}, {**THREE, 4: EMPTY})
    found = change(*filled_and_emptied, later=AWAY)
    assert found is not None and not found


# --- asked once

JOINED = BrokerChange(joined=(4,), left=(), returned=(), target_brokers=(1, 2, 3, 4), brokers=4, since=T0)
LEFT = BrokerChange(joined=(), left=(3,), returned=(), target_brokers=(1, 2), brokers=3, since=T0)


def asked(
    state: PlacementState = PlacementState.PLANNED,
    minutes: float = 1,
    target: tuple[int, ...] | None = (1, 2, 3, 4),
    is_given: bool = False,
) -> EarlierPlacement:
    return EarlierPlacement(
        target_brokers=target, is_given=is_given, state=state, time=T0 + timedelta(minutes=minutes)
    )


NOW = T0 + timedelta(minutes=5)
P = PlacementState


@pytest.mark.parametrize(
    ("what", "before", "wanted"),
    [
        (JOINED, [], True),
        (replace(JOINED, joined=()), [], False),
        (replace(JOINED, target_brokers=()), [], False),
        *((JOINED, [asked(state)], False) for state in P if state is not P.FAILED),
        # An operator's of before is of another cluster, so to say; one that is open answers all the same.
        (JOINED, [asked(P.APPLIED, -9)], True),
        (JOINED, [asked(P.PLANNED, -9)], False),
        (JOINED, [asked(P.CANCELLED, 2, (1, 2)), asked(P.PLANNED, -9)], True),
        # All brokers that are here: 4 among them.
        (JOINED, [asked(P.PLANNED, 1, None)], False),
        (JOINED, [asked(P.APPLIED, 1, (1, 2, 4))], False),
        (JOINED, [asked(P.APPLIED, 1, (1, 2, 3))], True),
        (JOINED, [asked(P.APPLIED, 1, None, is_given=True)], True),
        (JOINED, [asked(P.APPLYING, -9, (1, 2, 3))], False),
        (JOINED, [asked(P.PLANNED, 1, (1, 2)), asked(P.REQUESTED, -9, (1, 2, 3))], False),
        (LEFT, [asked(P.APPLIED, 1, (1, 2))], False),
        (LEFT, [asked(P.APPLIED, 1, (1, 2, 3))], True),
        (LEFT, [asked(P.PLANNED, 1, None)], True),
        # One that failed is tried again, ever more seldom.
        (JOINED, [asked(P.FAILED, 1)], False),
        (JOINED, [asked(P.FAILED, -4)], True),
    ],
)
def test_each_change_is_asked_for_once(what: BrokerChange, before: list[EarlierPlacement], wanted: bool) -> None:
    assert should_propose(what, before, NOW) is wanted


@pytest.mark.parametrize(("failures", "minutes"), [(1, 10), (2, 20), (3, 40), (30, 1440)])
def test_what_failed_is_tried_again_ever_more_seldom(failures: int, minutes: int) -> None:
    before = [asked(P.FAILED, failures - at) for at in range(failures)]
    last = before[0].time
    assert not should_propose(JOINED, before, last + timedelta(minutes=minutes, seconds=-1))
    assert should_propose(JOINED, before, last + timedelta(minutes=minutes))


# --- by itself


@pytest.mark.parametrize(
    ("now", "violations", "said"),
    [
        (JOINED, {}, None),
        (JOINED, {"racks": 3, "brokers": 1}, r"brokers \(1\), racks \(3\)"),
        (replace(JOINED, joined=(4, 5)), {}, "no longer those"),
        (replace(JOINED, joined=()), {}, "no longer those"),
        (replace(JOINED, returned=(4,)), {}, r"emptied before \(4\)"),
    ],
)
def test_what_is_to_be_looked_at_first_is_held_back(
    now: BrokerChange, violations: dict[str, int], said: str | None
) -> None:
    found = hold_back_reason(Proposal(policy="apply", joined=(4,), left=()), now, violations)
    if said is None:
        assert found is None
    else:
        assert found is not None and re.search(said, found)


@pytest.mark.parametrize(("left", "brokers", "held"), [(1, 3, False), (2, 3, True), (1, 2, True), (2, 6, False)])
def test_many_that_are_away_at_once_are_cut_off_rather(left: int, brokers: int, held: bool) -> None:
    away = tuple(range(1, left + 1))
    now = replace(LEFT, left=away, brokers=brokers)
    found = hold_back_reason(Proposal(policy="apply", joined=(), left=away), now, {})
    assert (found is not None) is held


# --- whatever happens

looks = st.lists(
    st.dictionaries(st.integers(1, 5), st.sampled_from([HERE, EMPTY, GONE]), min_size=1), min_size=1, max_size=12
)


@given(looks, st.lists(st.integers(0, 90), min_size=12, max_size=12))
def test_no_change_is_asked_for_twice_and_none_while_it_is_unclear(
    given_looks: list[Look], pauses: list[int]
) -> None:
    """Each plan is cancelled at once, so that only the memory of earlier placements prevents another proposal."""
    found: dict[int, BrokerPresence] = {}
    now, before, answered = T0, list[EarlierPlacement](), set[tuple[object, ...]]()
    for look, pause in zip(given_looks, pauses, strict=False):
        now += timedelta(minutes=pause)
        found = updated_presence(found, look, now, is_first=not found, is_late=False)
        for _ in range(3):
            now += timedelta(seconds=61)
            what = broker_change(found.values(), SETTLED, AWAY, now)
            unclear = {broker_status(each, SETTLED, AWAY, now) for each in found.values()} & {
                BrokerStatus.SETTLING,
                BrokerStatus.AWAY,
            }
            assert (what is None) == bool(unclear)
            if what is None or not should_propose(what, before, now):
                continue
            key = (what.joined, what.left, what.since)
            assert key not in answered
            answered.add(key)
            assert (
                set(what.joined)
                <= set(what.target_brokers)
                <= {id_ for id_, each in found.items() if each.is_here}
            )
            assert set(what.left).isdisjoint(what.target_brokers)
            assert all(found[id_].is_empty for id_ in what.joined)
            assert any(not each.is_empty for each in found.values())
            before.insert(
                0,
                EarlierPlacement(target_brokers=what.target_brokers, is_given=False, state=P.CANCELLED, time=now),
            )
