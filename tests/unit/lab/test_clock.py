"""Effects of the clock on paused brokers and brokers that do not reach the store: no timer is lost or early."""

from __future__ import annotations

import random

import pytest

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.configuration import Configuration, InvalidDrill
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import FAITHFUL, FIXED
from backend.replication_lab.model.start_states import established, wake_all
from backend.replication_lab.runs.drills import drill_schedule
from backend.replication_lab.runs.schedules import Run, read_schedule, run_schedule
from backend.replication_lab.runs.timed import Clock

SEEDS = 6
BOTH = pytest.mark.parametrize("mode", [FAITHFUL.mode, FIXED.mode])


def played(*faults: dict[str, object], mode: str, seed: int = 1, **changes: object) -> Run:
    """Run these faults on three brokers."""
    configuration, read = read_schedule({"producers": 2, **changes, "faults": list(faults)})
    return run_schedule(configuration, read, mode, seed)


def fault(kind: str, broker: int, at_ms: float, for_ms: float, **more: int) -> dict[str, object]:
    return {"fault": kind, "broker": broker, "at_ms": at_ms, "for_ms": for_ms, **more}


@BOTH
@pytest.mark.parametrize("broker", [1, 2])
def test_a_pause_shorter_than_session_and_keep_in_sync_time_changes_neither_leader_nor_isr(mode, broker):
    for seed in range(SEEDS):
        run = played(fault("pause", broker, 1_500, 20), mode=mode, seed=seed, producers=0)
        assert (seed, run.world.history.violated) == (seed, None)
        assert (seed, len(run.states)) == (seed, 1)


@BOTH
def test_what_a_leader_waits_for_when_it_is_paused_it_waits_for_when_it_goes_on(mode):
    """Followers are slow, so that a request waits; a pause of some milliseconds drops none of them."""
    slow = [fault("slow", each, 1_000, 600) for each in (2, 3)]
    for seed in range(SEEDS):
        run = played(*slow, fault("pause", 1, 1_400, 5), mode=mode, seed=seed, producers=1)
        assert (seed, [leader for _, leader, _ in run.states]) == (seed, [1] * len(run.states))
        assert all(isr == {1, 2, 3} for at, _, isr in run.states if at < 1_600), seed


@pytest.mark.parametrize("broker", [1, 3])
def test_who_stood_still_flushes_again(broker):
    paused, slow = (
        played(fault(kind, broker, 1_000, 300), fault("slow", broker, 7_000, 10), mode=FIXED.mode)
        for kind in ("pause", "slow")
    )
    taken = [[each for each in run.steps if each == ("checkpoint", broker)] for run in (paused, slow)]
    assert len(taken[0]) > 0.8 * len(taken[1]) > 10


def test_a_new_leader_s_wait_is_not_cut_short_by_the_store():
    """A leader waits a second (KeepInSyncTime) for a paused replica, even while it cannot reach the store."""
    faults = (
        fault("crash", 1, 1_000, 6_000),
        fault("pause", 3, 1_000, 6_000),
        *(fault("cut", 2, at, 1, other=0) for at in (1_700, 2_000, 2_200, 2_400)),
    )
    for seed in range(SEEDS):
        run = played(*faults, mode=FAITHFUL.mode, seed=seed, producers=0)
        changes = [(at, leader) for at, leader, _ in run.states if at > 1_000]
        begun = next(at for at, leader in changes if leader == 2)
        opened = [
            at for (at, _, isr), (_, _, before) in zip(run.states[1:], run.states, strict=False) if isr != before
        ]
        assert min((each - begun for each in opened if each > begun), default=1_000) >= 950, (seed, run.states)


def test_faults_that_follow_one_another_at_once_come_in_any_order_of_the_list():
    first, second = fault("crash", 1, 1_000, 1_000), fault("crash", 1, 2_000, 3_000)
    for order in ((first, second), (second, first)):
        steps = [each[0] for each in played(*order, mode=FIXED.mode).steps if each[1:] == (1,)]
        assert [each for each in steps if each in ("crash", "restart")] == ["crash", "restart"] * 2


@pytest.mark.parametrize("again", ["crash", "pause", "slow", "cut"])
def test_who_came_back_in_sync_is_dropped_like_anybody_when_it_falls_behind_again(again):
    """Regression: the leader waited for it for ever, since no timer watched it any more."""
    more = {"other": 1} if again == "cut" else {}
    second = fault(again, 2, 6_000, 8_000, **more)
    for seed in range(SEEDS):
        both = played(fault("crash", 2, 1_000, 3_000), second, mode=FIXED.mode, seed=seed, min_isr=2)
        assert any(6_000 < at < 8_000 and isr == {1, 3} for at, _, isr in both.states), (seed, both.states)
        assert (both.longest_gap_ms or 0) < 2_000, seed


def test_who_was_moved_in_is_dropped_like_anybody():
    world = established(Configuration(brokers=4, min_isr=2), FIXED)
    clock = Clock(world, 1)
    clock.at(500, ("reassign", 1, 2, 4))
    clock.at(3_000, ("crash", 4))
    wake_all(world)
    while world.now < 6_000 and clock.next_at() is not None:
        clock.step()
        if world.now < 2_900:
            was_in = world.store.isr
    assert was_in == {1, 2, 4} and world.store.isr == {1, 2}


