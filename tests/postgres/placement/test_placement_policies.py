"""Placement policies: what a worker proposes and applies, from observations that the test records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from backend import deciders
from backend.dispatch import Dispatcher
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.placement.placement_runs import EndRun, PlacementState, RefuseRun
from backend.domain.placement.placements import RecordFailure, RecordPlan
from backend.eventlog.registry import domain_registry
from backend.projections.catalogue import PROJECTIONS
from backend.queries.base.observed import cluster_brokers, cluster_replication
from backend.queries.clusters.broker_presence import store_brokers
from backend.queries.placement.placements import PlanDocuments, store_documents
from backend.queries.replication.replication import store_failure, store_health
from tests.support.api.rest import Rest, problem, rest_settings
from tests.support.api.shell import shell_of
from tests.support.api.streams import worker_records
from tests.support.database.postgres import Database
from workers import context
from workers.placement.policy import PlacementPolicies

POLICY = "/clusters/c1/placement-policy"
THREE = {1: (True, False), 2: (True, False), 3: (True, False)}
FOUR = {**THREE, 4: (True, True)}
HELD = (True, False)
AWAY = (False, False)
USUAL = {
    "cluster": "c1",
    "policy": "propose",
    "away_minutes": 30,
    "limits": {"bytes_per_second": None, "moves_per_broker": 5, "partitions_at_once": 1000},
}


@dataclass
class Watched:
    """A control plane with two workers that do the same."""

    rest: Rest
    database: Database
    workers: tuple[PlacementPolicies, PlacementPolicies]

    def look(self, brokers: dict[int, tuple[bool, bool]], moving: int = 0) -> None:
        """Record an observation of c1."""
        with self.database.engine.begin() as connection:
            store_brokers(connection, "K1", brokers)
            store_health(connection, "K1", {"conditions": {"moving": {"count": moving}}})

    def pass_time(self, minutes: float) -> None:
        """Backdate all presence of brokers; the last observation was just now."""
        with self.database.engine.begin() as connection:
            earlier = cluster_brokers.c.since - sa.text(f"interval '{minutes} minutes'")
            connection.execute(sa.update(cluster_brokers).values(since=earlier))

    def tick(self) -> list[dict[str, Any]]:
        """Let both workers poll twice; returns placements, the newest first."""
        for worker in self.workers * 2:
            worker._due = 0
            worker.tick()
        found: list[dict[str, Any]] = self.rest("GET", "/placements").json()["items"]
        return found

    def set(self, policy: str, **more: Any) -> None:
        answer = self.rest("PUT", POLICY, {"policy": policy, **more})
        assert answer.status_code == 200, answer.text

    def record(self, placement: str, command: Any) -> None:
        worker_records(self.rest, command, deciders.PLACEMENT, f"placement-{placement}")

    def plan(self, placement: str, violations: dict[str, int] | None = None) -> None:
        """Record a computed plan, as a worker does."""
        rows = [{"topic": "t", "partition": 0, "replicas": [1]}]
        kept = PlanDocuments(question={"partitions": rows}, plan={"digest": "1f", "partitions": rows})
        with self.database.engine.begin() as connection:
            store_documents(connection, placement, kept)
        self.record(placement, RecordPlan(digest="1f", summary={"moves": 1, "violations": violations or {}}))


@pytest.fixture
def watched(clusters: Rest, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    worker_records(clusters, RecordOnline(kafka_cluster_id="K1", brokers=3), deciders.CLUSTER, "cluster-c1")
    dispatcher = Dispatcher(database.engine, domain_registry(), PROJECTIONS)
    monkeypatch.setattr(context, "dispatcher", lambda: dispatcher)
    settings = rest_settings(database.url)
    one, other = (PlacementPolicies(database.engine, settings) for _ in range(2))
    found = Watched(clusters, database, (one, other))
    found.look(THREE)
    yield found


def test_it_is_usual_until_it_is_set_and_gone_with_its_cluster(watched: Watched) -> None:
    rest = watched.rest
    first = rest("GET", POLICY)
    assert first.json() == USUAL
    limits = {"bytes_per_second": 10_000_000, "moves_per_broker": 2, "partitions_at_once": 9}
    wanted = {"policy": "apply", "away_minutes": 45, "limits": limits}
    answer = rest("PUT", POLICY, wanted, If_Match=first.headers["ETag"])
    assert (answer.status_code, answer.json()) == (200, {"cluster": "c1", **wanted})
    assert rest("GET", POLICY).json() == answer.json()
    head = rest.head()
    assert rest("PUT", POLICY, wanted).status_code == 200 and rest.head() == head
    problem(rest("PUT", POLICY, {"policy": "off"}, If_Match=first.headers["ETag"]), 412, "stale-version")
    assert rest("PUT", f"{POLICY}?dry_run=true", {"policy": "off"}).json()["policy"] == "off"
    assert rest("GET", POLICY).json()["policy"] == "apply"
    assert rest("DELETE", "/clusters/c1").status_code == 204
    assert rest("GET", f"{POLICY}?at={head}").json()["away_minutes"] == 45
    problem(rest("GET", POLICY), 404, "not-found")
    rest.add_clusters("c1")
    assert rest("GET", POLICY).json() == USUAL
    assert rest("PUT", POLICY, wanted).json() == answer.json(), "though the one before had it so"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/policy"),
        ({"policy": "always"}, "/policy"),
        ({"policy": "off", "away_minutes": 0}, "/away_minutes"),
        ({"policy": "off", "away_minutes": 50_000}, "/away_minutes"),
        ({"policy": "off", "limits": {"moves_per_broker": 0}}, "/limits/moves_per_broker"),
        ({"policy": "off", "surprise": 1}, "/surprise"),
    ],
)
def test_what_cannot_be_meant_says_where(watched: Watched, body: dict[str, Any], pointer: str) -> None:
    told = problem(watched.rest("PUT", POLICY, body), 422, "invalid")
    assert [each["pointer"] for each in told["errors"]] == [pointer]
    problem(watched.rest("PUT", POLICY.replace("c1", "c9"), {"policy": "off"}), 404, "not-found")


def test_a_broker_that_joined_is_proposed_once_and_nothing_is_applied(watched: Watched) -> None:
    watched.look(FOUR)
    assert watched.tick() == [], "it has come just now"
    watched.pass_time(1.1)
    (row,) = watched.tick()
    assert (row["cluster"], row["state"], row["target_brokers"]) == ("c1", "requested", [1, 2, 3, 4])
    assert row["proposal"] == {"policy": "propose", "joined": [4], "left": [], "held_back": None}
    told = watched.rest("GET", "/events?limit=500").json()["items"][-1]
    assert (told["name"], told["metadata"]["actor"]) == ("PlacementProposed", "worker:placement-policy")
    watched.plan(row["id"])
    watched.set("apply")
    (row,) = watched.tick()
    assert row["state"] == "planned", "it was proposed to be looked at"
    # It is started again, before anybody has looked at the proposal.
    watched.look(THREE)
    watched.look(FOUR)
    watched.pass_time(2)
    assert len(watched.tick()) == 1


@pytest.mark.parametrize(
    "hinder",
    [
        lambda watched: watched.set("off"),
        lambda watched: watched.look(FOUR, moving=1),
        lambda watched: _reason(watched),
        lambda watched: _old(watched),
        lambda watched: watched.look({**FOUR, 2: AWAY}),
        lambda watched: watched.look({**FOUR, 4: HELD}),
    ],
    ids=["off", "replicas move", "no answer", "nobody looks", "another is away", "it was filled"],
)
def test_nothing_is_proposed_while_it_is_not_clear_or_not_wished(
    watched: Watched, hinder: Callable[[Watched], None]
) -> None:
    watched.look(FOUR)
    watched.pass_time(2)
    hinder(watched)
    assert watched.tick() == []


def _reason(watched: Watched) -> None:
    with watched.database.engine.begin() as connection:
        store_failure(connection, "K1", "nobody answers")


def _old(watched: Watched) -> None:
    with watched.database.engine.begin() as connection:
        old = cluster_replication.c.seen_at - sa.text("interval '4 minutes'")
        connection.execute(sa.update(cluster_replication).values(seen_at=old))


def test_who_was_emptied_on_purpose_is_left_alone(watched: Watched) -> None:
    watched.look({**THREE, 4: HELD})
    watched.look(FOUR)
    watched.pass_time(100)
    assert watched.tick() == []


def test_a_broker_that_left_is_planned_for_after_its_time(watched: Watched) -> None:
    watched.set("propose", away_minutes=10)
    watched.look({**THREE, 3: AWAY})
    watched.pass_time(9)
    assert watched.tick() == []
    watched.pass_time(1.1)
    (row,) = watched.tick()
    assert (row["target_brokers"], row["proposal"]["left"]) == ([1, 2], [3])
    watched.record(row["id"], RecordFailure(reason="there are too few brokers"))
    assert len(watched.tick()) == 1


def test_by_the_policy_a_plan_is_applied_with_its_limits_and_once(watched: Watched) -> None:
    watched.set("apply", limits={"bytes_per_second": 1_000_000})
    watched.look(FOUR)
    watched.pass_time(2)
    (row,) = watched.tick()
    watched.plan(row["id"])
    (row,) = watched.tick()
    assert (row["state"], row["run"], row["limits"]["bytes_per_second"]) == ("applying", 1, 1_000_000)
    # An operator takes it back: nobody begins it anew.
    assert watched.rest("POST", f"/placements/{row['id']}/cancel").status_code == 202
    watched.record(row["id"], EndRun(run=1, after=PlacementState.CANCELLING, report={}))
    (row,) = watched.tick()
    assert (row["state"], row["run"]) == ("cancelled", 1)


def test_what_was_refused_by_the_cluster_is_not_begun_again_by_itself(watched: Watched) -> None:
    watched.set("apply")
    watched.look(FOUR)
    watched.pass_time(2)
    (row,) = watched.tick()
    watched.plan(row["id"])
    assert watched.tick()[0]["state"] == "applying"
    watched.record(row["id"], RefuseRun(run=1, reason="topics have more partitions"))
    (row,) = watched.tick()
    assert (row["state"], row["run"], row["reason"]) == ("planned", 1, "topics have more partitions")


def test_it_waits_for_a_placement_that_moves_replicas(watched: Watched) -> None:
    watched.set("apply")
    watched.look(FOUR)
    watched.pass_time(2)
    mine = watched.rest("POST", "/placements", {"cluster": "c1", "target_brokers": [1, 2]}).json()["id"]
    assert len(watched.tick()) == 1, "an operator is at work"
    watched.record(mine, RecordFailure(reason="not now"))
    (row, _) = watched.tick()
    assert row["proposal"]["joined"] == [4]


@pytest.mark.parametrize(
    ("brokers", "violations", "said"),
    [
        (FOUR, {"racks": 3}, "racks (3)"),
        ({**FOUR, 5: (True, True)}, {}, "no longer those"),
    ],
)
def test_what_is_to_be_looked_at_first_is_held_back_and_says_why(
    watched: Watched, brokers: dict[int, tuple[bool, bool]], violations: dict[str, int], said: str
) -> None:
    watched.set("apply")
    watched.look(FOUR)
    watched.pass_time(2)
    (row,) = watched.tick()
    watched.plan(row["id"], violations)
    watched.look(brokers)
    watched.pass_time(2)
    row = watched.tick()[-1]
    assert row["state"] == "planned" and said in row["proposal"]["held_back"]
    path = f"/placements/{row['id']}"
    assert [
        each["name"] for each in watched.rest("GET", f"/events?stream=placement-{row['id']}").json()["items"]
    ] == [
        "PlacementRequested",
        "PlacementProposed",
        "PlacementPlanned",
        "PlacementHeldBack",
    ]
    # An operator has looked at it.
    assert watched.rest("POST", f"{path}/apply", {"digest": "1f"}).status_code == 202


def test_two_of_three_that_are_away_are_not_moved_by_itself(watched: Watched) -> None:
    watched.set("apply")
    watched.look({1: HELD, 2: AWAY, 3: AWAY})
    watched.pass_time(31)
    (row,) = watched.tick()
    watched.plan(row["id"])
    (row,) = watched.tick()
    assert row["state"] == "planned" and "2 of 3 brokers are away at once" in row["proposal"]["held_back"]


def test_a_cluster_of_the_same_name_knows_nothing_of_brokers(watched: Watched) -> None:
    """Observations belong to the Kafka cluster, not to the name."""
    watched.look(FOUR)
    watched.pass_time(2)
    worker_records(watched.rest, RecordOnline(kafka_cluster_id="K2", brokers=3), deciders.CLUSTER, "cluster-c2")
    (row,) = watched.tick()
    assert row["cluster"] == "c1"


def test_on_the_command_line(watched: Watched, tmp_path: Path) -> None:
    with shell_of(watched.database.url, tmp_path) as shell:
        assert "propose" in shell("placement", "policy", "c1").stdout
        done = shell.json("placement", "policy", "c1", "--set", "apply", "--bytes-per-second", "5000000")
        assert done == watched.rest("GET", POLICY).json()
        assert (done["policy"], done["limits"]["bytes_per_second"], done["away_minutes"]) == (
            "apply",
            5_000_000,
            30,
        )
        dry = shell("placement", "policy", "c1", "--away-minutes", "7", "--dry-run")
        assert "dry run" in dry.stderr and watched.rest("GET", POLICY).json()["away_minutes"] == 30
        now = shell.json("placement", "policy", "c1", "--bytes-per-second", "none", "--away-minutes", "7")
        assert (now["policy"], now["away_minutes"], now["limits"]["bytes_per_second"]) == ("apply", 7, None)
        unknown = shell("placement", "policy", "c9")
        said = "there is no cluster 'c9'; `treeline get clusters` lists them"
        assert unknown.exit_code == 1 and said in unknown.stderr
        assert shell("placement", "policy", "c1", "--dry-run").exit_code == 2
