"""A switch that runs in this process: what its phases wait for, also while the database is away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from backend.cluster_requests.offset_lock import setting_offsets
from backend.dispatch import Dispatcher
from backend.domain.switch.cluster_switch import ALL_LEAVES, EMERGENCY, NEAR_RECORDS, Phase, Retarget
from backend.eventlog.engine import create_engine
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.queries.switch import switch_progress
from backend.queries.switch.switches import find_switch
from tests.eventually import eventually
from tests.faults.step import StoppedStep
from tests.kafka.switch.by_hand import ByHand
from tests.kafka.switch.test_closing import stands
from tests.postgres.switch.test_discovery import discover, start, switched
from workers import context
from workers.switches.runner import SwitchRunner


@pytest.fixture
def carried_out(hand: ByHand, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Return a function that starts a runner for switch s1, which runs until the switch or the test ends."""
    engine = create_engine(hand.database.url)
    dispatcher = Dispatcher(engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: dispatcher)
    go_on = True
    threads: list[threading.Thread] = []

    def begin() -> None:
        runner = SwitchRunner(engine, hand.settings, "s1", lambda _switch: go_on)
        threads.append(threading.Thread(target=runner.run))
        threads[-1].start()

    yield begin
    go_on = False
    for thread in threads:
        thread.join()
    engine.dispose()


def state(hand: ByHand) -> Phase:
    with hand.database.engine.connect() as connection:
        return find_switch(connection, "s1").state


def are_moved(hand: ByHand) -> bool:
    """Return whether clients were moved; fail if the switch has ended otherwise."""
    with hand.database.engine.connect() as connection:
        row = find_switch(connection, "s1")
    assert row.state not in (Phase.ABORTED, Phase.FAILED), row.reason
    return row.state in (Phase.VERIFYING, Phase.COMPLETED)


def told(hand: ByHand) -> dict[str, Any]:
    with hand.database.engine.connect() as connection:
        return switch_progress.read(connection, "s1") or {}


def has_looked_twice(hand: ByHand) -> None:
    """Wait for two observations, after which everything is opened and read."""
    for _ in range(2):
        with hand.database.engine.begin() as connection:
            switch_progress.write(connection, "s1", {})
        eventually(lambda: "clients" in told(hand), "a look")


def test_what_came_before_the_hold_is_waited_for_though_the_database_left_while_it_was_measured(
    hand: ByHand, carried_out: Callable[[], None]
):
    discover(hand.rest, client_id="p", role="producer", generation=1)
    switched(hand.rest, start(source=hand.name("a"), target=hand.name("c")))
    carried_out()
    eventually(lambda: state(hand) is Phase.HOLDING, "clients are to hold")
    has_looked_twice(hand)
    hand.produce("a", 5)
    # The estate has changed: it is read again where log ends are read.
    assert hand.rest("POST", "/tenants", {"name": "other"}).status_code == 201
    with (
        StoppedStep(hand.database.url, "SwitchAdvanced", "draining") as step,
        hand.database.owner.connect() as locking,
        hand.database.owner.connect() as killing,
    ):
        discover(hand.rest, client_id="p", role="producer", generation=1, phase="held")
        step.reached()
        locking.exec_driver_sql("LOCK TABLE leaf_routes IN ACCESS EXCLUSIVE MODE")
        step.let_go()
        asked = "SELECT pid FROM pg_locks WHERE relation = 'leaf_routes'::regclass AND NOT granted"
        pid = eventually(lambda: killing.exec_driver_sql(asked).scalar(), "it measures")
        assert state(hand) is Phase.DRAINING
        killing.exec_driver_sql(f"SELECT pg_terminate_backend({pid})")
        locking.rollback()
    eventually(lambda: state(hand) is not Phase.DRAINING or "missing_records" in told(hand), "it goes on")
    assert (state(hand), told(hand).get("missing_records")) == (Phase.DRAINING, 5)
    assert [(each["target"], each["missing_records"]) for each in told(hand)["lacking"]] == [(hand.name("c"), 5)]
    assert told(hand)["left"] == 1
    hand.copy(("a", 2), ("b", 1))
    eventually(lambda: are_moved(hand), "clients are moved")
    assert hand.values("c") == hand.values("a")


