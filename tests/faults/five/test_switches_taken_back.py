"""Switches that are aborted after a kill, outlast the time that clients may be held, or are missed by clients."""

from __future__ import annotations

import time
from contextlib import ExitStack

import psycopg
import pytest

from backend.settings import Settings
from tests.eventually import eventually
from tests.faults.five.test_switches import API, NEW, OLD, WORKER, Reached, neighbours, tenant
from tests.faults.runs import Place
from tests.support.estate.applications import Applications, Tenant

__all__ = ["tenant"]
# Same values as in test_switches.
pytestmark = pytest.mark.nightly

HOLD_SECONDS = Settings().switch_hold_seconds


def state(place: Place, switch: str) -> str:
    """Return the state in the database, since the API is down for a while."""
    with psycopg.connect(place.database_url().replace("+psycopg", "")) as connection:
        query = "SELECT state FROM switches WHERE id = %s AND valid_to IS NULL"
        row = connection.execute(query, [switch]).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize(
    ("victim", "phase"),
    [(WORKER, "holding"), (WORKER, "draining"), (WORKER, "closing"), (WORKER, "moving"), (API, "closing")],
)
def test_it_is_aborted_after_a_kill(place: Place, tenant: Tenant, victim: str, phase: str):
    """Abort at once, perhaps before another process continues the switch."""
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant))
        reached = Reached(place, tenant, applications, closed)
        let_go = getattr(reached, phase)()
        place.kill(victim)
        if phase == "moving":
            let_go()  # what the dead worker had begun keeps everybody from appending
        row = place._ask("POST", f"/switches/{reached.switch}/abort")
        assert row["state"] == "aborted", row
        applications.all_read()
        assert tenant.active()[0] == OLD
        let_go()
        applications.finish(OLD)
    assert {cluster for stood in applications.histories.stood.values() for cluster in stood} == {OLD}


@pytest.mark.parametrize("phase", ["holding", "closing"])
@pytest.mark.parametrize("away", [(API,), (API, WORKER)], ids=["api", "api and worker"])
def test_nobody_can_be_told_anything_for_longer_than_clients_may_be_held(
    place: Place, tenant: Tenant, phase: str, away: tuple[str, ...]
):
    """Check that clients continue where they are; the process that continues the switch aborts it."""
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant))
        reached = Reached(place, tenant, applications, closed)
        let_go = getattr(reached, phase)()
        began = time.monotonic()
        for name in away:
            place.stop(place.pid(name))
        # Clients continue by themselves, which only the records can show.
        applications.all_read()
        eventually(lambda: time.monotonic() - began > HOLD_SECONDS, "too long for anybody to be held", 1)
        if WORKER not in away:
            eventually(lambda: state(place, reached.switch) == "failed", "it is taken back", 0.5)
        for name in away:
            place.go_on(place.pid(name))
        row = tenant.over(reached.switch)
        assert row["state"] == "failed", row
        assert "clients were held for 60 s" in row["reason"], row
        let_go()
        applications.all_read()
        assert tenant.active()[0] == OLD
        applications.finish(OLD)
    assert {cluster for stood in applications.histories.stood.values() for cluster in stood} == {OLD}


def late_producers(tenant: Tenant) -> int:
    """Return the number of producers that hold, and were heard a moment ago."""
    query = "&".join(f"{name}={value}" for name, value in tenant.place.items())
    rows = tenant.ask("GET", f"/discovery/clients?{query}", None)["items"]
    return sum(row["phase"] == "held" and row["generation"] == 1 and row["silent_ms"] < 5_000 for row in rows)


def test_nobody_can_hear_of_the_move_for_longer_than_a_word_to_hold_lasts(place: Place, tenant: Tenant):
    """Check clients that continue on the old cluster.

    Records written there are counted and precede those written afterwards, however long it takes; records read
    there, and then a second time, are in the report; nothing else goes wrong.
    """
    hop, _ = neighbours(place)
    with ExitStack() as closed:
        applications = closed.enter_context(Applications(tenant))
        reached = Reached(place, tenant, applications, closed)
        let_go = reached.moving()
        place.stop(place.pid(API))
        let_go()
        eventually(lambda: state(place, reached.switch) in ("verifying", "completed"), "they are moved", 0.2)
        # Records written from now on are not distributed far.
        place.link("cut", hop, direction="both")
        applications.all_read()
        place.go_on(place.pid(API))
        eventually(lambda: late_producers(tenant) == 2, "they have heard of it, and wait")
        place.heal()
        row = tenant.over(reached.switch)
        report = row["report"]
        assert (row["state"], report["not_drained_records"], report["late_clients"]) == ("completed", 0, []), row
        assert report["stray_records"] > 0 and report["read_on"], report
        applications.all_read()
        again = applications.finish(OLD, NEW, again=report["re_read_bound"])
        assert again > 0, report
    assert applications.histories.stood == {1: {OLD}, 2: {NEW}}
