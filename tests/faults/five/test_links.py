"""The network between workers and clusters is cut, one way or both, refuses, flaps, is slow: nothing is lost.

A cluster's link carries the producers of its records too, as a data centre's would.
"""

from __future__ import annotations

import pytest

from tests.faults.runs import Run, passed

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
def test_links_fail_for_a_while_and_heal(place, faults):
    with Run(place) as run:
        run.flow(1)
        for cluster, action, details in faults:
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