def test_one_that_is_moved_in_and_the_only_one_eligible_leads():
    """Broker 4 replaces broker 2, which is gone, and is paused; broker 1, which is alone, crashes.

    Broker 1 comes back out of sync, and broker 4, which is eligible, has to lead although it is not assigned yet.
    """
    world = established(Configuration(brokers=4, replication_factor=2, min_isr=2), FIXED)
    clock = Clock(world, 1)
    for at, step in (
        (400, ("crash", 2)),
        (450, ("crash", 3)),
        (500, ("reassign", 1, 3, 4)),
        (4_000, ("pause", 4)),
        (7_000, ("crash", 1)),
        (9_000, ("restart", 1)),
        (9_000, ("resume", 4)),
    ):
        clock.at(at, step)
    wake_all(world)
    eligible, leaders = set[int](), list[int]()
    while world.now < 12_000 and clock.next_at() is not None:
        clock.step()
        if world.store.leader == NOBODY:
            eligible |= world.store.elr
        elif world.store.leader not in leaders[-1:]:
            leaders.append(world.store.leader)
    assert 4 in eligible and world.store.reassigned == (1, 3, 4), "it is still being moved in"
    assert leaders == [1, 4, 1] and world.history.violated is None, "and gives way to the preferred one"


@pytest.mark.nightly  # test_stories replays runs without a clock, step by step
def test_a_run_that_is_taken_again_step_by_step_is_the_same_run():
    """A story is made from the steps alone, whatever the clock did."""
    draw = random.Random(7)
    taken = 0
    for seed in range(150):
        kinds = draw.choices(["cut", "cut", "pause", "slow", "session_expiry"], k=draw.randint(1, 4))
        faults = []
        for number, kind in enumerate(kinds):
            more = {"other": draw.choice([0, 1])} if kind == "cut" else {}
            lasts = {} if kind == "session_expiry" else {"for_ms": draw.choice([700, 980, 990, 1_000, 1_010])}
            at = 1_000 + 1_500 * number + draw.random() * 400
            faults.append({"fault": kind, "broker": draw.choice([2, 3]), "at_ms": at, **lasts, **more})
        mode = draw.choice([FAITHFUL.mode, FIXED.mode])
        run = played(*faults, mode=mode, seed=seed, producers=draw.choice([0, 1]))
        world = run.start.copy()
        for number, step in enumerate(run.steps):
            assert perform(world, step), (seed, mode, faults, number, step)
        assert (world.store.leader, world.store.isr) == run.states[-1][1:], (seed, mode, faults)
        taken += len(run.steps)
    assert taken > 100_000


def test_a_loss_by_unclean_election_is_expected():
    """The only in-sync replica is paused: its session expires, and another replica leads, which lacks records."""
    faults = (fault("crash", 2, 500, 3_000), fault("pause", 1, 3_400, 3_000))
    shape = {"brokers": 2, "replication_factor": 2, "min_isr": 1}
    for seed in range(SEEDS):
        unclean = played(*faults, mode=FIXED.mode, seed=seed, unclean_election=True, **shape)
        assert (seed, unclean.world.history.violated) == (seed, None), unclean.world.history.what
        assert unclean.world.history.expected_losses
        clean = played(*faults, mode=FIXED.mode, seed=seed, unclean_election=False, **shape)
        assert (clean.world.history.violated, clean.world.history.expected_losses) == (None, ())


def test_a_broker_that_is_down_cannot_stand_still():
    with pytest.raises(InvalidDrill, match="begins while the broker is down, until 2000 ms"):
        played(fault("crash", 1, 1_000, 1_000), fault("pause", 1, 1_999, 500), mode=FIXED.mode)
    played(fault("crash", 1, 1_000, 1_000), fault("pause", 1, 2_000, 500), mode=FIXED.mode)
    played(fault("pause", 1, 1_000, 1_000), fault("crash", 1, 1_500, 100), mode=FIXED.mode)


def test_acknowledgements_are_not_missed_where_nobody_produces():
    assert played(fault("crash", 1, 1_000, 500), mode=FIXED.mode, producers=0).longest_gap_ms is None


HUGE = 10**5_000


@pytest.mark.parametrize(
    "document",
    [
        {"faults": [fault("crash", 1, HUGE, 5)]},
        {"faults": [fault("crash", HUGE, 5, 5)]},
        {"faults": [{"fault": HUGE, "broker": 1, "at_ms": 5, "for_ms": 5}]},
        {"faults": [HUGE]},
        {"faults": [{HUGE: 1}]},
        {"brokers": HUGE, "faults": [fault("crash", 1, 5, 5)]},
        {"min_isr": HUGE, "faults": [fault("crash", 1, 5, 5)]},
        {HUGE: HUGE, "faults": [fault("crash", 1, 5, 5)]},
        {"faults": [fault("crash", 1, 5, 1e-320)]},
        {"faults": [fault("crash", 1, 5, float("nan"))]},
        {"acks_all": "x" * 10_000, "faults": [fault("crash", 1, 5, 5)]},
    ],
)
def test_numbers_that_cannot_be_written_down_are_refused_like_others(document):
    with pytest.raises(InvalidDrill) as refused:
        drill_schedule(document, FIXED.mode, 1)
    assert len(str(refused.value)) < 400
