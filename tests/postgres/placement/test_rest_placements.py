"""Placements over REST; the worker's part is recorded by the test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend import deciders
from backend.dispatch import Dispatcher
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.placement.placement_runs import EndRun, PlacementState
from backend.domain.placement.placements import RecordFailure, RecordPlan
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.queries.placement import placement_runs
from backend.queries.placement.placements import PlanDocuments, find_placement, read_reassignment, store_documents
from tests.support.api.rest import TOKEN, Rest, problem, rest_settings
from tests.support.api.shell import shell_of
from tests.support.api.streams import PROD, applied, worker_records
from tests.support.database.postgres import Database
from workers import context
from workers.placement.planning import compute


def partition(number: int, *replicas: int) -> dict[str, Any]:
    return {"topic": "t", "partition": number, "replicas": list(replicas)}


QUESTION = {"brokers": [{"id": 1}, {"id": 2}], "partitions": [partition(0, 1), partition(1, 1)]}
PLAN = {"moves": 1, "digest": "1f", "violations": [], "partitions": [partition(0, 1), partition(1, 2)]}


def asked(rest: Rest, **more: Any) -> dict[str, Any]:
    answer = rest("POST", "/placements", {"cluster": "c1", **more})
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"/api/v1/placements/{found['id']}"
    return found


def test_a_plan_is_asked_for_looked_at_and_taken_to_kafkas_own_tool(clusters: Rest, database: Database) -> None:
    begun = asked(clusters, target_brokers=[1, 2], replication_factor={"t": 1}, no_leaders=[2])
    assert (begun["state"], begun["target_brokers"], begun["replication_factor"]) == (
        "requested",
        [1, 2],
        {"t": 1},
    )
    path = f"/placements/{begun['id']}"
    assert clusters("GET", path).json() == {**begun, "plan": None, "now": None}
    problem(clusters("GET", f"{path}/reassignment"), 404, "not-found")
    head = clusters.head()
    with database.engine.begin() as connection:
        store_documents(connection, begun["id"], PlanDocuments(question=QUESTION, plan=PLAN))
    planned = RecordPlan(digest="1f", summary={"moves": 1})
    worker_records(clusters, planned, deciders.PLACEMENT, f"placement-{begun['id']}")
    now = clusters("GET", path).json()
    assert (now["state"], now["digest"], now["summary"]) == ("planned", "1f", {"moves": 1})
    assert now["plan"] == {"moves": 1, "digest": "1f", "violations": []}
    assert clusters("GET", f"{path}?at={head}").json()["state"] == "requested"
    moved = clusters("GET", f"{path}/reassignment").json()
    assert moved == {"version": 1, "partitions": [partition(1, 2)]}
    back = clusters("GET", f"{path}/reassignment?which=present").json()
    assert back == {"version": 1, "partitions": [partition(1, 1)]}


def test_factors_that_streams_declare_are_named_in_the_answer(tenant: Rest) -> None:
    refused = problem(
        tenant("POST", "/placements", {"cluster": "c1", "replication_factor": "declared"}), 422, "value-invalid"
    )
    assert refused["errors"] == [
        {
            "pointer": "/replication_factor",
            "detail": "no stream has a topic on c1 whose declared factor could be used",
        }
    ]
    for name, factor in (("orders", 3), ("payments", 2), ("elsewhere", 3)):
        tenant("POST", f"{PROD}/streams", {"name": name, "replication_factor": factor})
    worker_records(tenant, RecordOnline(kafka_cluster_id="K1", brokers=2), deciders.CLUSTER, "cluster-c1")
    for name, cluster in (("orders", "c1"), ("payments", "c1"), ("elsewhere", "c2")):
        worker_records(tenant, replace(applied(cluster, name), stream=name))
    begun = asked(tenant, replication_factor="declared")
    factors = {"acme-retail-prod-orders": 2, "acme-retail-prod-payments": 2}
    assert (begun["replication_factor"], begun["as_declared"]) == (factors, True)
    # What was resolved stays what it was.
    tenant("PATCH", f"{PROD}/streams/orders", {"replication_factor": 1})
    assert tenant("GET", f"/placements/{begun['id']}").json()["replication_factor"] == factors
    again = asked(tenant, replication_factor="declared", excluded_topics=["acme-retail-prod-payments"])
    assert again["replication_factor"] == {"acme-retail-prod-orders": 1}
    assert asked(tenant)["as_declared"] is False


def test_the_command_takes_a_factor_or_what_is_declared(tenant: Rest, database: Database, tmp_path: Path) -> None:
    plan = ("placement", "plan", "--cluster", "c1", "--replication-factor")
    with shell_of(database.url, tmp_path) as shell:
        for factor, told in (
            ("declared", "no stream has a topic on c1"),
            ("three", "'three' is neither a number"),
        ):
            refused = shell(*plan, factor)
            assert refused.exit_code == 2 and told in refused.stderr, refused.stderr


def test_the_newest_comes_first_page_by_page_and_of_one_cluster(clusters: Rest) -> None:
    first, second = asked(clusters), asked(clusters, cluster="c2")
    failed = RecordFailure(reason="nobody answers")
    worker_records(clusters, failed, deciders.PLACEMENT, f"placement-{first['id']}")
    page = clusters("GET", "/placements?limit=1").json()
    assert [row["id"] for row in page["items"]] == [second["id"]]
    rest_of_them = clusters("GET", f"/placements?limit=1&cursor={page['next_cursor']}").json()
    (row,) = rest_of_them["items"]
    assert (row["id"], row["state"], row["reason"]) == (first["id"], "failed", "nobody answers")
    (row,) = clusters("GET", "/placements?cluster=c1").json()["items"]
    assert row["id"] == first["id"]


def test_a_repeat_asks_once_and_a_rehearsal_never(clusters: Rest) -> None:
    head = clusters.head()
    rehearsed = clusters("POST", "/placements?dry_run=true", {"cluster": "c1"})
    assert rehearsed.status_code == 202 and clusters.head() == head
    answers = [clusters("POST", "/placements", {"cluster": "c1"}, Idempotency_Key="k") for _ in range(2)]
    assert answers[0].json() == answers[1].json() and clusters.head() == head + 1


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"cluster": "c9"}, "/cluster"),
        ({"cluster": "c1", "target_brokers": []}, "/target_brokers"),
        ({"cluster": "c1", "target_brokers": [-3]}, "/target_brokers/0"),
        ({"cluster": "c1", "replication_factor": 0}, "/replication_factor"),
        ({"cluster": "c9", "replication_factor": "declared"}, "/cluster"),
        ({"cluster": "c1", "replication_factor": {"t": 0}}, "/replication_factor/t"),
    ],
)
def test_what_cannot_be_meant_is_refused(clusters: Rest, body: dict[str, Any], pointer: str) -> None:
    head = clusters.head()
    refused = problem(clusters("POST", "/placements", body), 422, "value-invalid")
    assert [each["pointer"] for each in refused["errors"]] == [pointer] and clusters.head() == head


GIVEN = {"version": 1, "partitions": [partition(0, 2), partition(1, 1)]}


def test_a_reassignment_is_handed_in_and_kept(clusters: Rest, database: Database) -> None:
    begun = asked(clusters, reassignment=GIVEN)
    assert (begun["state"], begun["given"], begun["target_brokers"]) == ("requested", 2, None)
    assert "reassignment" not in begun, "it may be large"
    with database.engine.connect() as connection:
        assert read_reassignment(connection, begun["id"]) == GIVEN
    (event,) = (each for each in clusters("GET", "/events").json()["items"] if each["name"] == "PlacementGiven")
    assert event["data"]["partitions"] == 2 and len(event["data"]["digest"]) == 32
    head = clusters.head()
    rehearsed = clusters("POST", "/placements?dry_run=true", {"cluster": "c1", "reassignment": GIVEN})
    assert rehearsed.status_code == 202 and clusters.head() == head


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"reassignment": {}}, "/reassignment/partitions"),
        ({"reassignment": {"version": 3, "partitions": []}}, "/reassignment/version"),
        ({"reassignment": {"partitions": [partition(0, 1), partition(0, 2)]}}, "/reassignment/partitions/1"),
        ({"reassignment": {"partitions": [partition(0, 1, 1)]}}, "/reassignment/partitions/0/replicas"),
        ({"reassignment": {"partitions": [partition(0, 1), 5]}}, "/reassignment/partitions/1"),
        ({"reassignment": GIVEN, "target_brokers": [1]}, "/target_brokers"),
        ({"reassignment": {"partitions": [partition(0, 10**400)]}}, "/reassignment/partitions/0/replicas/0"),
        (
            {"reassignment": {"partitions": [{**partition(0, 1), "topic": "a\0"}]}},
            "/reassignment/partitions/0/topic",
        ),
        ({"reassignment": GIVEN, "no_leaders": []}, "/no_leaders"),
    ],
)
def test_what_cannot_be_handed_in_is_refused(clusters: Rest, body: dict[str, Any], pointer: str) -> None:
    head = clusters.head()
    refused = problem(clusters("POST", "/placements", {"cluster": "c1", **body}), 422, "value-invalid")
    assert [each["pointer"] for each in refused["errors"]] == [pointer] and clusters.head() == head


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"cluster": "c1", "reassignment": {"partitions": [], "partitions": []}}', "partitions"),
        ('{"cluster": "c1", "re\\u0061ssignment": {"version": 1, "version": 2}}', "version"),
        ('{"cluster": "c1", "cluster": "c2"}', "cluster"),
    ],
)
def test_of_two_values_of_one_name_none_is_taken(clusters: Rest, body: str, name: str) -> None:
    sent = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    answer = clusters.client.request("POST", "/api/v1/placements", headers=sent, content=body)
    assert f'an object has "{name}" twice' in problem(answer, 422, "value-invalid")["detail"]


def test_a_large_reassignment_is_taken(clusters: Rest) -> None:
    rows = [partition(number, 1, 2, 3) for number in range(30_000)]
    assert asked(clusters, reassignment={"version": 1, "partitions": rows})["given"] == 30_000


def planned(rest: Rest, database: Database) -> str:
    placement: str = asked(rest)["id"]
    plan = PLAN | dict.fromkeys(("lower_bound", "gap", "moved_bytes", "leader_changes"), 0) | {"notes": []}
    plan |= {name: {"1": 1, "2": 1} for name in ("replicas_per_broker", "leaders_per_broker")}
    with database.engine.begin() as connection:
        store_documents(connection, placement, PlanDocuments(question=QUESTION, plan=plan))
    recorded(rest, placement, RecordPlan(digest="1f", summary={"moves": 1}))
    return placement


def recorded(rest: Rest, placement: str, command: Any) -> None:
    worker_records(rest, command, deciders.PLACEMENT, f"placement-{placement}")


def test_of_the_limits_what_is_not_named_stays(clusters: Rest, database: Database, tmp_path: Path) -> None:
    one = planned(clusters, database)
    with shell_of(database.url, tmp_path) as shell:

        def limits(word: str, *words: str) -> tuple[int | None, int, int]:
            found = shell.json("placement", word, one, "--no-watch", *words)["limits"]
            return found["bytes_per_second"], found["moves_per_broker"], found["partitions_at_once"]

        apply = ("apply", "--digest", "1f")
        assert limits(*apply, "--bytes-per-second", "2000000") == (2_000_000, 5, 1000)
        assert limits(*apply, "--moves-per-broker", "4") == (2_000_000, 4, 1000)
        assert limits("rollback") == (2_000_000, 4, 1000)
        assert limits(*apply, "--bytes-per-second", "none") == (None, 4, 1000), "taken away on purpose"
        told = shell("placement", "apply", one, "--no-watch", "--digest", "1f", "--partitions-at-once", "7").stderr
        assert "limits: no throttle, 4 concurrent moves per broker, 7 concurrent partitions" in told
    sent = {"digest": "1f", "bytes_per_second": 5000}
    assert clusters("POST", f"/placements/{one}/apply", sent).json()["limits"]["moves_per_broker"] == 4
    sent = {"digest": "1f", "bytes_per_second": None}
    assert clusters("POST", f"/placements/{one}/apply", sent).json()["limits"]["bytes_per_second"] is None
    back = clusters("POST", f"/placements/{one}/rollback", {"partitions_at_once": 3}).json()["limits"]
    assert back == {"bytes_per_second": None, "moves_per_broker": 4, "partitions_at_once": 3}


def test_show_tells_how_far_it_is_and_what_came_of_it(clusters: Rest, database: Database, tmp_path: Path) -> None:
    one = planned(clusters, database)
    told = {"moves_done": 5, "moves_in_flight": 2, "moves_left": 7, "fraction": 0.99, "seconds_left": 1.0}
    gone = {"count": 9, "examples": [f"t-{number}" for number in range(9)]}
    report = {"partitions": 14, "arrived": 5, "elected": 3, "gone": gone}
    with shell_of(database.url, tmp_path) as shell:
        assert "planned; nothing was moved" in shell("placement", "show", one).stderr
        assert shell("placement", "apply", one, "--no-watch", "--digest", "1f").exit_code == 0
        with database.engine.begin() as connection:
            placement_runs.store_progress(connection, one, {**told, "held_up": {}, "failing": None})
        said = shell("placement", "show", one).stderr
        assert "applying, 5 of 14 moves (99% of bytes), 2 in flight, about 1 s left" in said
        assert "limits: no throttle" in said and "nothing was moved" not in said
        recorded(clusters, one, EndRun(run=1, after=PlacementState.APPLYING, report=report))
        said = shell("placement", "show", one).stderr
        assert "applied\n" in said and "5 of 14 changed partitions are at their target; 3 leaders" in said
        assert "gone: 9 partitions (t-0, t-1, t-2, t-3, t-4 and 4 more)" in said


@pytest.mark.parametrize("handed_in", [False, True])
@pytest.mark.parametrize("word", ["pause", "rollback"])
def test_nothing_is_planned_while_a_placement_is_carried_out_not_even_paused(
    clusters: Rest, database: Database, monkeypatch: pytest.MonkeyPatch, word: str, handed_in: bool
) -> None:
    dispatcher = Dispatcher(database.engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: dispatcher)
    one = planned(clusters, database)
    clusters("POST", f"/placements/{one}/apply", {"digest": "1f"})
    state = clusters("POST", f"/placements/{one}/{word}").json()["state"]
    other = asked(clusters, **({"reassignment": GIVEN} if handed_in else {}))["id"]
    with database.engine.connect() as connection:
        row = find_placement(connection, other)
    compute(database.engine, rest_settings(database.url), row)
    found = clusters("GET", f"/placements/{other}").json()
    assert found["state"] == "failed"
    assert found["reason"].startswith(f"placement {one} is {state}: a plan made now would not fit")


def test_nobody_knows_an_unknown_placement(clusters: Rest) -> None:
    for path in ("/placements/p9", "/placements/p9/reassignment"):
        problem(clusters("GET", path), 404, "not-found")
