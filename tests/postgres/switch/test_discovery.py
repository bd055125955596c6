"""Discovery over HTTP: where clients are sent, what they tell of themselves, waiting, caching, refusals."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from backend import deciders
from backend.domain.switch.cluster_switch import Moving, Phase
from backend.domain.switch.switch_commands import Abort, Advance, Move, StartSwitch, SwitchCommand
from backend.eventlog.recorded import Metadata
from backend.queries.switch import discovery_clients
from tests.support.api.rest import TREE, Rest, problem

PROD = {"tenant": "acme", "instance": "retail", "environment": "prod"}


def discover(rest: Rest, **query: Any) -> Response:
    """The answer to a client of acme/retail/prod, which asks again as long as it is told to."""
    # On a machine that stood still for two seconds what a client told is refused, and not noted.
    while (answer := asked_once(rest, **query)).status_code == 503:
        assert "retry" in answer.text
    return answer


def asked_once(rest: Rest, **query: Any) -> Response:
    """The first answer to it."""
    path = "/discovery?" + "&".join(f"{name}={value}" for name, value in {**PROD, **query}.items())
    return rest("GET", path)


def switched(rest: Rest, *commands: SwitchCommand, switch: str = "s1") -> None:
    """Move a switch through its states as a runner does."""
    app: Any = rest.client.app  # type: ignore[attr-defined]
    for command in commands:
        app.state.services.dispatcher.execute(
            deciders.SWITCH,
            f"switch-{switch}",
            command,
            metadata=Metadata(actor="tests", request_id="tests"),
            time=datetime.now(UTC),
            answer=lambda _connection, _outcome: None,
        )


def start(source: str = "c1", target: str = "c2", generation: int = 2, zone: str | None = None) -> StartSwitch:
    """Return the clients of acme/retail/prod."""
    return StartSwitch(
        switch="s1",
        source=source,
        target=target,
        mode="planned",
        moves=(Moving(**PROD, zone=zone),),
        generation=generation,
        busy={},
    )


def to(phase: Phase) -> Advance:
    return Advance(phase=phase, measured={})


MOVED = (
    *(to(phase) for phase in (Phase.HOLDING, Phase.DRAINING, Phase.CLOSING, Phase.MOVING)),
    Move(measured={}, missing=()),
)


def test_an_environment_begins_on_the_primary(tenant: Rest) -> None:
    answer = discover(tenant)
    assert answer.status_code == 200
    assert answer.json() == {
        **PROD,
        "cluster": "c1",
        "bootstrap_servers": "127.0.0.1:9",
        "registry": "http://testserver/registries/c1",
        "formats": {
            "topic": "{tenant}-{instance}-{environment}-{topic}",
            "group": "{tenant}-{instance}-{environment}-{group}",
            "subject": "{tenant}-{instance}-{environment}-{topic}",
        },
        "generation": 1,
        "phase": "active",
        "ttl_ms": 10_000,
        "hold_ms": 15_000,
        "distributor_timeout_ms": 60_000,
        "distributor_distance": 2,
        "mode": None,
        "switch": None,
        "next": None,
        "arrived": False,
    }


def test_a_move_of_the_primary_moves_no_client(tenant: Rest) -> None:
    moved = tenant("PUT", "/trees/main/primary", {"cluster": "c2", "take_over": True})
    assert moved.status_code in (200, 202), moved.text
    assert discover(tenant).json()["cluster"] == "c1"


def test_a_cluster_that_leaves_the_tree_gives_its_clients_to_the_primary(tenant: Rest) -> None:
    switched(tenant, start(target="c3"), *MOVED)
    assert (discover(tenant).json()["cluster"], discover(tenant).json()["generation"]) == ("c3", 2)
    root = {"level": 1, "children": [*TREE["children"][:1], {"cluster": "c2"}]}
    assert tenant("PUT", "/trees/main", root).status_code == 200
    assert (discover(tenant).json()["cluster"], discover(tenant).json()["generation"]) == ("c1", 3)


def test_a_leaf_stays_while_clients_are_moved_from_it_or_to_it(tenant: Rest) -> None:
    switched(tenant, start(target="c3"), to(Phase.HOLDING))
    root = {"level": 1, "children": [*TREE["children"][:1], {"cluster": "c2"}]}
    assert (
        "switch 1 moves clients from c1 to c3"
        in problem(tenant("PUT", "/trees/main", root), 409, "state-conflict")["detail"]
    )
    switched(tenant, Abort(by="operator"))
    assert tenant("PUT", "/trees/main", root).status_code == 200


def test_offsets_that_were_set_for_a_move_that_never_came_are_older_than_what_is_committed_since(
    tenant: Rest,
) -> None:
    before = discover(tenant).json()
    switched(tenant, start(), *(to(phase) for phase in (Phase.HOLDING, Phase.DRAINING, Phase.CLOSING)))
    switched(tenant, Abort(by="operator"))
    assert discover(tenant).json() == {**before, "generation": 2}


def test_a_switch_is_told_phase_by_phase(tenant: Rest) -> None:
    def told() -> list[Any]:
        roles = ({"role": "producer"}, {"role": "consumer"}, {})
        answers = [discover(tenant, **role).json() for role in roles]
        assert len({answer["generation"] for answer in answers}) == 1
        return [answers[0]["generation"], answers[0]["cluster"], *(answer["phase"] for answer in answers)]

    switched(tenant, start())
    assert 'treeline_switch_phase{mode="planned",phase="planned",source="c1"' in tenant("GET", "./metrics").text
    assert told() == [1, "c1", "active", "active", "active"]
    for phase in (Phase.HOLDING, Phase.DRAINING):
        switched(tenant, to(phase))
        assert told() == [1, "c1", "hold", "active", "hold"]
    held = discover(tenant, role="producer").json()
    assert held["next"]["cluster"] == "c2" and held["switch"] == "s1"
    for phase in (Phase.CLOSING, Phase.MOVING):
        switched(tenant, to(phase))
        assert told() == [1, "c1", "hold", "hold", "hold"]
    switched(tenant, Move(measured={}, missing=()))
    assert told() == [2, "c2", "active", "active", "active"]
    assert discover(tenant).json()["mode"] == "planned"


def test_an_aborted_switch_leaves_all_as_it_was(tenant: Rest) -> None:
    before = discover(tenant).json()
    switched(tenant, start(), to(Phase.HOLDING), Abort(by="operator"))
    assert discover(tenant).json() == before


def test_a_zone_can_be_sent_elsewhere(tenant: Rest) -> None:
    switched(tenant, start(zone="az2"), *MOVED)
    assert discover(tenant, zone="az2").json()["cluster"] == "c2"
    for other in ({}, {"zone": "az1"}):
        answer = discover(tenant, **other).json()
        assert (answer["cluster"], answer["generation"]) == ("c1", 1)
    # Its generation is one of the environment's: the next one is above both.
    root = {"level": 1, "children": [*TREE["children"][:1], {"cluster": "c3"}]}
    assert tenant("PUT", "/trees/main", root).status_code == 200
    assert discover(tenant, zone="az2").json()["generation"] == 3


def test_a_zone_that_is_about_to_move_holds_and_no_other_does(tenant: Rest) -> None:
    for name, zone in (("far", "az2"), ("near", "az1"), ("anywhere", "")):
        discover(tenant, client_id=name, role="producer", **({"zone": zone} if zone else {}))
    switched(tenant, start(zone="az2"), to(Phase.HOLDING))
    told = {
        zone: discover(tenant, **({"zone": zone} if zone else {})).json()["phase"] for zone in ("az2", "az1", "")
    }
    assert told == {"az2": "hold", "az1": "active", "": "active"}
    now = tenant("GET", "/switches/s1").json()["now"]
    assert [each["client_id"] for each in now["waiting_for"]] == ["far"]


def test_a_client_that_knows_waits_until_there_is_news(running_rest: Rest) -> None:
    running_rest.set_up()
    answers: list[dict[str, Any]] = []
    known = {"client_id": "orders-1", "role": "producer", "generation": 1, "phase": "active", "wait_ms": 60_000}
    waiting = threading.Thread(target=lambda: answers.append(discover(running_rest, **known).json()))
    waiting.start()
    time.sleep(0.3)
    assert not answers
    switched(running_rest, start(), to(Phase.HOLDING))
    waiting.join(30)
    assert [answer["phase"] for answer in answers] == ["hold"]
    # Now it holds, and waits for the end of that.
    known |= {"phase": "held"}
    waiting = threading.Thread(target=lambda: answers.append(discover(running_rest, **known).json()))
    waiting.start()
    time.sleep(0.3)
    assert len(answers) == 1
    switched(running_rest, *MOVED[1:])
    waiting.join(30)
    assert (answers[1]["phase"], answers[1]["generation"]) == ("active", 2)


def test_waiting_ends_with_the_same_answer_when_nothing_happens(running_rest: Rest) -> None:
    running_rest.set_up()
    known = {"generation": 1, "phase": "active", "wait_ms": 200}
    assert discover(running_rest, **known).json() == discover(running_rest).json()


def test_a_client_that_is_late_is_told_when_what_it_sent_has_arrived(tenant: Rest) -> None:
    switched(tenant, start(), *MOVED)
    late = {"client_id": "late", "role": "producer", "generation": 1, "phase": "held"}
    assert discover(tenant, **late).json()["arrived"] is False
    app: Any = tenant.client.app  # type: ignore[attr-defined]
    with app.state.services.engine.begin() as connection:
        clients = discovery_clients.list_clients(connection, [tuple(PROD.values())])
        discovery_clients.mark_arrived(connection, clients, 2)
    assert discover(tenant, **late).json()["arrived"] is True
    # Whoever has sent something since is asked about anew.
    discover(tenant, **{**late, "phase": "active"})
    assert discover(tenant, **late).json()["arrived"] is False
    with app.state.services.engine.begin() as connection:
        discovery_clients.mark_arrived(connection, clients, 2)
    assert discover(tenant, **late).json()["arrived"] is False, "that was found of the word before"


@pytest.mark.parametrize("zone", [None, "az2"])
def test_a_client_that_has_held_since_before_the_drain_was_marked_is_told_so_with_the_move(
    tenant: Rest, zone: str | None
) -> None:
    """Another one may have written what the drain did not see, however short before the move it began to hold."""
    where = {} if zone is None else {"zone": zone}
    early, late, third = (
        {"client_id": name, "role": "producer", "generation": 1, "phase": "held", **where}
        for name in ("early", "late", "third")
    )
    switched(tenant, start(zone=zone), to(Phase.HOLDING))
    discover(tenant, **early)
    switched(tenant, to(Phase.DRAINING))
    marked = tenant.head()
    discover(tenant, **late)
    switched(tenant, to(Phase.CLOSING), to(Phase.MOVING), Move(measured={"marked_at": marked}, missing=()))
    told = [discover(tenant, **each).json() for each in (early, late, third)]
    assert [(each["generation"], each["arrived"]) for each in told] == [(2, True), (2, False), (2, False)]
    assert discover(tenant, **{**early, "generation": 0}).json()["arrived"] is False, "it was elsewhere"
    discover(tenant, **{**early, "phase": "active"})
    assert discover(tenant, **early).json()["arrived"] is False, "it has let go since"


def test_what_was_found_for_one_cluster_says_nothing_of_the_next(tenant: Rest) -> None:
    switched(tenant, start(), *MOVED)
    late = {"client_id": "late", "role": "producer", "generation": 1, "phase": "held"}
    discover(tenant, **late)
    app: Any = tenant.client.app  # type: ignore[attr-defined]
    with app.state.services.engine.begin() as connection:
        clients = discovery_clients.list_clients(connection, [tuple(PROD.values())])
        discovery_clients.mark_arrived(connection, clients, 2)
    switched(tenant, replace(start("c2", "c1", generation=3), switch="s2"), *MOVED, switch="s2")
    told = discover(tenant, **late).json()
    assert (told["generation"], told["arrived"]) == (3, False)


def test_a_word_that_was_not_renewed_in_time_is_another_one(tenant: Rest) -> None:
    """A client that was silent for longer may have gone on, although each of its reports says that it holds."""
    switched(tenant, start(), *MOVED)
    late = {"client_id": "late", "role": "producer", "generation": 1, "phase": "held"}
    discover(tenant, **late)
    app: Any = tenant.client.app  # type: ignore[attr-defined]
    table = discovery_clients.discovery_clients
    silent = sa.update(table).values(seen_at=table.c.seen_at - timedelta(hours=1))
    with app.state.services.engine.begin() as connection:
        clients = discovery_clients.list_clients(connection, [tuple(PROD.values())])
        discovery_clients.mark_arrived(connection, clients, 2)
        connection.execute(silent)
    assert discover(tenant, **late).json()["arrived"] is False


def test_a_word_that_waited_for_the_database_is_not_taken(tenant: Rest) -> None:
    """The client of such a request may have closed the connection meanwhile."""
    app: Any = tenant.client.app  # type: ignore[attr-defined]
    place = "&".join(f"{name}={value}" for name, value in PROD.items())
    word = {"client_id": "slow", "role": "producer", "generation": 1}
    discover(tenant, **word)
    with app.state.services.engine.begin() as connection:
        connection.execute(sa.select(discovery_clients.discovery_clients).with_for_update())
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(asked_once, tenant, **word, phase="held")
            time.sleep(2.5)  # longer than the margin between how long it counts and how long it is kept
            connection.rollback()
            assert asked.result().status_code == 503
    (row,) = tenant("GET", f"/discovery/clients?{place}").json()["items"]
    assert row["phase"] == "active"
    assert discover(tenant, **word, phase="held").status_code == 200


def test_what_clients_tell_of_themselves_is_kept(tenant: Rest) -> None:
    discover(tenant, client_id="orders-1", role="producer", zone="az1", generation=1, still_in=0)
    discover(tenant, client_id="billing-1", role="consumer", generation=1, phase="closed")
    discover(tenant, client_id="old")
    discover(tenant)
    place = "&".join(f"{name}={value}" for name, value in PROD.items())
    listed = tenant("GET", f"/discovery/clients?{place}").json()["items"]
    seen = {row["client_id"]: (row["role"], row["zone"], row["generation"], row["phase"]) for row in listed}
    assert seen == {
        "orders-1": ("producer", "az1", 1, "active"),
        "billing-1": ("consumer", None, 1, "closed"),
        "old": (None, None, 0, "active"),
    }
    assert {row["client_id"]: row["still_in"] for row in listed} == {"orders-1": 0, "billing-1": None, "old": None}
    assert all(0 <= row["silent_ms"] < 60_000 for row in listed)
    tenant("GET", f"/discovery?{place}&client_id=till%2F7%20a")
    assert tenant("DELETE", f"/discovery/clients/till%2F7%20a?{place}").status_code == 204
    assert tenant("DELETE", f"/discovery/clients/old?{place}").status_code == 204
    problem(tenant("DELETE", f"/discovery/clients/old?{place}"), 404, "not-found")
    assert len(tenant("GET", f"/discovery/clients?{place}").json()["items"]) == 2


def test_an_environment_has_no_more_clients_than_a_switch_can_look_at(tenant: Rest) -> None:
    discover(tenant, client_id="mine", role="producer")
    engine = tenant.client.app.state.services.engine  # type: ignore[attr-defined]
    with engine.begin() as connection:
        t = discovery_clients.discovery_clients
        (row,) = connection.execute(sa.select(t)).mappings()
        others = [{**row, "client_id": f"c{number}"} for number in range(discovery_clients.MOST_CLIENTS - 1)]
        connection.execute(t.insert(), others)
    told = problem(discover(tenant, client_id="new"), 409, "state-conflict")
    assert "acme/retail/prod has 10000 clients" in told["detail"]
    assert discover(tenant, client_id="mine").status_code == 200, "who is there stays"
    assert discover(tenant).status_code == 200, "who only asks is no client"
    with engine.begin() as connection:
        long_ago = datetime.now(UTC) - timedelta(minutes=11)
        connection.execute(sa.update(t).where(t.c.client_id.in_(["c1", "c2"])).values(seen_at=long_ago))
        connection.execute(sa.update(t).where(t.c.client_id == "c1").values(awaited_by="s1"))
        connection.execute(sa.update(t).where(t.c.client_id == "c2").values(awaited_by="over"))
    switched(tenant, start(), to(Phase.HOLDING))
    assert discover(tenant, client_id="new").status_code == 200
    with engine.connect() as connection:
        known = {each.client_id for each in discovery_clients.list_clients(connection, [tuple(PROD.values())])}
    assert {"new", "mine", "c3", "c1"} <= known and "c2" not in known, "a switch waits for c1"


def test_an_answer_can_be_cached_by_who_tells_nothing(tenant: Rest) -> None:
    answer = discover(tenant)
    assert answer.headers["cache-control"] == "private, max-age=10"
    query = "&".join(f"{name}={value}" for name, value in PROD.items())
    tag = answer.headers["etag"]
    assert tenant("GET", f"/discovery?{query}", If_None_Match=tag).status_code == 304
    assert discover(tenant, client_id="x").headers["cache-control"] == "private, no-cache"
    switched(tenant, start(), *MOVED)
    again = tenant("GET", f"/discovery?{query}", If_None_Match=tag)
    assert again.status_code == 200 and again.headers["etag"] != tag


@pytest.mark.parametrize(
    "query",
    [
        {"tenant": "nobody"},
        {"instance": "nobody"},
        {"environment": "nobody"},
        {"tenant": "%00"},
        {"client_id": "x", "environment": "nobody"},
    ],
)
def test_nobody_knows_an_unknown_environment(settled: Rest, query: dict[str, str]) -> None:
    problem(discover(settled, **query), 404, "not-found")


@pytest.mark.parametrize(
    "query",
    [
        {"phase": "asleep"},
        {"role": "both"},
        {"generation": "-1"},
        {"generation": "x"},
        {"wait_ms": "60001"},
        {"client_id": "%00"},
        {"client_id": ""},
        {"zone": "%00"},
        {"now": "1"},
    ],
)
def test_what_discovery_cannot_read_is_refused(settled: Rest, query: dict[str, str]) -> None:
    assert discover(settled, **query).status_code == 422


def test_an_unknown_client_leaves_no_trace(settled: Rest) -> None:
    problem(discover(settled, client_id="x", tenant="nobody"), 404, "not-found")
