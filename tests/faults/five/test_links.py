"""Network faults between workers and clusters: cut one way or both, refusing, flapping, slow; nothing is lost.

A cluster's link carries its producers' records too, as that of a data centre would.
"""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.faults.history import Outcome
from tests.faults.runs import Run, passed
from tests.support.kafka.topics import read_from_zero

MIXED, REST = "one way, flapping and slow", "the other way, both ways and refused"
FAULTS = {
    MIXED: [
        ("cluster-5", "cut", {"direction": "to_client"}),
        ("cluster-2", "flap", {"up_ms": 700, "down_ms": 500}),
        ("cluster-4", "delay", {"delay_ms": 150}),
    ],
    REST: [
        ("cluster-4", "cut", {"direction": "to_broker"}),
        ("cluster-3", "cut", {"direction": "both"}),
        ("cluster-1", "refuse", {}),
    ],
}


@pytest.mark.parametrize(
    "faults", [FAULTS[MIXED], pytest.param(FAULTS[REST], marks=pytest.mark.nightly)], ids=[MIXED, REST]
)
@pytest.mark.nightly
def test_links_fail_for_a_while_and_heal(place, faults):
    with Run(place) as run:
        run.flow(1)
        for cluster, action, details in faults:
            place.link(action, cluster, **details)
        run.flow(5)
    passed(run)


@pytest.mark.nightly
def test_a_slow_cluster_and_one_that_cannot_be_reached_hold_up_nobody_else(place):
    """Check that the other four notice nothing: no route of the default tree passes cluster-3."""
    with Run(place) as run:
        place.link("delay", "cluster-3", delay_ms=400)
        run.flow(2)
        place.link("cut", "cluster-3", direction="to_broker")
        run.flow(2)
        others = [member for member in run.fleet.members if member.name != "cluster-3"]
        sent = {
            (member.name, sequence)
            for member in others
            for sequence, send in enumerate(run.history.sends[member.name])
            if send.outcome is Outcome.OK
        }
        assert len(sent) > 500

        def on_all_others():
            return all(sent <= arrived(run, member) for member in others)

        eventually(on_all_others, "what the others sent is on all of them, while cluster-3 is still away", 0.5)
    passed(run)


def arrived(run, member):
    """Return the records of the run on a cluster, as (origin cluster, number there)."""
    marks = map(run.history.mark, read_from_zero(member.bootstrap_servers, member.topic))
    return {(mark.cluster, mark.sequence) for mark in marks if mark is not None}


@pytest.mark.nightly
@pytest.mark.parametrize("direction", ["both", "to_client", "to_broker"])
def test_a_link_is_cut_for_longer_than_any_timeout(place, direction):
    with Run(place) as run:
        run.flow(1)
        place.link("cut", "cluster-3", direction=direction)
        run.flow(50)
    passed(run)
