"""The steps of a first run on the Overview page, from an empty estate to a record that has arrived."""

from __future__ import annotations

import re

from backend.queries.distribution import stream_measures
from backend.queries.overview.first_run_facts import first_arrival, first_places
from tests.eventually import eventually
from tests.support.api.observations import observe
from tests.support.console.consoles import Console
from tests.support.console.visitors import API_PROD, TREE, add_clusters, visitor
from tests.support.console.visitors import said as text_of
from tests.support.database.postgres import Database


def steps(console: Console) -> list[tuple[str, str]]:
    page = console.get("/overview").text
    return re.findall(r'<li data-step="(\d)" data-progress="(\w+)"', page)


def progress(console: Console) -> list[str]:
    return [each for _, each in steps(console)]


def said(console: Console) -> str:
    return text_of(console.get("/overview"))


def arrive(database: Database, stream: str) -> None:
    """Count a copy of a record of the stream, as a task of c1's distributor would."""
    row = {"unit": "distributor:c1:2:0", "stream": stream, "epoch": 1, "records": 1, "bytes": 10, "passed": 1}
    more = {"lag_records": 0, "newest_ms": 1, "copied_ms": 2, "latency_ms": 412, "checkpoint_ms": None}
    with database.engine.begin() as connection:
        stream_measures.write(connection, [{**row, **more}])


def test_an_empty_estate_leads_to_a_record_that_has_arrived(console: Console, database: Database) -> None:
    rest = console.rest
    assert progress(console) == ["next", "later", "later", "later"]
    assert "There are no clusters yet: add two to begin." in said(console)
    assert 'href="/clusters/-new"' in console.get("/overview").text
    add = {"bootstrap_servers": "127.0.0.1:9", "accept_offline": True}
    rest.ok("POST", "/clusters", {"name": "c1", **add})
    assert "c1 is offline: Connection refused at 127.0.0.1:9." in said(console)
    assert 'href="/clusters/c1/-change"' in console.get("/overview").text
    rest.ok("POST", "/clusters", {"name": "c2", **add})
    rest.ok("POST", "/clusters", {"name": "c3", **add})
    assert progress(console) == ["done", "next", "later", "later"]
    (way,) = re.findall(r'href="(/tree/edit\?steps=[^"]+)"', console.get("/overview").text)
    assert "Coverage" in text_of(console.get(way)) and "c3" in text_of(console.get(way))
    rest.ok("PUT", "/trees/main", TREE)
    assert progress(console) == ["done", "done", "next", "later"]
    rest.ok("POST", "/tenants", {"name": "acme"})
    assert "Tenant acme exists." in said(console) and 'href="/tenants/acme/-new"' in console.get("/overview").text
    rest.ok("POST", "/tenants/acme/instances", {"name": "retail"})
    rest.ok("POST", "/tenants/acme/instances/retail/environments", {"name": "prod"})
    assert 'href="/tenants/acme/retail/prod/-new"' in console.get("/overview").text
    rest.ok("POST", "/tenants/acme/instances/retail/environments/prod/streams", {"name": "orders"})
    assert progress(console) == ["done", "done", "done", "next"]
    assert 'href="/tenants/acme/retail/prod/orders/-messages/-produce"' in console.get("/overview").text
    arrive(database, "_treeline.verify")
    rest.ok("POST", "/tenants", {"name": "globex"})  # an event, which ends the page's cache
    assert progress(console) == ["done", "done", "done", "next"]
    arrive(database, "acme/retail/prod/orders")
    eventually(lambda: progress(console) == ["done"] * 4, "the page shows that a record has arrived")
    assert "A record of acme/retail/prod/orders on c1 arrived on c2 after 0.4 s. Trace the record" in said(console)


def test_the_first_stream_is_the_one_declared_first_however_often_it_changes(
    acme: Console, database: Database
) -> None:
    with database.engine.begin() as connection:
        before = first_places(connection)
    below = "/tenants/acme/instances/retail/environments/prod/streams"
    acme.rest.ok("POST", below, {"name": "another"})
    acme.rest.ok("PATCH", f"{below}/orders", {"partitions": 16})
    with database.engine.begin() as connection:
        assert first_places(connection) == before and before.stream == "orders"
        assert first_places(connection, ["acme"]) == before


def test_the_arrival_shown_is_one_of_the_first_stream_if_there_is_any(acme: Console, database: Database) -> None:
    for stream in ("acme/retail/prod/another", "acme/retail/prod/orders"):
        arrive(database, stream)
    with database.engine.begin() as connection:
        found = first_arrival(connection, "acme/retail/prod/orders")
        other = first_arrival(connection, "acme/retail/prod/unread")
    assert found is not None and found.stream == "acme/retail/prod/orders"
    assert other is not None


def test_reports_of_distributors_count_unless_internal_streams_explain_them(
    acme: Console, database: Database
) -> None:
    arrive(database, "_treeline.verify")
    observe(database.engine, "c1", 2, "c2", records_per_second=350.0)
    assert progress(acme) == ["done", "done", "done", "next"]
    observe(database.engine, "c1", 2, "c2", copied_records=5)
    eventually(lambda: progress(acme) == ["done"] * 4, "the page shows that records have arrived")
    assert "Distributors have copied records." in said(acme)


def test_the_first_declaration_counts_even_if_the_stream_is_gone(acme: Console, database: Database) -> None:
    with database.engine.begin() as connection:
        before = first_places(connection).declared_at
    acme.rest.ok("DELETE", f"{API_PROD}/streams/orders?confirm=acme/retail/prod/orders")
    with database.engine.begin() as connection:
        assert first_places(connection).declared_at == before is not None
        assert first_places(connection, ["acme"]).declared_at == before


def test_viewers_read_the_steps_without_links_that_they_may_not_use(console: Console) -> None:
    viewer = visitor(console, "viewer")
    page = viewer.get("/overview")
    assert "Add the first cluster: this needs change-estate" in text_of(page)
    assert 'href="/clusters/-new"' not in page.text.partition("<main>")[2]


def test_a_tenant_is_led_to_its_first_stream(console: Console) -> None:
    add_clusters(console)
    for tenant in ("acme", "globex"):
        console.rest.ok("POST", "/tenants", {"name": tenant})
        console.rest.ok("POST", f"/tenants/{tenant}/instances", {"name": "retail"})
    below = "/tenants/globex/instances/retail/environments"
    console.rest.ok("POST", below, {"name": "prod"})
    console.rest.ok("POST", f"{below}/prod/streams", {"name": "items"})
    owner = visitor(console, "owner")
    page = owner.get("/")
    assert re.findall(r'data-progress="(\w+)"', page.text) == ["next", "later"]
    assert 'href="/tenants/acme/retail/-new"' in page.text and "globex" not in page.text
    assert "There are no streams yet: declare the first one." in text_of(page)


def test_a_tenant_sees_a_record_of_its_own_arrive(acme: Console, database: Database) -> None:
    member = visitor(acme, "member")
    arrive(database, "globex/shop/prod/items")
    assert re.findall(r'data-progress="(\w+)"', member.get("/").text) == ["done", "next"]
    arrive(database, "acme/retail/prod/orders")

    def text() -> str:
        return text_of(member.get("/"))

    eventually(lambda: "acme/retail/prod/orders on c1 arrived on c2" in text(), "the page shows the arrival")
    assert "globex" not in text()
