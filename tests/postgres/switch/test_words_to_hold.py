"""When a client's word that it holds counts, and when it does no longer."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from backend.domain.switch.cluster_switch import Phase
from backend.domain.switch.switch_commands import OPERATOR, Abort
from backend.queries.switch import switch_progress
from backend.queries.switch.discovery_clients import discovery_clients
from tests.postgres.switch.test_discovery import MOVED, discover, start, switched, to
from tests.support.api.rest import Rest

P = {"client_id": "p", "role": "producer"}
K = {"client_id": "k", "role": "consumer"}
CLOSING = (to(Phase.HOLDING), to(Phase.DRAINING), to(Phase.CLOSING))


def begun(rest: Rest, switch: str, *more: Any, **changed: Any) -> None:
    switched(rest, replace(start(), switch=switch, **changed), to(Phase.HOLDING), *more, switch=switch)


def waiting(rest: Rest, switch: str) -> list[str]:
    return [each["client_id"] for each in rest("GET", f"/switches/{switch}").json()["now"]["waiting_for"]]


def test_who_was_told_that_it_may_go_on_is_asked_again_by_the_next_switch(tenant: Rest) -> None:
    begun(tenant, "s0")
    assert discover(tenant, **P, generation=1, phase="held").json()["phase"] == "hold"
    assert waiting(tenant, "s0") == []
    switched(tenant, Abort(by=OPERATOR), switch="s0")
    assert discover(tenant, **P, generation=1, phase="held").json()["phase"] == "active"
    begun(tenant, "s1")
    assert waiting(tenant, "s1") == ["p"], "it has gone on, as it was told"
    assert discover(tenant, **P, generation=1, phase="held").json()["phase"] == "hold"
    assert waiting(tenant, "s1") == []


def test_a_consumer_that_may_go_on_since_the_hold_began_again_is_asked_again(tenant: Rest) -> None:
    begun(tenant, "s1", to(Phase.DRAINING), to(Phase.CLOSING))
    discover(tenant, **K, generation=1, phase="closed")
    assert waiting(tenant, "s1") == []
    switched(tenant, to(Phase.HOLDING))
    assert discover(tenant, **K, generation=1, phase="closed").json()["phase"] == "active"
    switched(tenant, *CLOSING[1:])
    assert waiting(tenant, "s1") == ["k"]


def test_who_was_not_heard_of_since_is_believed(tenant: Rest) -> None:
    """The client received no answer, so it holds until its promise ends by itself."""
    begun(tenant, "s0")
    discover(tenant, **P, generation=1, phase="held")
    switched(tenant, Abort(by=OPERATOR), switch="s0")
    begun(tenant, "s1")
    assert waiting(tenant, "s1") == []


def test_to_have_held_in_a_generation_that_was_left_is_no_word_to_hold_in_the_present_one(tenant: Rest) -> None:
    begun(tenant, "s1", *CLOSING[1:])
    discover(tenant, **P, generation=1, phase="held")
    switched(tenant, *MOVED[-2:])
    answer = discover(tenant, **P, generation=1, phase="held").json()
    assert (answer["phase"], answer["generation"]) == ("active", 2)
    begun(tenant, "s2", source="c2", target="c1", generation=3)
    assert waiting(tenant, "s2") == ["p"]
    discover(tenant, **P, generation=2, phase="held")
    assert waiting(tenant, "s2") == []


def test_who_heard_of_a_move_too_late_keeps_its_word_while_it_waits(tenant: Rest) -> None:
    discover(tenant, **P, generation=1)
    begun(tenant, "s1", *CLOSING[1:], *MOVED[-2:])
    for _ in range(2):
        assert discover(tenant, **P, generation=1, phase="held").json()["generation"] == 2
        with tenant.client.app.state.services.engine.connect() as connection:  # type: ignore[attr-defined]
            (row,) = connection.execute(sa.select(discovery_clients.c.phase, discovery_clients.c.still_since))
        assert row.phase == "held" and row.still_since is not None


def test_a_hold_counts_from_when_clients_were_told_last(tenant: Rest) -> None:
    """The process that began the hold may have died before any client was notified."""
    engine = tenant.client.app.state.services.engine  # type: ignore[attr-defined]
    with engine.begin() as connection:
        switch_progress.begin_hold(connection, "s1")
        connection.exec_driver_sql("UPDATE switch_progress SET held_at = held_at - interval '1 hour'")
        assert switch_progress.held_ms(connection, "s1") >= 3_600_000
        switch_progress.begin_hold(connection, "s1")
        time.sleep(0.01)
        assert 0 < switch_progress.held_ms(connection, "s1") < 3_600_000
