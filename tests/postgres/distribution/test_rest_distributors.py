"""Settings of distributors over REST and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from backend.cli import app
from backend.deciders import EDGE
from backend.domain.distribution.edge_losses import RecordDeadLetter, RecordLoss, RecordReplay
from backend.queries.base.observed import unit_states
from backend.settings import settings
from tests.support.api.observations import observe
from tests.support.api.rest import TOKEN, TREE, Rest, problem
from tests.support.api.streams import PROD, worker_records
from tests.support.console.consoles import serve_here
from tests.support.database.postgres import Database

PATH = "/trees/main/distributors/c2/2"


def chosen(row: dict[str, Any]) -> tuple[Any, Any, Any]:
    return row["paused"], row["bytes_per_second"], row["compression"]


def test_settings_are_changed_read_and_told_as_events(grown: Rest) -> None:
    before = grown.head()
    body = {"paused": True, "bytes_per_second": 1_000_000, "compression": "zstd"}
    changed = grown("PATCH", PATH, body)
    assert changed.status_code == 200, changed.text
    assert chosen(changed.json()) == (True, 1_000_000, "zstd")
    read = grown("GET", PATH)
    assert (chosen(read.json()), read.headers["etag"]) == (chosen(changed.json()), changed.headers["etag"])
    rows = {(row["cluster"], row["level"]): row for row in grown("GET", "/trees/main/distributors").json()}
    assert chosen(rows.pop(("c2", 2))) == (True, 1_000_000, "zstd")
    assert {chosen(row) for row in rows.values()} == {(False, None, "none")}
    events = grown("GET", f"/events?after={before}").json()["items"]
    assert [(event["stream"], event["name"]) for event in events] == [
        ("tree-main", "DistributorLimitChanged"),
        ("tree-main", "DistributorCompressionChanged"),
        ("tree-main", "DistributorPaused"),
    ]
    assert grown("PATCH", PATH, body).status_code == 200
    assert grown("PATCH", PATH, {}).status_code == 200
    assert grown.head() == before + 3
    assert chosen(grown("PATCH", PATH, {"bytes_per_second": None}).json()) == (True, None, "zstd")


def test_the_lag_is_not_known_of_a_task_that_was_not_heard_of_or_has_not_taken_up_what_is_asked(
    tenant: Rest, database: Database
) -> None:
    """Check the first reads after a database outage, which return the rows from before."""

    environment = PROD

    def lag() -> int | None:
        found: int | None = tenant("GET", PATH).json()["lag_records"]
        return found

    target = tenant("GET", PATH).json()["target"]
    observe(database.engine, "c2", 2, target, lag_records=3)
    units = 3 * settings().partition_buckets
    assert lag() == units
    long_ago = sa.text("clock_timestamp() - interval '1 minute'")
    observe(database.engine, "c2", 2, target, lag_records=3, seen_at=long_ago)
    assert lag() is None
    observe(database.engine, "c2", 2, target, lag_records=3)
    with database.engine.begin() as connection:
        one = sa.update(unit_states).where(unit_states.c.unit == "distributor:c2:2:0")
        connection.execute(one.values(seen_at=long_ago))
    assert lag() is None, "the others' lags are not all of it"
    observe(database.engine, "c2", 2, target, lag_records=3)
    assert lag() == units
    assert tenant("POST", f"{environment}/streams", {"name": "orders", "partitions": 1}).status_code == 201
    assert lag() is None, "of the new stream nothing is known"
    observe(database.engine, "c2", 2, target, lag_records=3)
    assert lag() == units


def test_one_that_was_told_to_wait_is_pausing_until_no_session_of_it_copies_any_more(
    grown: Rest, database: Database
) -> None:
    def shown() -> tuple[str, str | None]:
        row = grown("GET", PATH).json()
        return row["state"], row["reason"]

    def one_unit(**facts: object) -> None:
        with database.engine.begin() as connection:
            first = sa.update(unit_states).where(unit_states.c.unit == "distributor:c2:2:0")
            connection.execute(first.values(**facts))

    target = grown("GET", PATH).json()["target"]
    observe(database.engine, "c2", 2, target)
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE clusters SET state = 'online', reason = NULL"))
    assert shown() == ("running", None)
    assert grown("PATCH", PATH, {"paused": True}).is_success
    assert shown() == ("pausing", "2 of 2 tasks have not stopped copying yet")
    one_unit(state="paused")
    assert shown() == ("pausing", "1 of 2 tasks have not stopped copying yet")
    observe(database.engine, "c2", 2, target, state="paused")
    assert shown() == ("paused", None)
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE leases SET expires_at = clock_timestamp() WHERE unit LIKE '%:2:0'"))
    assert shown() == ("pausing", "1 of 2 tasks wait for a worker"), "its holder may be alive, and copy"


def test_one_that_left_records_out_is_degraded_until_somebody_has_seen_to_them(
    grown: Rest, database: Database
) -> None:
    def shown() -> tuple[str, str | None]:
        row = grown("GET", PATH).json()
        return row["state"], row["reason"]

    target = grown("GET", PATH).json()["target"]
    place: dict[str, Any] = {
        "cluster": "c2",
        "level": 2,
        "target": target,
        "stream": "acme/retail/prod/orders",
        "partition": 0,
        "reason": "as it happens",
    }
    gone = RecordLoss(**place, first_offset=1, last_offset=6, incarnation=1)
    refused = RecordDeadLetter(**place, offset=7, origin=None)
    observe(database.engine, "c2", 2, target)
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE clusters SET state = 'online', reason = NULL"))
    assert shown() == ("running", None)
    for command in (gone, refused):
        worker_records(grown, command, EDGE, "edge-c2-2")
    aside, lost = "1 dead letter to replay", "1 lost range of records to acknowledge"
    assert shown() == ("degraded", f"{aside}; {lost}")
    assert grown("POST", "/losses/acknowledge", {"cluster": "c2", "level": 2}).is_success
    assert shown() == ("degraded", aside)
    worker_records(grown, RecordReplay(id=refused.id, clusters=(target,)), EDGE, "edge-c2-2")
    assert shown() == ("running", None)
    worker_records(grown, replace(gone, first_offset=7, last_offset=7), EDGE, "edge-c2-2")
    assert shown() == ("degraded", lost)


def test_the_wait_is_that_of_the_slowest_task_and_not_known_while_the_lag_is_not(
    tenant: Rest, database: Database
) -> None:
    target = tenant("GET", PATH).json()["target"]

    def wait(**facts: object) -> float | None:
        observe(database.engine, "c2", 2, target, **facts)
        with database.owner.begin() as connection:
            slower = sa.update(unit_states).where(unit_states.c.unit == "distributor:c2:2:0")
            connection.execute(slower.values(wait_seconds=unit_states.c.wait_seconds + 1))
        found: float | None = tenant("GET", PATH).json()["wait_seconds"]
        return found

    assert wait(lag_records=3, wait_seconds=7.5) == 8.5
    assert wait(lag_records=3) is None, "a worker that does not measure it"
    assert wait(lag_records=0) == 0
    assert wait(lag_records=None, wait_seconds=7.5) is None
    assert wait(lag_records=3, wait_seconds=7.5, seen_at=sa.text("now() - interval '1 minute'")) is None
    assert wait(lag_records=3, wait_seconds=7.5) == 8.5
    assert tenant("POST", f"{PROD}/streams", {"name": "orders", "partitions": 1}).status_code == 201
    assert tenant("GET", PATH).json()["wait_seconds"] is None, "of the new stream nothing is known"


def test_an_earlier_position_shows_the_settings_of_then(grown: Rest) -> None:
    first = grown.head()
    grown("PATCH", PATH, {"paused": True})
    second = grown.head()
    grown("PATCH", PATH, {"paused": False, "compression": "lz4"})
    assert chosen(grown("GET", f"{PATH}?at={first}").json()) == (False, None, "none")
    then = grown("GET", f"{PATH}?at={second}").json()
    assert (chosen(then), then["state"]) == ((True, None, "none"), None)
    assert chosen(grown("GET", PATH).json()) == (False, None, "lz4")


def test_another_tree_keeps_the_settings_of_distributors_that_it_has(grown: Rest) -> None:
    grown("PATCH", PATH, {"paused": True})
    grown("PATCH", "/trees/main/distributors/c2/1", {"paused": True})
    smaller = {"level": 2, "children": [{"cluster": "c1"}, {"cluster": "c2"}]}
    assert grown("PUT", "/trees/main", smaller).status_code == 200
    assert chosen(grown("GET", PATH).json()) == (True, None, "none")
    assert grown("PUT", "/trees/main", TREE).status_code == 200
    assert chosen(grown("GET", PATH).json()) == (True, None, "none")
    assert chosen(grown("GET", "/trees/main/distributors/c2/1").json()) == (False, None, "none")


def test_dry_run_stale_tag_and_repeat_behave_as_with_other_writes(grown: Rest) -> None:
    tag, head = grown("GET", "/trees/main").headers["etag"], grown.head()
    dry = grown("PATCH", f"{PATH}?dry_run=true", {"paused": True})
    assert (dry.status_code, dry.json()["paused"], grown.head()) == (200, True, head)
    first = grown("PATCH", PATH, {"paused": True}, If_Match=tag, Idempotency_Key="once")
    assert first.status_code == 200
    again = grown("PATCH", PATH, {"paused": True}, If_Match=tag, Idempotency_Key="once")
    assert (again.status_code, again.json(), grown.head()) == (200, first.json(), head + 1)
    problem(grown("PATCH", PATH, {"paused": False}, Idempotency_Key="once"), 422, "idempotency-key-reused")
    problem(grown("PATCH", PATH, {"paused": False}, If_Match=tag), 412, "stale-version")
    fresh = grown("GET", PATH).headers["etag"]
    assert grown("PATCH", PATH, {"paused": False}, If_Match=fresh).status_code == 200


@pytest.mark.parametrize(
    ("body", "slug", "pointer"),
    [
        ({"bytes_per_second": 0}, "value-invalid", "/bytes_per_second"),
        ({"bytes_per_second": -5}, "value-invalid", "/bytes_per_second"),
        ({"bytes_per_second": 10**40}, "value-invalid", "/bytes_per_second"),
        ({"bytes_per_second": "1000"}, "invalid", "/bytes_per_second"),
        ({"bytes_per_second": 1000.5}, "invalid", "/bytes_per_second"),
        ({"bytes_per_second": True}, "invalid", "/bytes_per_second"),
        ({"compression": "brotli"}, "value-invalid", "/compression"),
        ({"compression": None}, "invalid", "/compression"),
        ({"paused": None}, "invalid", "/paused"),
        ({"paused": "yes"}, "invalid", "/paused"),
        ({"paused": True, "speed": 1}, "invalid", "/speed"),
        ([], "invalid", ""),
    ],
)
def test_bad_settings_are_refused_at_their_place(settled: Rest, body: Any, slug: str, pointer: str) -> None:
    document = problem(settled("PATCH", PATH, body), 422, slug)
    assert pointer in [error["pointer"] for error in document["errors"]]


@pytest.mark.parametrize(
    "place", ["c1/1", "c9/1", "c2/0", "c2/x", "c2/-1", "c2/2%C2%B2", "c2/99999999999999999999"]
)
def test_an_unknown_distributor_is_404(settled: Rest, place: str) -> None:
    problem(settled("PATCH", f"/trees/main/distributors/{place}", {"paused": True}), 404, "not-found")
    problem(settled("GET", f"/trees/main/distributors/{place}"), 404, "not-found")


def test_without_a_tree_there_are_no_distributors(empty_rest: Rest) -> None:
    problem(empty_rest("PATCH", PATH, {"paused": True}), 404, "not-found")
    problem(empty_rest("GET", PATH), 404, "not-found")


# --- the command line


@pytest.fixture
def shell(grown: Rest, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[CliRunner]:
    """Return a runner of commands that find a control plane with a tree in the environment."""
    with serve_here(database.url) as console:
        monkeypatch.setenv("TREELINE_URL", console.url)
        monkeypatch.setenv("TREELINE_TOKEN", TOKEN)
        settings.cache_clear()
        yield CliRunner()
    settings.cache_clear()


def test_commands_pause_resume_and_set(shell: CliRunner) -> None:
    def run(*words: str) -> Any:
        result = shell.invoke(app, ["distributor", *words, "--json"])
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    assert chosen(run("pause", "c2", "2", "--dry-run")) == (True, None, "none")
    assert chosen(run("show", "c2", "2")) == (False, None, "none")
    assert chosen(run("pause", "c2", "2")) == (True, None, "none")
    limited = run("set", "c2", "2", "--bytes-per-second", "50000", "--compression", "gzip")
    assert chosen(limited) == (True, 50_000, "gzip")
    assert chosen(run("set", "c2", "2", "--bytes-per-second", "none")) == (True, None, "gzip")
    assert chosen(run("resume", "c2", "2")) == (False, None, "gzip")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("set", "c2", "2"), 2, "Nothing to set"),
        (("set", "c2", "2", "--bytes-per-second", "fast"), 2, "whole number"),
        (("set", "c2", "2", "--bytes-per-second", "0"), 2, "must be from 1000"),
        (("set", "c2", "2", "--compression", "zip"), 2, "zip"),
        (("pause", "c2", "7"), 1, "no distributor"),
        (("pause", "c2", "x"), 2, "valid int"),
    ],
)
def test_commands_refuse_in_words(shell: CliRunner, words: tuple[str, ...], code: int, said: str) -> None:
    result = shell.invoke(app, ["distributor", *words])
    assert result.exit_code == code
    assert said in result.stderr
