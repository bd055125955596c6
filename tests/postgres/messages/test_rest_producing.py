"""`POST /messages`: rights, input and dry runs; the clusters are down, so that no message is ever written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from backend.domain.switch.cluster_switch import Phase
from backend.eventlog.faults import DatabaseUnavailable
from backend.kafka.search import message_writing
from backend.kafka.search.message_writing import OutcomeUncertain, Written
from backend.messages import production_run
from tests.postgres.switch.test_discovery import MOVED, start, switched, to
from tests.support.api.callers import new_user
from tests.support.api.rest import Rest, problem
from tests.support.api.streams import applied, worker_records
from tests.support.database.postgres import Database

ORDERS = "acme/retail/prod/orders"
STREAMS = "/tenants/acme/instances/retail/environments/prod/streams"
TRY = "/messages?dry_run=true"


@pytest.fixture
def orders(both: Rest, monkeypatch: pytest.MonkeyPatch) -> Rest:
    """Return the API with topics of acme's orders on c1 and c2, which waits only a moment for a cluster."""
    monkeypatch.setattr(message_writing, "_REACH_SECONDS", 0.3)
    for cluster in ("c1", "c2"):
        worker_records(both, applied(cluster))
    return both


def message(**changes: Any) -> dict[str, Any]:
    return {"stream": ORDERS, "key": {"text": "k"}, "value": {"json": {"n": 1}}, **changes}


def produced(rest: Rest) -> list[dict[str, Any]]:
    return [
        each for each in rest("GET", "/events?limit=1000").json()["items"] if each["name"] == "MessageProduced"
    ]


@pytest.mark.parametrize(
    ("role", "tenants"), [("operator", {}), ("admin", {}), ("tenant", {"acme": "owner"})], ids=str
)
def test_those_who_may_produce_reach_the_cluster(orders: Rest, role: str, tenants: dict[str, str]) -> None:
    ada = new_user(orders, "ada", role, **tenants)
    assert ada("POST", TRY, message()).json() == {
        "cluster": "c1",
        "topic": "acme-retail-prod-orders",
        "partition": None,
        "offset": None,
        "timestamp_ms": None,
        "bytes": 8,
    }
    found = problem(ada("POST", "/messages", message()), 503, "cluster-silent")
    assert found["detail"].startswith("c1 does not answer, and it was not written: ")
    assert produced(orders) == []


@pytest.mark.parametrize(("role", "tenants"), [("viewer", {}), ("tenant", {"acme": "member"})], ids=str)
def test_viewers_and_members_may_not(orders: Rest, role: str, tenants: dict[str, str]) -> None:
    found = problem(new_user(orders, "vic", role, **tenants)("POST", TRY, message()), 403, "not-allowed")
    assert "messages:write" in found["detail"]


def test_anothers_stream_cannot_be_told_from_one_that_nobody_has(orders: Rest) -> None:
    gil = new_user(orders, "gil", globex="owner")
    for stream in (ORDERS, "acme/retail/prod/none", "nobody/a/b/c", "_treeline.verify", "globex/retail/prod/none"):
        found = problem(gil("POST", TRY, message(stream=stream)), 404, "not-found")
        assert found["detail"] == f"there is no stream '{stream}'; name it as tenant/instance/environment/stream"


WRONG = [
    ({"key": {}}, "/key"),
    ({"value": {"text": "a", "json": 1}}, "/value"),
    ({"value": {"text": None}}, "/value"),
    ({"value": {"base64": "a"}}, "/value/base64"),
    ({"value": {"json": [["\ud800"]]}}, "/value/json"),
    ({"value": {"json": [float("inf")]}}, "/value/json"),
    ({"key": {"json": float("nan")}}, "/key/json"),
    ({"partition": 99}, "/partition"),
    ({"headers": [["a", "b"], ["copy-flags", "x"]]}, "/headers/1"),
    ({"headers": [["copy-origin", None]]}, "/headers/0"),
    ({"headers": [["", "x"]]}, "/headers/0"),
]


@pytest.mark.parametrize(("changes", "pointer"), WRONG)
def test_wrong_input_is_named_with_its_place(orders: Rest, changes: dict[str, Any], pointer: str) -> None:
    found = problem(orders("POST", TRY, message(**changes)), 422, "value-invalid")
    assert [error["pointer"] for error in found["errors"]] == [pointer]


def test_what_the_description_forbids_is_refused(orders: Rest) -> None:
    for changes in (
        {"partition": -1},
        {"headers": [["a"]]},
        {"timestamp_ms": -1},
        {"timestamp_ms": 0},
        {"more": 1},
        {"value": "text"},
    ):
        assert orders("POST", TRY, message(**changes)).status_code == 422
    assert orders("POST", TRY, {"stream": ORDERS}).status_code == 422, "a tombstone is asked for by null"
    assert orders("POST", TRY, message(value=None)).json()["bytes"] == 1


def test_a_compacted_stream_takes_no_message_without_a_key_and_none_that_is_too_large(orders: Rest) -> None:
    declared = {"name": "latest", "partitions": 1, "cleanup_policy": "compact", "max_message_bytes": 2000}
    assert orders("POST", STREAMS, declared).status_code == 201
    worker_records(orders, replace(applied("c1"), stream="latest"))
    wanted = {"stream": "acme/retail/prod/latest", "value": {"text": "x" * 2000}}
    found = problem(orders("POST", TRY, wanted), 422, "value-invalid")
    assert [error["pointer"] for error in found["errors"]] == ["/key", "/value"]
    assert "takes at most 2,000" in found["errors"][1]["detail"]
    for empty in ({"text": ""}, {"base64": ""}):
        found = problem(orders("POST", TRY, {**wanted, "value": {"text": ""}, "key": empty}), 422, "value-invalid")
        assert [error["pointer"] for error in found["errors"]] == ["/key"]
    small = {**wanted, "key": {"base64": "AAE="}, "value": {"text": "x" * 1900}}
    assert orders("POST", TRY, small).json()["bytes"] == 1902


