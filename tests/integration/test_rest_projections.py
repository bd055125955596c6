"""The read models are nothing but folded events: folding again from zero gives the same rows."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from backend.projections.catalogue import PROJECTIONS
from tests.database_fixture import Database
from tests.integration.conftest import Rest, problem
from tests.integration.test_rest_streams import applied, worker_records


def every_row(database: Database) -> dict[str, list[Any]]:
    tables = [table for projection in PROJECTIONS for table in projection.tables]
    with database.engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key))]
            for table in tables
        }


def live_through_everything(rest: Rest) -> None:
    environment = rest.set_up()
    rest("PUT", "/trees/main/targets/c1/2", {"target": "c3"})
    rest("PATCH", environment, {"margin_seconds": 5})
    rest("POST", f"{environment}/streams", {"name": "orders"})
    worker_records(rest, applied("c1"))
    rest("PATCH", f"{environment}/streams/orders", {"partitions": 3})
    rest("POST", f"{environment}/streams", {"name": "payments"})
    rest("DELETE", f"{environment}/streams/orders?confirm=acme/retail/prod/orders")
    smaller = {"level": 1, "children": [{"cluster": "c2"}, {"cluster": "c1"}]}
    assert rest("PUT", "/trees/main", smaller).status_code == 200
    assert rest("DELETE", "/clusters/c3").status_code == 204
    rest.add_clusters("c3")


def test_a_rebuild_gives_the_same_rows(rest: Rest, database: Database) -> None:
    live_through_everything(rest)
    before = every_row(database)
    assert all(before.values())
    answer = rest("POST", "/projections/rebuild")
    assert answer.status_code == 200, answer.text
    rebuilt = {row["name"]: row["position"] for row in answer.json()["items"]}
    assert rebuilt == {projection.name: rest.head() for projection in PROJECTIONS}
    assert every_row(database) == before
    problem(rest("POST", "/projections/rebuild?name=nothing"), 404, "not-found")


def test_each_position_reads_as_it_did_when_it_was_the_newest(rest: Rest) -> None:
    paths = ("/clusters", "/trees", "/tenants", "/tenants/acme/instances/retail/environments/prod/streams")
    seen: dict[int, list[Any]] = {}

    def look(suffix: str = "") -> list[Any]:
        answers = [rest("GET", path + suffix) for path in paths]
        return [answer.json() if answer.status_code == 200 else answer.status_code for answer in answers]

    original = rest.client.request

    def watched(method: str, *arguments: Any, **options: Any) -> Any:
        answer = original(method, *arguments, **options)
        if method != "GET":
            seen[rest.head()] = look()
        return answer

    rest.client.request = watched  # type: ignore[method-assign]
    live_through_everything(rest)
    assert len(seen) > 10
    for position, then in seen.items():
        assert look(f"?at={position}") == then
