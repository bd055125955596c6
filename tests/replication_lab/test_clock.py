"""What the clock makes of brokers that stand still, or do not reach the store: nothing is lost or hurried."""

from __future__ import annotations

import pytest

from backend.replication_lab.configuration import ImpossibleDrill
from backend.replication_lab.drills import drill_schedule
from backend.replication_lab.rules import FAITHFUL, FIXED
from backend.replication_lab.schedules import Run, read_schedule, run_schedule

SEEDS = 6
BOTH = pytest.mark.parametrize("mode", [FAITHFUL.mode, FIXED.mode])


def played(*faults: dict[str, object], mode: str, seed: int = 1, **changes: object) -> Run:
    """These faults on three brokers."""
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
    """It waits a second (KeepInSyncTime) for one that stands still, though the store is away for a moment."""
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
    with pytest.raises(ImpossibleDrill) as refused:
        drill_schedule(document, FIXED.mode, 1)
    assert len(str(refused.value)) < 400