def test_nothing_is_produced_while_a_switch_holds_the_clients(orders: Rest) -> None:
    switched(orders, start())
    assert orders("POST", TRY, message()).status_code == 200, "clients are not held yet"
    switched(orders, to(Phase.HOLDING))
    for cluster in ({}, {"cluster": "c2"}):
        found = problem(orders("POST", "/messages", message(**cluster)), 409, "state-conflict")
        assert found["detail"].startswith("the switch from c1 to c2 holds the clients of acme/retail/prod:")


def test_nothing_is_written_while_the_event_cannot_be_appended(
    orders: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: Any) -> None:
        raise AssertionError("a message was written")

    monkeypatch.setattr(production_run, "write_message", write)
    services = orders.client.app.state.services  # type: ignore[attr-defined]
    monkeypatch.setattr(services.dispatcher, "execute", _unavailable)
    assert orders("POST", "/messages", message()).status_code == 503


def _unavailable(*_: Any, **__: Any) -> None:
    raise DatabaseUnavailable("the database is read-only")


class Cluster:
    """Counts what is written, and answers as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, confirms: bool = True) -> None:
        self.written, self.confirms = 0, confirms
        self.meanwhile: Callable[[], None] = lambda: None
        monkeypatch.setattr(production_run, "write_message", self._write)

    def _write(self, *_: Any) -> Written:
        self.written += 1
        self.meanwhile()
        if not self.confirms:
            raise OutcomeUncertain("no answer within 10 s")
        return Written(0, 7, 1_767_225_600_000)


def test_a_message_that_was_not_confirmed_is_an_event_and_is_not_written_again(
    orders: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(monkeypatch, confirms=False)
    found = [
        problem(orders("POST", "/messages", message(), Idempotency_Key="k1"), 503, "cluster-silent")["detail"]
        for _ in range(2)
    ]
    assert found[0] == found[1] and "It may have been written" in found[0]
    assert cluster.written == 1
    [event] = produced(orders)
    assert (event["data"]["cluster"], event["data"]["partition"], event["data"]["offset"]) == ("c1", None, None)
    assert orders("POST", "/messages", message(), Idempotency_Key="k2").status_code == 503
    assert (cluster.written, len(produced(orders))) == (2, 2)


def test_a_repeated_request_gets_its_first_answer_whatever_has_become_of_the_stream(
    orders: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(monkeypatch)
    first = orders("POST", "/messages", message(), Idempotency_Key="k1")
    assert (first.status_code, first.json()["offset"], first.json()["warning"]) == (201, 7, None)
    switched(orders, start(), to(Phase.HOLDING))
    again = orders("POST", "/messages", message(), Idempotency_Key="k1")
    assert (again.status_code, again.json(), cluster.written) == (201, first.json(), 1)


@pytest.mark.parametrize("commands", [(to(Phase.HOLDING),), MOVED], ids=["holds", "has moved"])
def test_a_message_behind_a_switch_is_told(
    orders: Rest, monkeypatch: pytest.MonkeyPatch, commands: tuple[Any, ...]
) -> None:
    cluster = Cluster(monkeypatch)
    cluster.meanwhile = lambda: switched(orders, start(), *commands)
    found = orders("POST", "/messages", message())
    assert found.status_code == 201 and "while switch s1 held or moved the clients" in found.json()["warning"]
    assert [each["data"]["switch"] for each in produced(orders)] == ["s1"]


def test_an_event_that_cannot_be_appended_is_tried_again_and_then_told(
    orders: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(monkeypatch)
    dispatcher = orders.client.app.state.services.dispatcher  # type: ignore[attr-defined]
    execute, failures = dispatcher.execute, [1]

    def fails(*given: Any, **named: Any) -> Any:
        if cluster.written and failures[0]:
            failures[0] -= 1
            raise DatabaseUnavailable("the database is away.")
        return execute(*given, **named)

    monkeypatch.setattr(dispatcher, "execute", fails)
    assert orders("POST", "/messages", message()).status_code == 201
    assert len(produced(orders)) == 1
    failures[0], cluster.written = 2, 0
    found = problem(orders("POST", "/messages", message()), 503, "database-unavailable")
    assert "(partition 0, offset 7)" in found["detail"] and "Do not produce it again" in found["detail"]


def test_one_user_produces_few_messages_at_once(orders: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    found: list[dict[str, Any]] = []

    def produce_another() -> None:
        if cluster.written < production_run.OF_A_USER:
            assert orders("POST", "/messages", message()).status_code == 201
        else:
            found.append(problem(orders("POST", "/messages", message()), 503, "messages-busy"))

    cluster.meanwhile = produce_another
    assert orders("POST", "/messages", message()).status_code == 201
    assert [each["detail"] for each in found] == [
        "2 of your requests are producing messages already; try again in a few seconds"
    ]
    cluster.meanwhile = lambda: None
    assert orders("POST", "/messages", message()).status_code == 201, "the places are free again"


def test_keys_of_requests_leave_few_locks_behind(
    orders: Rest, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch)
    monkeypatch.setattr(production_run, "LOCKS", 2)
    for number in range(6):
        assert orders("POST", "/messages", message(), Idempotency_Key=f"k{number}").status_code == 201
    with database.engine.connect() as connection:
        names = (
            connection.execute(sa.text("SELECT name FROM held_locks WHERE name LIKE 'produce %'")).scalars().all()
        )
    assert set(names) <= {"produce 0", "produce 1"} and names
