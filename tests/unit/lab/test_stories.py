"""Long runs as stories: they begin shortly before the violation, and no timeout in them lacks a cause."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.messages import Record, named, named_all
from backend.replication_lab.model.rules import FAITHFUL, FIXED
from backend.replication_lab.model.start_states import established
from backend.replication_lab.model.world import Action, World
from backend.replication_lab.runs.drills import NOTHING_PROMISED, Drill, drill_schedule
from backend.replication_lab.runs.schedules import read_schedule, run_schedule
from backend.replication_lab.runs.shrinking import shrink
from backend.replication_lab.stories.step_effects import Watcher
from tests.nightly import some_now
from tests.unit.lab.random_faults import random_schedule, run

THREE = Configuration(brokers=3, replication_factor=3, min_isr=2, records=4)
LATE = {
    "brokers": 3,
    "replication_factor": 3,
    "min_isr": 2,
    "producers": 2,
    "faults": [{"at_ms": 20_000, "fault": "crash", "broker": 1, "for_ms": 3_000}],
}


def told(changes: dict[str, object], mode: str = FAITHFUL.mode, seed: int = 1) -> Drill:
    return drill_schedule({**LATE, **changes}, mode, seed)


def ready(*steps: Action, patient: bool = True) -> World:
    """Return an established partition after these steps."""
    world = established(THREE, FAITHFUL, records=2)
    world.patient = patient
    for action in steps:
        assert perform(world, action), action
    return world


def test_a_story_of_a_long_run_begins_shortly_before_the_violation_and_is_the_shortest():
    found = told({})
    assert found.violated is Invariant.UNANSWERED
    assert found.steps_taken > 30_000
    assert found.begins_after > 30_000
    assert found.is_fewest
    assert len(found.moments) < 60
    assert found.moments[0].text.startswith("Broker ")
    assert found.document()["begins_after"] == found.begins_after


def test_a_story_ends_where_the_run_did_with_the_same_violation():
    configuration, faults = read_schedule(LATE)
    ran = run_schedule(configuration, faults, FAITHFUL.mode, 1)
    story = shrink(ran.start, ran.steps, Invariant.UNANSWERED)
    world = story.start.copy()
    for action in story.steps:
        assert world.history.violated is None
        assert perform(world, action)
    assert world.history.violated is ran.world.history.violated is Invariant.UNANSWERED


def test_a_story_that_would_take_too_long_to_shrink_is_told_as_far_as_it_is_and_says_so():
    configuration, faults = read_schedule(LATE)
    ran = run_schedule(configuration, faults, FAITHFUL.mode, 1)
    whole, cut_short = (
        shrink(ran.start, ran.steps, Invariant.UNANSWERED, most_tried=most) for most in (600_000, 20_000)
    )
    assert whole.is_fewest and not cut_short.is_fewest
    assert len(whole.steps) < len(cut_short.steps) < len(ran.steps) - cut_short.skipped


def test_shrinking_steps_that_violate_something_else_is_refused():
    configuration, faults = read_schedule(LATE)
    ran = run_schedule(configuration, faults, FAITHFUL.mode, 1)
    with pytest.raises(ValueError, match="do not violate two_leaders_commit"):
        shrink(ran.start, ran.steps, Invariant.TWO_LEADERS)


PRODUCED: tuple[Action, ...] = (("produce", 0), ("deliver", -1, 1))


@pytest.mark.parametrize(
    ("wait", "reason"),
    [
        (("late", 1, 3, 3), ("pause", 2)),
        (("late", 1, 3, 3), ("cut", 1, 2)),
        (("late", 1, 3, 3), ("crash", 2)),
        (("late", 1, 3, 3), ("slow", 2)),
        (("late", 1, 3, 3), ("slow_disk", 2)),
        (("timeout", 0, 0, 0), ("pause", 2)),
        (("timeout", 0, 0, 0), ("pause", 1)),
        (("timeout", 0, 0, 0), ("crash", 1)),
    ],
)
def test_a_wait_ends_only_where_the_story_says_what_takes_so_long(wait: Action, reason: Action):
    assert not perform(ready(*PRODUCED), wait)
    assert perform(ready(*PRODUCED, reason), wait)
    assert perform(ready(*PRODUCED, patient=False), wait), "without patience any time may have passed"


def test_a_producer_whose_request_or_answer_is_about_to_arrive_waits_for_it():
    assert not perform(ready(("produce", 0)), ("timeout", 0, 0, 0))
    assert perform(ready(("produce", 0), ("pause", 1)), ("timeout", 0, 0, 0))


def test_a_new_leader_waits_for_those_that_can_catch_up():
    steps: tuple[Action, ...] = (("crash", 1), ("expire", 1), ("notice", 2), ("elect", 2))
    assert not perform(ready(*steps, ("notice", 3)), ("lead_anyway", 2))
    assert perform(ready(*steps, ("notice", 3), ("pause", 3)), ("lead_anyway", 2))


@some_now("rules", [FAITHFUL, FIXED], now=(1,), ids=lambda rules: rules.mode)
def test_replayed_without_a_clock_each_step_of_a_run_does_something_and_it_ends_alike(rules):
    """Otherwise stories would describe another run."""
    for seed in range(60):
        schedule = random_schedule(seed)
        played = run(schedule, rules, seed)
        world = established(schedule.configuration, rules, records=2)
        missed = [at for at, action in enumerate(played.steps) if not perform(world, action)]
        assert (seed, missed) == (seed, [])
        assert [each.log for each in world.brokers.values()] == [
            each.log for each in played.world.brokers.values()
        ]
        if played.world.history.violated is not Invariant.NEVER_SETTLES:
            assert (seed, world.history.violated) == (seed, played.world.history.violated)


@pytest.mark.parametrize("rules", [FAITHFUL, FIXED], ids=lambda rules: rules.mode)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_told_of_logs_and_hws_adds_up_to_how_they_are(rules, seed):
    drawn = random_schedule(seed)
    schedule = replace(drawn, configuration=replace(drawn.configuration, most_fetched=2))  # all can be named
    played = run(schedule, rules, seed)
    world = established(schedule.configuration, rules, records=2)
    watcher = Watcher(world)
    logs = {id_: [named(each) for each in broker.log] for id_, broker in world.brokers.items()}
    hws = {id_: broker.hw for id_, broker in world.brokers.items()}
    for action in played.steps:
        perform(world, action)
        for effect in watcher.look(world).effects:
            if cut := re.fullmatch(r"broker (\d+) truncates its log to offset (\d+) and loses .*", effect):
                del logs[int(cut[1])][int(cut[2]) :]
            elif come := re.fullmatch(r"broker (\d+) appends (.*) at offset (\d+)", effect):
                assert len(logs[int(come[1])]) == int(come[3])
                logs[int(come[1])] += come[2].split(", ")
            elif hw := re.fullmatch(r"HW of broker (\d+) (\d+) → (\d+)", effect):
                assert hws[int(hw[1])] == int(hw[2])
                hws[int(hw[1])] = int(hw[3])
    assert [each.log for each in world.brokers.values()] == [each.log for each in played.world.brokers.values()]
    assert logs == {id_: [named(each) for each in broker.log] for id_, broker in world.brokers.items()}
    assert {each: hws[each] for each in hws if world.brokers[each].started} == {
        id_: broker.hw for id_, broker in world.brokers.items() if broker.started
    }


def test_of_many_records_the_first_and_the_last_are_named():
    records = [Record(0, 0, 0, number) for number in range(30)]
    assert named_all(records[:3]) == "a0, a1, a2"
    assert named_all(records) == "a0, a1, a2, a3, a4, a5, ... (18 more), a24, a25, a26, a27, a28, a29"


LEADER_LOSES_POWER = {"faults": [{"at_ms": 500, "fault": "power_loss", "broker": 1, "for_ms": 2_000}]}


def test_with_asynchronous_acknowledgement_what_producers_were_told_and_is_gone_is_named():
    """The documents promise nothing then; with the fixes committed records are still kept."""
    gone = Counter[str]()
    for seed in range(10):
        for mode in (FAITHFUL.mode, FIXED.mode):
            found = told({"acks_all": False, **LEADER_LOSES_POWER}, mode, seed)
            assert found.violated is None
            assert found.is_checked is (mode == FIXED.mode)
            assert found.verdict == (NOTHING_PROMISED if mode == FAITHFUL.mode else "Every invariant holds")
            gone[mode] += len(found.acknowledged_losses)
    assert gone[FAITHFUL.mode] and gone[FIXED.mode]


def test_with_acks_all_and_the_fixes_nothing_that_was_acknowledged_is_gone():
    for seed in range(10):
        assert told(LEADER_LOSES_POWER, FIXED.mode, seed).acknowledged_losses == ()
