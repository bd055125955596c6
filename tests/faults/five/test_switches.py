"""The control plane is killed in each phase of a switch, and stops answering, while applications run.

A phase lasts because a client, a distributor, a batch or the event behind it waits for the test, so the kill comes
in the middle of it; only `verifying` ends by itself. Each switch must complete: clients hold for no longer than
the control plane takes to come back, and clients that continue in between, after their hold has expired, make
the hold start again. `failed` would be right only after a minute of holding, in which none of these is still away.
PostgreSQL is ended by SIGQUIT, its immediate shutdown: as after a crash, it recovers from its log.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.eventually import eventually
from tests.faults.runs import Place
from tests.faults.step import StoppedStep, running_batch
from tests.support.estate.applications import Applications, ByHand, Tenant
from tests.support.kafka.topics import produce

# After the other faults of this folder the estate may take minutes to recover, which a normal run does not have.
pytestmark = pytest.mark.nightly

OLD, NEW = "cluster-1", "cluster-5"
API, WORKER, DATABASE = "api", "worker:control", "postgres"
PHASES = ("planned", "holding", "draining", "closing", "moving", "verifying")


@pytest.fixture
def tenant(place: Place) -> Iterator[Tenant]:
    begin_on_old(place)
    status = place.estate.status()
    one = Tenant(
        name=f"t{secrets.token_hex(3)}",
        ask=place._ask,
        url=status["control_plane"],
        token=status["admin_token"],
        servers=place.servers,
    ).make("margin")
    eventually(one.is_there, "its stream is on all clusters", 0.2)
    yield one
    place.heal()
    one.delete()


def begin_on_old(place: Place) -> None:
    """Make the old cluster the primary, where new environments are active; an earlier test may have moved it."""

    def is_primary() -> bool:
        return bool(place._ask("GET", "/trees/main", None)["primary_cluster"] == OLD)

    if not is_primary():
        place._ask("PUT", "/trees/main/primary", {"cluster": OLD})
        eventually(is_primary, f"{OLD} is the primary", 0.2)


def on_the_way(place: Place) -> tuple[str, int]:
    """Return the distributor that copies records of the old cluster towards the new one."""
    rows = place.distributors()
    level = max(row["level"] for row in rows if row["cluster"] == OLD)
    return OLD, level


def paused(place: Place, distributor: tuple[str, int]) -> bool:
    row = next(row for row in place.distributors() if (row["cluster"], row["level"]) == distributor)
    return row["state"] == "paused" and row["lag_records"] is not None


class Reached:
    """Leads a switch into a phase and keeps it there until it is released."""

    def __init__(self, place: Place, tenant: Tenant, applications: Applications, closed: ExitStack) -> None:
        self.place, self.tenant, self.applications, self.closed = place, tenant, applications, closed
        self.switch = ""
        self.made: list[ByHand] = []

    def start(self) -> str:
        self.switch = self.tenant.start(OLD, NEW)["id"]
        return self.switch

    def by_hand(self, role: str = "producer") -> ByHand:
        self.made.append(self.closed.enter_context(ByHand(self.tenant, f"by-hand-{role}", role)))
        return self.made[-1]

    def follow(self) -> None:
        """Let the test's own clients follow discovery, once it is known where they are sent."""
        self.tenant.until(self.switch, "clients are moved", lambda row: row["state"] in ("verifying", "completed"))
        for each in self.made:
            each.tell(phase="active", generation=2)

    def planned(self) -> Callable[[], object]:
        batch = self.closed.enter_context(ExitStack())
        batch.enter_context(running_batch(self.place))
        self.tenant.about_to_hold(self.start())
        return batch.close

    def holding(self) -> Callable[[], object]:
        stubborn = self.by_hand()
        self.tenant.in_phase(self.start(), "holding", stubborn.name)
        return lambda: stubborn.tell(phase="held")

    def draining(self) -> Callable[[], object]:
        stubborn, distributor = self.by_hand(), on_the_way(self.place)
        self.tenant.in_phase(self.start(), "holding", stubborn.name)
        self.place.pause(*distributor)
        self.closed.callback(self.place.resume, *distributor)
        eventually(lambda: paused(self.place, distributor), "it has stopped", 0.2)
        # The last client to hold has written a record that waits at the distributor.
        produce(self.place.servers[OLD], self.tenant.topic(OLD), [{"key": b"by-hand-0", "value": b"by-hand:0"}])
        self.applications.acknowledged("by-hand:0")
        stubborn.tell(phase="held")
        self.tenant.in_phase(self.switch, "draining")
        return lambda: self.place.resume(*distributor)

    def closing(self) -> Callable[[], object]:
        stubborn = self.by_hand("consumer")
        self.tenant.in_phase(self.start(), "closing", stubborn.name)
        return lambda: stubborn.tell(phase="closed")

    def moving(self) -> Callable[[], object]:
        step = self.closed.enter_context(StoppedStep(self.place.owner_url(), "ClientsMoved"))
        self.start()
        step.reached()
        return step.let_go

    def verifying(self) -> Callable[[], object]:
        self.by_hand().tell(phase="held")
        self.tenant.until(self.start(), "clients are moved", lambda row: row["state"] == "verifying")
        return lambda: None


