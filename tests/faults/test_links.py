"""The network between workers and clusters is cut, one way or both, refuses, flaps, is slow: nothing is lost.

A cluster's link carries the producers of its records too, as a data centre's would.
"""

from __future__ import annotations

import pytest

from tests.faults.runs import Run, passed

CUTS = {
    "a target and source hears nothing and is not heard": ("cluster-3", "cut", {"direction": "both"}),
    "a target takes and does not answer": ("cluster-5", "cut", {"direction": "to_client"}),
    "nothing comes through to a target": ("cluster-4", "cut", {"direction": "to_broker"}),
    "three brokers refuse connections": ("cluster-1", "refuse", {}),
    "a link flaps": ("cluster-2", "flap", {"up_ms": 700, "down_ms": 500}),
    "a link is slow": ("cluster-4", "delay", {"delay_ms": 150}),
}


@pytest.mark.parametrize(("cluster", "action", "details"), CUTS.values(), ids=CUTS)
def test_a_link_fails_for_a_while_and_heals(place, cluster, action, details):
    with Run(place) as run:
        run.flow(1)
        place.link(action, cluster, **details)
        run.flow(5)
    passed(run)


@pytest.mark.nightly
@pytest.mark.parametrize("direction", ["both", "to_client", "to_broker"])
def test_a_link_is_cut_for_longer_than_any_timeout(place, direction):
    with Run(place) as run:
        run.flow(1)
        place.link("cut", "cluster-3", direction=direction)
        run.flow(50)
    passed(run)