def test_a_consumer_that_opened_and_closed_again_while_offsets_were_carried_over_is_carried_over_once_more(
    hand: ByHand, carried_out: Callable[[], None]
):
    def tells(phase: str, generation: int = 1) -> None:
        discover(hand.rest, client_id="k", role="consumer", generation=generation, phase=phase)

    hand.produce("a", 30)
    hand.copy(("a", 2), ("b", 1))
    hand.commit("a", "g", 10)
    tells("active")
    switched(hand.rest, start(source=hand.name("a"), target=hand.name("c")))
    with setting_offsets(hand.database.engine, hand.name("c")):  # makes the runner wait in the middle
        carried_out()
        eventually(lambda: state(hand) is Phase.CLOSING, "consumers are to close")
        tells("closed")
        waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        with hand.database.owner.connect() as looking:
            eventually(lambda: looking.exec_driver_sql(waits).scalar(), "offsets are about to be set")
        tells("active")
        hand.commit("a", "g", 25)
        tells("closed")
    eventually(lambda: are_moved(hand), "clients are moved")
    tells("active", 2)
    (source, _), (target, _) = (stands(hand, letter, "g") for letter in ("a", "c"))
    assert source == 25
    assert hand.values("c")[target] == hand.values("a")[25]


def test_nobody_is_held_before_the_target_has_come_near(hand: ByHand, carried_out: Callable[[], None]):
    hand.produce("a", NEAR_RECORDS + 1)
    switched(hand.rest, start(source=hand.name("a"), target=hand.name("c")))
    carried_out()
    eventually(lambda: "left" in told(hand), "it says what the target lacks")
    assert (state(hand), told(hand)["missing_records"]) == (Phase.PLANNED, NEAR_RECORDS + 1)


def test_all_leaves_are_waited_for_where_the_operator_asked_for_that(
    hand: ByHand, carried_out: Callable[[], None]
):
    """The target may have all the source's records before the other leaves do."""
    hand.produce("a", 5)
    hand.copy(("a", 2))
    switched(hand.rest, replace(start(source=hand.name("a"), target=hand.name("b")), drain=ALL_LEAVES))
    carried_out()
    eventually(lambda: "left" in told(hand) or are_moved(hand), "it says what is still to come")
    assert [(each["target"], each["missing_records"]) for each in told(hand)["lacking"]] == [(hand.name("c"), 5)]
    hand.copy(("b", 1))
    eventually(lambda: are_moved(hand), "clients are moved")


def test_a_hold_that_lasts_too_long_is_taken_back(hand: ByHand, carried_out: Callable[[], None]):
    discover(hand.rest, client_id="p", role="producer", generation=1)
    switched(hand.rest, start(source=hand.name("a"), target=hand.name("c")))
    carried_out()
    eventually(lambda: state(hand) is Phase.HOLDING, "clients are to hold")
    with hand.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE switch_progress SET held_at = held_at - interval '1 hour'")
    eventually(lambda: state(hand) is Phase.FAILED, "it is taken back")
    with hand.database.engine.connect() as connection:
        reason = find_switch(connection, "s1").reason
    assert reason == "clients were held for 600 s, the maximum, while the switch was waiting for p"
    answer = discover(hand.rest, client_id="p", role="producer", generation=1).json()
    assert (answer["cluster"], answer["generation"], answer["phase"]) == (hand.name("a"), 1, "active")


def test_an_emergency_leaves_no_distributor_that_copies_to_the_cluster_that_is_gone(
    hand: ByHand, carried_out: Callable[[], None]
):
    a, b, c = (hand.name(letter) for letter in ("a", "b", "c"))

    def target() -> str:
        rows = hand.rest("GET", "/trees/main/distributors").json()
        found: str = next(row["target"] for row in rows if (row["cluster"], row["level"]) == (a, 2))
        return found

    assert target() == b
    changed = (Retarget(cluster=a, level=2, target=c, previous=b),)
    switched(hand.rest, replace(start(source=b, target=a), mode=EMERGENCY, retargets=changed))
    carried_out()
    eventually(lambda: "late" in told(hand), "clients are looked for")
    assert target() == c, "nothing is copied to what is gone"