@pytest.mark.parametrize(
    ("victim", "phase"),
    [(victim, phase) for victim in (API, WORKER, DATABASE) for phase in PHASES],
)
def test_the_control_plane_is_killed_in_a_phase(place: Place, tenant: Tenant, victim: str, phase: str):
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant))
        reached = Reached(place, tenant, applications, closed)
        let_go = getattr(reached, phase)()
        place.kill(victim)
        let_go()
        reached.follow()
        row = tenant.over(reached.switch)
        assert row["state"] == "completed", row
        # Clients that cannot reach discovery continue on their cluster after their hold has expired.
        well_reported(row, strays=(victim, phase) == (API, "moving"))
        assert tenant.active() == (NEW, 2)
        # All of them have followed, and write and read there; the report lists every re-read record.
        applications.all_read()
        applications.finish(OLD, NEW, again=row["report"]["re_read_bound"])
    assert applications.switches == [1, 1, 1, 1]
    assert applications.histories.stood == {1: {OLD}, 2: {NEW}}


def well_reported(row: dict[str, Any], *, strays: bool = False, groups: int | None = 2) -> None:
    """Checks the figures that no kill may change.

    `strays`: the cluster that was left may have been written to. `groups`: how many the switch carries over; None
    where groups of earlier tests move along.
    """
    report = row["report"]
    # Only records are re-read that were read on the old cluster while discovery was unreachable.
    read_on = sum(each["records"] for each in report["read_on"])
    assert (report["not_drained_records"], report["re_read_bound"]) == (0, read_on), report
    assert report["refused_groups"] == [] and groups in (None, report["groups"]), report
    assert strays or (report["stray_records"], read_on) == (0, 0), report
    assert (report["forced_clients"], report["late_clients"]) == ([], []), report


@pytest.mark.nightly
@pytest.mark.parametrize("kills", [(API, WORKER, DATABASE), (WORKER, WORKER, WORKER)])
def test_it_is_killed_again_and_again(place: Place, tenant: Tenant, kills: tuple[str, ...]):
    """The kills hit holding, closing and verifying of the same switch."""
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant))
        reached = Reached(place, tenant, applications, closed)
        consumer = reached.by_hand("consumer")
        let_go = reached.holding()
        place.kill(kills[0])
        let_go()
        tenant.in_phase(reached.switch, "closing", consumer.name)
        place.kill(kills[1])
        consumer.tell(phase="closed")
        tenant.until(reached.switch, "clients are moved", lambda row: row["state"] == "verifying")
        place.kill(kills[2])
        reached.follow()
        row = tenant.over(reached.switch)
        assert row["state"] == "completed", row
        well_reported(row)
        applications.all_read()
        applications.finish(OLD, NEW)
    assert applications.histories.stood == {1: {OLD}, 2: {NEW}}


