"""Emergency switches: a cluster stops while applications run, clients are moved without it, and it comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from bench.switch.checker import key_of
from tests.eventually import eventually
from tests.faults.five.test_switches import API, DATABASE, NEW, OLD, WORKER, tenant
from tests.faults.runs import Place
from tests.support.estate.applications import Applications, ByHand, Tenant
from tests.support.kafka.topics import produce

__all__ = ["tenant"]

BROKERS = tuple(f"kafka:{OLD}:{number}" for number in (1, 2, 3))
STRANDED = 40


@contextmanager
def alone(place: Place) -> Iterator[None]:
    """Keep all records on the old cluster in the meantime."""
    levels = [row["level"] for row in place.distributors() if row["cluster"] == OLD]
    for level in levels:
        place.pause(OLD, level)
    rest = {(OLD, level) for level in levels}
    eventually(lambda: rest <= paused(place), "its distributors have stopped", 0.2)
    try:
        yield
    finally:
        for level in levels:
            place.resume(OLD, level)


def paused(place: Place) -> set[tuple[str, int]]:
    return {(row["cluster"], row["level"]) for row in place.distributors() if row["state"] == "paused"}


class Struck:
    """An old cluster that holds unreplicated records and does not answer any more."""

    def __init__(self, place: Place, tenant: Tenant, applications: Applications) -> None:
        self.place, self.tenant, self.applications = place, tenant, applications
        ids = [f"by-hand:{number}" for number in range(STRANDED)]
        produce(place.servers[OLD], tenant.topic(OLD), [{"key": key_of(i)[0], "value": i} for i in ids])
        for one in ids:
            applications.acknowledged(one)
        for broker in BROKERS:
            place.stop(place.pid(broker))

    def leave(self) -> str:
        """Order the switch and return its id."""
        body = self.tenant.wish(OLD, NEW, mode="emergency")
        row: dict[str, Any] = self.place._ask("POST", "/switches", body)
        assert self.tenant.active() == (NEW, 2), "the command itself moves clients"
        return str(row["id"])

    def come_back(self) -> None:
        for broker in BROKERS:
            self.place.go_on(self.place.pid(broker))

    def arrived(self, switch: str) -> dict[str, Any]:
        """Return the report on late records, once they have arrived."""
        path = f"/switches/{switch}"
        row = eventually(
            lambda: found if (found := self.place._ask("GET", path))["stranded_arrived"] else None,
            "what was stranded has arrived",
            0.5,
        )
        late: dict[str, Any] = row["stranded_arrived"]
        assert late["lost"] == [], late
        first = {(each["stream"], each["partition"]): each["first"] for each in row["report"]["stranded"]}
        came = {(stream, partition): begin for stream, partition, begin, _ in late["partitions"]}
        assert came == first, "just what the report says"
        assert late["records"] >= STRANDED, late
        return late


@pytest.mark.nightly  # what is stranded, in parts, is in switches/test_stranded
def test_what_was_stranded_comes_once_although_the_worker_is_killed_meanwhile(place: Place, tenant: Tenant):
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant, producers=1, groups=1))
        with alone(place):
            struck = Struck(place, tenant, applications)
            switch = struck.leave()
            row = tenant.over(switch)
            assert row["state"] == "completed", row
            assert row["report"]["late_clients"] == [] and row["report"]["clients_moved"] == 2, row
            applications.all_read()
            place.kill(WORKER)
        struck.come_back()
        struck.arrived(switch)
        applications.finish(OLD, NEW, emergency=True)
    assert applications.histories.stood == {1: {OLD}, 2: {NEW}}


@pytest.mark.nightly
@pytest.mark.parametrize("victim", [API, WORKER, DATABASE])
def test_the_control_plane_is_killed_while_clients_are_looked_for(place: Place, tenant: Tenant, victim: str):
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant))
        behind = closed.enter_context(ByHand(tenant, "by-hand-producer"))
        with alone(place):
            struck = Struck(place, tenant, applications)
            switch = struck.leave()
            place.kill(victim)
            behind.tell(phase="active", generation=2)
            row = tenant.over(switch)
            assert row["state"] == "completed", row
            assert row["report"]["late_clients"] == [], row
            applications.all_read()
        struck.come_back()
        struck.arrived(switch)
        applications.finish(OLD, NEW, emergency=True)
    assert applications.histories.stood == {1: {OLD}, 2: {NEW}}


@pytest.mark.nightly
def test_the_cluster_comes_back_while_nobody_waits_for_it(place: Place, tenant: Tenant):
    """Check records that are distributed while the worker that looks for them is stopped."""
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant))
        with alone(place):
            struck = Struck(place, tenant, applications)
            switch = struck.leave()
            assert tenant.over(switch)["state"] == "completed"
            worker = place.pid(WORKER)
            place.stop(worker)
        struck.come_back()
        place.go_on(worker)
        struck.arrived(switch)
        applications.finish(OLD, NEW, emergency=True)
