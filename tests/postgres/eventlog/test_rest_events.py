"""`/events`: list, stream and verification, as promised to clients."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from backend.domain.tenants.tenant import TenantCreated
from backend.eventlog.bulk_load import bulk_load
from backend.eventlog.recorded import Entry, Metadata
from backend.eventlog.registry import domain_registry
from tests.eventually import eventually
from tests.support.api import http
from tests.support.api.rest import TOKEN, WAIT_SECONDS, Rest, problem, served
from tests.support.database.postgres import Database

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def test_events_are_listed_in_order_with_everything_about_them(rest: Rest) -> None:
    rest.add_clusters("c1")
    rest("POST", "/tenants", {"name": "acme"})
    items = rest("GET", "/events").json()["items"]
    assert [item["position"] for item in items] == [1, 2, 3]
    assert [item["name"] for item in items] == ["ClusterAdded", "ClusterWentOffline", "TenantCreated"]
    last = items[-1]
    assert last | {"stream": "tenant-acme", "version": 1, "schema_version": 1, "data": {"tenant": "acme"}} == last
    assert last["previous_hash"] == items[-2]["hash"]
    assert datetime.fromisoformat(last["time"]).tzinfo is not None
    assert rest("GET", "/events?stream=tenant-").json()["items"] == [last]


def test_events_are_paged_by_position(rest: Rest) -> None:
    for n in range(5):
        rest("POST", "/tenants", {"name": f"t{n}"})
    first = rest("GET", "/events?limit=2").json()
    assert first["next_cursor"] == "2"
    second = rest("GET", "/events?limit=2&cursor=2").json()
    last = rest("GET", "/events?limit=2&after=4").json()
    positions = [item["position"] for page in (first, second, last) for item in page["items"]]
    assert positions == [1, 2, 3, 4, 5]
    assert last["next_cursor"] is None


@pytest.mark.parametrize(
    "query",
    [
        "after=-1",
        "after=x",
        f"after={2**63}",
        "limit=0",
        "limit=1001",
        "cursor=x",
        "cursor=-1",
        "stream=%00",
        "after=1&after=2",
    ],
)
def test_a_wrong_place_in_the_log_is_422(empty_rest: Rest, query: str) -> None:
    assert empty_rest("GET", f"/events?{query}").status_code == 422


def test_the_chain_is_verified_and_a_change_shows(rest: Rest, database: Database) -> None:
    for n in range(3):
        rest("POST", "/tenants", {"name": f"t{n}"})
    head = rest("GET", "/events/head").json()
    whole = rest("GET", "/events/verification").json()
    assert whole == {"ok": True, "events": 3, "head": head, "broken_at": None, "reason": None}
    exported = f"position={head['position']}&hash={head['hash']}"
    assert rest("GET", f"/events/verification?{exported}").json()["ok"] is True
    later = rest("GET", f"/events/verification?position=9&hash={head['hash']}").json()
    assert (later["ok"], later["broken_at"]) == (False, 4)
    assert rest("GET", "/events/verification?position=3").status_code == 422
    with database.owner.begin() as connection:
        connection.execute(sa.text("ALTER TABLE events DISABLE TRIGGER events_only_grow"))
        connection.execute(sa.text('UPDATE events SET data = \'{"tenant": "evil"}\' WHERE position = 2'))
    broken = rest("GET", "/events/verification").json()
    assert (broken["ok"], broken["broken_at"]) == (False, 2)


def test_what_others_append_without_projecting_it_is_projected(running_rest: Rest, database: Database) -> None:
    registry = domain_registry()
    with database.engine.begin() as connection:
        entry = Entry.of(
            registry,
            "tenant-seeded",
            TenantCreated(tenant="seeded"),
            Metadata(actor="seed", request_id="r"),
            datetime.now(UTC),
        )
        bulk_load(connection, registry, [entry])
    eventually(lambda: running_rest("GET", "/tenants/seeded").status_code == 200, "the seeded tenant shows")
    assert running_rest("GET", "./readyz").status_code == 200


class Stream:
    """A reader of server-sent events."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def next(self) -> tuple[str, dict[str, Any]]:
        """Return the next event's id and data; comments are skipped."""
        fields: dict[str, str] = {}
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
            if not line and "data" in fields:
                return fields["id"], json.loads(fields["data"])
        raise AssertionError("the stream ended")

    def ends(self) -> bool:
        """Read to the end, which must come without an error."""
        return all(not line.startswith("data") for line in self._lines)


@contextmanager
def stream(url: str, query: str = "", **headers: str) -> Iterator[Stream]:
    with (
        http.client(timeout=WAIT_SECONDS) as client,
        client.stream("GET", f"{url}/api/v1/events/stream{query}", headers=BEARER | headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer.iter_lines())


def test_a_stream_gives_history_then_news_goes_on_where_it_broke_and_ends_with_the_server(
    database: Database,
) -> None:
    with (
        served(database.url) as (url, process),
        http.client(base_url=url, headers=BEARER) as client,
    ):

        def create(name: str) -> None:
            client.post("/api/v1/tenants", json={"name": name}).raise_for_status()

        create("t1")
        with stream(url) as following:
            identity, event = following.next()
            assert (identity, event["data"], event["position"]) == ("1", {"tenant": "t1"}, 1)
            assert event == client.get("/api/v1/events").json()["items"][0]
            create("t2")
            assert following.next()[1]["data"] == {"tenant": "t2"}
        create("t3")
        with stream(url, **{"Last-Event-ID": "2"}) as following:
            assert following.next()[0] == "3"
        with stream(url, "?after=2") as following, ThreadPoolExecutor(1) as threads:
            assert following.next()[0] == "3"
            end = threads.submit(following.ends)
            process.send_signal(signal.SIGTERM)
            assert end.result(WAIT_SECONDS)
        assert process.wait(WAIT_SECONDS) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("identity", ["x", "-1", "1.5", "9" * 30])
def test_a_wrong_last_event_id_is_422(empty_rest: Rest, identity: str) -> None:
    problem(empty_rest("GET", "/events/stream", Last_Event_ID=identity), 422, "value-invalid")