@pytest.mark.nightly
def test_clients_that_are_held_by_a_control_plane_that_hangs_go_on_and_are_not_moved(place: Place, tenant: Tenant):
    """API and worker are stopped; once they are back, the switch waits until all clients hold again."""
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant))
        reached = Reached(place, tenant, applications, closed)
        let_go = reached.holding()
        for name in (API, WORKER):
            place.stop(place.pid(name))
        # They continue by themselves, as only the records can tell.
        applications.all_read()
        for name in (WORKER, API):
            place.go_on(place.pid(name))
        assert tenant.active() == (OLD, 1)
        let_go()
        reached.follow()
        row = tenant.over(reached.switch)
        assert row["state"] == "completed", row
        well_reported(row)
        applications.all_read()
        applications.finish(OLD, NEW)
    assert applications.histories.stood == {1: {OLD}, 2: {NEW}}


def neighbours(place: Place) -> tuple[str, str]:
    """Return a leaf that records of the old cluster are copied to, and the one that can take its place."""
    leaving = next(
        row["target"] for row in place.distributors() if (row["cluster"], row["level"]) == on_the_way(place)
    )
    return leaving, next(name for name in ("cluster-2", "cluster-3") if name != leaving)


def leave_whole(place: Place, tenant: Tenant, leaving: str, other: str) -> str:
    """Start the switch that moves all clients off a cluster, the tenant's included."""
    body = {"from": leaving, "to": other}
    plan = place._ask("POST", "/switches/plan", body)
    assert tenant.name in [each["tenant"] for each in plan["moves"]], "with all that other tests have left there"
    row = place._ask("POST", "/switches", {**body, "plan_digest": plan["digest"]})
    return str(row["id"])


def test_a_whole_cluster_is_left_and_its_targets_come_back(place: Place, tenant: Tenant):
    """Distributors that copied to the cluster get another leaf with the move; `reverse` restores both."""
    leaving, other = neighbours(place)
    before = targets(place)
    with Applications(tenant, groups=1) as applications:
        assert tenant.over(tenant.start(OLD, leaving)["id"])["state"] == "completed"
        switch = leave_whole(place, tenant, leaving, other)
        row = tenant.over(switch)
        assert row["state"] == "completed", row
        changed = {(each["cluster"], each["level"]): each["target"] for each in row["retargets"]}
        assert changed and leaving not in changed.values()
        assert targets(place) == {**before, **changed}
        assert tenant.active() == (other, row["generation"])
        back = tenant.over(tenant.reverse(row)["id"])
        assert back["state"] == "completed", back
        assert targets(place) == before
        applications.all_read()
        applications.finish(OLD, leaving, other)
    # Environments of earlier tests move as well, and have had more generations.
    there, again = row["generation"], back["generation"]
    assert applications.histories.stood == {1: {OLD}, 2: {leaving}, there: {other}, again: {leaving}}


@pytest.mark.parametrize("victim", [API, WORKER, DATABASE])
def test_the_control_plane_is_killed_while_distributors_get_other_targets(
    place: Place, tenant: Tenant, victim: str
):
    leaving, other = neighbours(place)
    before = targets(place)
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant, groups=1))
        assert tenant.over(tenant.start(OLD, leaving)["id"])["state"] == "completed"
        step = closed.enter_context(StoppedStep(place.owner_url(), "SwitchAdvanced", "moving"))
        switch = leave_whole(place, tenant, leaving, other)
        step.reached()
        assert place._ask("GET", f"/switches/{switch}")["state"] == "retargeting"
        place.kill(victim)
        step.let_go()
        row = tenant.over(switch)
        assert row["state"] == "completed", row
        changed = {(each["cluster"], each["level"]): each["target"] for each in row["retargets"]}
        assert changed and targets(place) == {**before, **changed}
        # Where the API is away for longer than clients promise to hold, they go on at the cluster that is left.
        well_reported(row, strays=victim == API, groups=None)
        assert tenant.active() == (other, row["generation"])
        back = tenant.over(tenant.reverse(row)["id"])
        assert back["state"] == "completed" and targets(place) == before, back
        applications.all_read()
        applications.finish(OLD, leaving, other, again=row["report"]["re_read_bound"])
    # What earlier tests have left there moves along, and has had more generations.
    there, again = row["generation"], back["generation"]
    assert applications.histories.stood == {1: {OLD}, 2: {leaving}, there: {other}, again: {leaving}}


def targets(place: Place) -> dict[tuple[str, int], str]:
    return {(row["cluster"], row["level"]): row["target"] for row in place.distributors()}
