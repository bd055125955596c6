"""Each block of pseudo-code alone: given a state, when it runs, then this; in both modes where they differ."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import backend.replication_lab as package
from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.answers import NOT_LEADER, TOO_FEW_IN_SYNC
from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.messages import (
    NOBODY,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
    Record,
)
from backend.replication_lab.model.producing import produce_request_handler
from backend.replication_lab.model.rules import FAITHFUL, FIXED, Rules
from backend.replication_lab.model.start_states import established, wake_all
from backend.replication_lab.model.startup import close_replica, replica_state_change
from backend.replication_lab.model.state import Fetcher, Role
from backend.replication_lab.model.store import Request
from backend.replication_lab.model.world import Action, World
from backend.replication_lab.runs.recovery import settles, unsettled
from backend.replication_lab.runs.timed import Clock

BOTH = pytest.mark.parametrize("rules", [FAITHFUL, FIXED], ids=lambda rules: rules.mode)


def given(rules: Rules, *actions: Action, direct: bool = False, **configuration: int) -> World:
    """Return three replicas with two committed records, led by broker 1, after these steps."""
    world = established(Configuration(**configuration), rules, records=2, direct=direct)
    take(world, *actions)
    return world


def take(world: World, *actions: Action) -> None:
    """Take steps that each have an effect."""
    for action in actions:
        assert perform(world, action), action


def answers(world: World, producer: int = 0) -> list[ProduceResponse]:
    """Return the answers under way to a producer."""
    return [each for (_, to), some in world.channels.items() if to == -1 - producer for each in some]  # type: ignore[misc]


def test_each_block_of_pseudo_code_is_one_function_of_its_name():
    named = re.search(r"one function of the same name:(.*?)\.\n", package.__doc__ or "", re.DOTALL)
    assert named is not None
    blocks = [each.strip() for each in named[1].split(",")]
    assert len(blocks) == 15
    modules = [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    for block in blocks:
        assert [
            each.__name__
            for each in modules
            if getattr(getattr(each, block, None), "__module__", "") == each.__name__
        ]


@BOTH
def test_broker_startup_registers_opens_the_log_and_follows_the_leader_that_is_there(rules):
    world = given(rules, ("crash", 3), ("expire", 3))
    assert 3 not in world.store.registered
    take(world, ("restart", 3))
    broker = world.brokers[3]
    assert world.store.registered[3] == broker.incarnation == 2
    assert (broker.started, broker.role, broker.partition.leader) == (True, Role.FOLLOWER, 1)


@pytest.mark.parametrize("rules, in_sync", [(FAITHFUL, {1, 2, 3}), (FIXED, {1, 2})], ids=["faithful", "fixed"])
def test_who_comes_back_from_a_crash_is_in_sync_no_more_in_fixed_mode(rules, in_sync):
    assert given(rules, ("crash", 3), ("restart", 3)).store.isr == in_sync


def test_state_change_listener_takes_one_request_after_another_in_their_order():
    world = given(FIXED, brokers=4)
    world.store.request(4, Request.REPLICA_ASSIGNED)
    world.store.request(4, Request.REPLICA_ASSIGNED)
    world.store.request(4, Request.DELETE_REPLICA)
    assert world.store.requests[4] == (Request.REPLICA_ASSIGNED, Request.DELETE_REPLICA)
    take(world, ("request", 4))
    assert world.brokers[4].role is Role.FOLLOWER
    take(world, ("request", 4))
    assert (world.brokers[4].started, world.brokers[4].role) == (False, Role.NONE)
    assert not perform(world, ("request", 4))


def test_replica_state_change_takes_the_checkpointed_hw_or_the_logs_end():
    world = given(FAITHFUL)
    broker = world.brokers[3]
    for checkpoint, log, hw in ((1, 2, 1), (2, 1, 1)):
        close_replica(world, broker)
        broker.log, broker.checkpoint = [Record(0, 25, 0, each) for each in range(log)], checkpoint
        replica_state_change(world, broker)
        assert (broker.started, broker.hw) == (True, hw)


def test_close_replica_stops_the_fetcher_and_closes_the_log():
    world = given(FIXED)
    close_replica(world, world.brokers[2])
    broker = world.brokers[2]
    assert (broker.started, broker.role, broker.fetcher) == (False, Role.NONE, Fetcher.STOPPED)


@pytest.mark.parametrize("rules, kept", [(FAITHFUL, 2), (FIXED, 3)], ids=["faithful", "fixed"])
def test_become_follower_truncates_to_the_hw_or_with_the_fix_asks_first(rules, kept):
    """Broker 2 has a record that it does not know to be committed, and is notified of its leader again."""
    world = given(rules, ("produce", 0), ("deliver", -1, 1), ("fetch", 2), ("deliver", 2, 1), ("deliver", 1, 2))
    assert len(world.brokers[2].log) == 3
    take(world, ("crash", 2), ("restart", 2))
    assert len(world.brokers[2].log) == kept
    assert world.brokers[2].fetcher is (Fetcher.READY if rules is FAITHFUL else Fetcher.ASKS)


def test_a_follower_cuts_its_log_back_to_where_it_agrees_with_the_leaders():
    world = given(FIXED, direct=True)
    follower = world.brokers[3]
    follower.append((Record(1, 7, 0, 0), Record(1, 7, 0, 1)))
    take(world, ("session_expiry", 1), ("notice", 2), ("elect", 2), ("notice", 3), ("fetch", 3))
    assert [each.producer for each in follower.log] == [25, 25]
    assert follower.fetcher is Fetcher.READY


def test_become_leader_waits_in_faithful_mode_until_all_that_live_have_what_it_has():
    world = given(FAITHFUL, ("crash", 1), ("expire", 1), ("notice", 2), ("elect", 2))
    assert (world.store.leader, world.brokers[2].role) == (2, Role.BECOMING)
    assert not perform(world, ("lead", 2))
    take(world, ("notice", 3), ("fetch", 3), ("deliver", 3, 2), ("lead", 2))
    assert (world.brokers[2].role, world.store.isr, world.store.cur) == (Role.LEADER, {2, 3}, {1})


def test_become_leader_drops_who_has_not_caught_up_when_keep_in_sync_time_is_over():
    world = given(FAITHFUL, ("crash", 1), ("expire", 1), ("notice", 2), ("elect", 2), ("lead_anyway", 2))
    assert (world.store.isr, world.store.cur) == ({2}, {1, 3})


def test_become_leader_does_not_wait_with_the_fix_and_keeps_its_hw():
    world = given(FIXED, ("produce", 0), ("deliver", -1, 1), ("fetch", 2), ("deliver", 2, 1), ("deliver", 1, 2))
    take(world, ("crash", 1), ("expire", 1), ("notice", 2), ("elect", 2))
    leader = world.brokers[2]
    assert (leader.role, leader.hw, len(leader.log)) == (Role.LEADER, 2, 3)
    assert (world.store.leader_epoch, world.store.isr) == (2, {2, 3})


@BOTH
def test_leader_election_stands_only_if_in_sync_and_writes_only_where_nobody_leads(rules):
    world = established(Configuration(), rules, records=2, isr=frozenset({1, 2}))
    take(world, ("crash", 1), ("expire", 1), ("notice", 3))
    assert world.brokers[3].role is not Role.STANDING
    take(world, ("notice", 2))
    assert world.brokers[2].role is Role.STANDING
    world.store.leader = 1
    take(world, ("elect", 2))
    assert (world.store.leader, world.brokers[2].role) == (1, Role.NONE)


@BOTH
def test_produce_request_handler_refuses_where_it_does_not_lead_or_too_few_are_in_sync(rules):
    request = ProduceRequest(0, 0, 0, 1, True)
    world = given(rules, min_isr=2)
    produce_request_handler(world, world.brokers[2], request)
    world.brokers[1].partition.isr = frozenset({1})
    produce_request_handler(world, world.brokers[1], request)
    assert [each.error for each in answers(world)] == [NOT_LEADER, TOO_FEW_IN_SYNC]
    assert [len(world.brokers[each].log) for each in (1, 2)] == [2, 2]


@pytest.mark.parametrize("rules, written", [(FAITHFUL, 4), (FIXED, 3)], ids=["faithful", "fixed"])
def test_a_record_that_is_sent_again_is_written_once_with_the_fix(rules, written):
    world = given(rules, ("produce", 0), ("deliver", -1, 1), ("timeout", 0, 0, 1), ("deliver", -1, 1))
    assert len(world.brokers[1].log) == written


@BOTH
def test_hw_checkpoint_thread_flushes_log_and_hw(rules):
    world = given(rules, ("produce", 0), ("deliver", -1, 1))
    broker = world.brokers[1]
    assert (broker.flushed, broker.checkpoint) == (2, 2)
    take(world, ("checkpoint", 1))
    assert (broker.flushed, broker.checkpoint) == (3, 2)
    assert not perform(world, ("checkpoint", 1))
    take(world, ("power_loss", 1))
    assert len(broker.log) == 3


@pytest.mark.parametrize("rules", [FAITHFUL, FIXED], ids=["committer thread", "HW with the fetches"])
def test_a_record_is_acknowledged_when_all_in_sync_have_fetched_it(rules):
    world = given(rules, ("produce", 0), direct=True)
    leader = world.brokers[1]
    take(world, ("fetch", 2), ("fetch", 2), ("fetch", 3))
    assert (leader.hw, world.producers[0].acknowledged) == (2, 0)
    assert not perform(world, ("commit", 1))
    take(world, ("fetch", 3))
    assert perform(world, ("commit", 1)) is (rules is FAITHFUL)
    assert (leader.hw, world.producers[0].acknowledged) == (3, 1)


def test_committer_thread_drops_who_does_not_reach_the_offset_in_keep_in_sync_time():
    world = given(FAITHFUL, ("produce", 0), ("fetch", 2), ("fetch", 2), ("late", 1, 3, 3), direct=True)
    assert (world.store.isr, world.brokers[1].partition.cur) == ({1, 2}, {3})
    take(world, ("commit", 1))
    assert world.producers[0].acknowledged == 1


def test_offset_reached_counts_records_and_not_requests():
    world = given(FAITHFUL, ("produce", 0), ("fetch", 2), ("fetch", 3), direct=True)
    assert world.brokers[1].partition.leo == {2: 2, 3: 2}
    assert not perform(world, ("commit", 1))


def test_replica_fetch_answers_with_records_from_the_offset_and_the_hw():
    world = given(FIXED, ("produce", 0), ("deliver", -1, 1), ("fetch", 2), ("deliver", 2, 1))
    (answer,) = world.channels[1, 2]
    assert isinstance(answer, FetchResponse)
    assert (answer.hw, answer.records) == (2, (Record(1, 0, 0, 0),))


@pytest.mark.parametrize("rules, refused", [(FAITHFUL, False), (FIXED, True)], ids=["faithful", "fixed"])
def test_replica_fetch_refuses_another_leader_epoch_with_the_fix(rules, refused):
    world = given(rules)
    world.channels[2, 1] = (FetchRequest(2, 1, 0, 2, 7),)
    take(world, ("deliver", 2, 1))
    assert (world.channels[1, 2][0].records is None) is refused  # type: ignore[union-attr]


@BOTH
def test_replica_fetcher_thread_appends_takes_the_hw_over_and_goes_on(rules):
    world = given(rules, ("produce", 0), direct=True)
    take(world, ("fetch", 2))
    follower = world.brokers[2]
    assert (len(follower.log), follower.hw, follower.fetcher) == (3, 2, Fetcher.READY)
    take(world, ("fetch", 2), ("fetch", 3), ("fetch", 3))
    perform(world, ("commit", 1))
    take(world, ("fetch", 2))
    assert follower.hw == 3


@BOTH
def test_leader_change_event_has_those_in_sync_stand_and_then_all_follow_the_one_that_leads(rules):
    world = given(rules, ("session_expiry", 1))
    assert world.store.leader == NOBODY
    take(world, ("notice", 3), ("elect", 3), ("notice", 2))
    assert world.store.leader == 3
    assert (world.brokers[2].role, world.brokers[2].partition.leader) == (Role.FOLLOWER, 3)
    take(world, ("notice", 1))
    assert (world.brokers[1].role, world.brokers[1].partition.leader) == (Role.FOLLOWER, 3)


def clocked(rules: Rules, *actions: Action, leader: int = 1, **configuration: int) -> Clock:
    """Return a world on a clock, with producers that have sent for a while."""
    world = established(Configuration(records=30, **configuration), rules, records=2, leader=leader)
    clock = Clock(world, 5)
    wake_all(world)
    clock.run(40)
    for action in actions:
        assert clock.take(action), action
    return clock


def test_check_load_balancing_gives_way_to_the_preferred_replica():
    clock = clocked(FIXED, leader=3)
    assert settles(clock), unsettled(clock.world)
    assert clock.world.store.leader == 1


@pytest.mark.parametrize("replicas", [(2, 3, 4), (4, 5), (3,), (1, 2, 3)])
def test_check_reassigned_replicas_hands_over_to_the_new_ones_and_the_rest_delete_theirs(replicas):
    clock = clocked(FIXED, ("reassign", *replicas), brokers=5, min_isr=1)
    assert settles(clock), unsettled(clock.world)
    assert clock.world.store.replicas == replicas
    assert clock.world.store.isr == frozenset(replicas)
    clock.run(clock.world.now + 1_000)
    assert all(bool(each.log) is (each.id in replicas) for each in clock.world.brokers.values())


def test_a_reassignment_is_carried_on_by_the_next_leader():
    clock = clocked(FIXED, ("crash", 1), ("reassign", 2, 3, 4), brokers=4)
    assert settles(clock), unsettled(clock.world)
    assert clock.world.store.replicas == (2, 3, 4)
    assert clock.world.brokers[1].log

    clock.take(("restart", 1))
    assert unsettled(clock.world) == "the log of a replica that was moved away is still on broker 1"
    assert settles(clock), unsettled(clock.world)
    assert not clock.world.brokers[1].log


def test_one_that_is_being_assigned_leads_if_it_is_in_sync_alone():
    world = established(Configuration(brokers=3, replication_factor=2, min_isr=1), FIXED, records=2)
    take(world, ("reassign", 3, 2, 1), ("session_expiry", 2))
    world.store.isr = frozenset({3})
    world.brokers[3].log, world.brokers[3].started = list(world.brokers[1].log), True
    take(world, ("session_expiry", 1), ("notice", 3), ("elect", 3))
    assert world.leader() is world.brokers[3]


@pytest.mark.parametrize("away", [None, 1, 2, 3])
def test_a_deleted_topic_is_gone_from_all_brokers_also_from_one_that_was_away(away):
    clock = clocked(FIXED, *([("crash", away)] if away else []), ("delete_topic",))
    clock.run(2_000)
    if away:
        assert clock.take(("restart", away))
        clock.run(4_000)
    assert [each.id for each in clock.world.brokers.values() if each.log] == []


def test_a_topic_is_deleted_although_its_leader_crashes_before_it_hears_of_that():
    clock = clocked(FIXED, ("delete_topic",), ("crash", 1))
    clock.run(2_000)
    assert [each.id for each in clock.world.brokers.values() if each.log] == [1]
