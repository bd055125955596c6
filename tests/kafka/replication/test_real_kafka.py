"""The promises of acks=all hold on a real Kafka and in the model, under the same faults.

The model permits the leaders and in-sync replicas that the cluster had, in their order. The first leader is
broker 1.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import groupby

import pytest

from tests.support.drills.cluster import NODES, Cluster
from tests.support.drills.compared import in_the_model, permitted
from tests.support.drills.drill import Observed, run
from tests.support.drills.faults import Fault
from tests.support.drills.promises import broken, last_resorts, sent_again

SEEDS = 10


@pytest.fixture
def topic() -> str:
    return f"drill-{secrets.token_hex(4)}"


def story(observed: Observed) -> str:
    """Return the history and the records that were sent again, for a failure that comes once in many runs."""
    return "\n".join(str(entry) for entry in [*observed.history.entries, *sent_again(observed)])


def kept(observed: Observed) -> Observed:
    """Return the run if it kept every promise, all records were acknowledged and all brokers are in sync.

    The log has each record once, beside the copies that the producer itself sent again in a new epoch.
    """
    assert broken(observed) == [], story(observed)
    assert observed.errors == {}, story(observed)
    assert len(observed.log) - len(sent_again(observed)) == len(observed.sent), story(observed)
    assert observed.history.partition[-1].isr == set(NODES), story(observed)
    verdict = permitted(observed)
    assert verdict.permitted, f"{verdict.why}\n{story(observed)}"
    return observed


def same_in_the_model(faults: Sequence[Fault]) -> Sequence[Fault]:
    """The schedule, for the cluster as well: in the model no invariant fails under it, whatever the seed."""
    for seed in range(SEEDS):
        history = in_the_model(faults, seed).world.history
        assert (history.violated, history.expected_losses) == (None, ()), f"seed {seed}: {history.what}"
    return faults


def leaders(observed: Observed) -> list[int]:
    """Run the schedules one after the other."""
    return [leader for leader, _ in groupby(seen.leader for seen in observed.history.partition)]


@pytest.mark.nightly  # the model itself is tested without brokers
def test_a_leader_that_is_killed_and_comes_back_loses_nothing(cluster: Cluster, topic: str):
    observed = kept(
        run(cluster, topic, same_in_the_model([Fault(1000, "crash", 1), Fault(5500, "restart", 1)]), seconds=8)
    )
    assert leaders(observed)[:2] in ([1, 2], [1, 3])


@pytest.mark.nightly
def test_a_follower_that_stands_still_leaves_the_isr_and_comes_back_to_it(cluster: Cluster, topic: str):
    observed = kept(
        run(cluster, topic, same_in_the_model([Fault(1000, "pause", 3), Fault(6000, "resume", 3)]), seconds=8)
    )
    assert any(3 not in seen.isr for seen in observed.history.partition)


@pytest.mark.nightly  # another schedule of faults against the same promise
def test_a_leader_that_wakes_up_deposed_writes_nothing_that_others_lack(cluster: Cluster, topic: str):
    observed = kept(
        run(cluster, topic, same_in_the_model([Fault(1000, "pause", 1), Fault(7000, "resume", 1)]), seconds=9)
    )
    assert leaders(observed)[:2] in ([1, 2], [1, 3])
    fenced = [entry.what for entry in observed.history.brokers if entry.broker == 1]
    assert fenced[:2] == ["fenced", "unfenced"]


@pytest.mark.nightly
def test_with_two_brokers_killed_what_was_acknowledged_stays(cluster: Cluster, topic: str):
    schedule = [
        Fault(1000, "crash", 1),
        Fault(5500, "crash", 2),
        Fault(9500, "restart", 2),
        Fault(10000, "restart", 1),
    ]
    observed = kept(run(cluster, topic, same_in_the_model(schedule), seconds=12))
    alone = next(seen for seen in observed.history.partition if len(seen.isr) == 1)
    assert len(alone.elr) == 1
    assert last_resorts(observed.history) == []


@pytest.mark.nightly  # another schedule of faults against the same promise
def test_with_all_brokers_killed_at_once_the_last_leader_comes_back_with_all_that_was_acknowledged(
    cluster: Cluster, topic: str
):
    # They come back when their sessions are over, and all of them are known to be away.
    schedule = [Fault(1000, "crash", node) for node in NODES] + [Fault(5500, "restart", node) for node in NODES]
    observed = kept(run(cluster, topic, same_in_the_model(schedule), seconds=8))
    # Each of them ended uncleanly, so none is in sync or eligible when it is back.
    assert [seen.isr for seen in last_resorts(observed.history)] == [{leaders(observed)[-1]}], story(observed)


@pytest.mark.nightly
def test_brokers_that_register_before_they_are_given_up_lose_nothing(cluster: Cluster, topic: str):
    schedule = [Fault(1000, "crash", node) for node in NODES] + [Fault(1100, "restart", node) for node in NODES]
    kept(run(cluster, topic, same_in_the_model(schedule), seconds=8))
