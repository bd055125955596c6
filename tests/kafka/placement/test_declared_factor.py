"""A stream's replication factor is raised on three real brokers.

It is declared, placed as declared, and `min.insync.replicas` follows.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from backend.kafka.admin.replica_admin import ReplicaAdmin
from tests.eventually import eventually
from tests.kafka.placement.driving import MANY, SLOW_BYTES_PER_SECOND, fill
from tests.kafka.placement.planner import Made, Planner
from tests.support.api.rest import rest_settings
from tests.support.database.postgres import Database
from tests.support.kafka.three_brokers import Brokers
from tests.support.kafka.topics import DEADLINE_SECONDS
from workers.replication import ReplicationHost
from workers.topics.reconcile import Reconciler

ALERT = "factor-not-as-declared"


@dataclass
class Estate:
    """One stream on `east`, the only cluster of the tree, with all workers that it needs."""

    planner: Planner
    reconciler: Reconciler
    watching: ReplicationHost
    admin: ReplicaAdmin
    path: str
    topic: str

    def minimum(self) -> int:
        """Return `min.insync.replicas` of the topic after the reconcile loop has polled twice."""
        for _ in range(2):
            self.reconciler._last_look = 0.0
            self.reconciler.tick()
        return self.admin.topic_settings([self.topic])[self.topic].min_insync_replicas

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = self.planner.rest("GET", self.path).json()
        return found

    def seen(self, present: int, minimum: int) -> dict[str, Any]:
        """Wait for this replication of the stream, with no replicas moving, and return it."""

        def look() -> dict[str, Any] | None:
            self.watching.tick()
            found: dict[str, Any] = self.told()["replication"]["east"]
            same = (found["present"], found["min_insync_replicas"], found["moving"]) == (present, minimum, False)
            return found if same else None

        return eventually(look, f"{present} replicas are seen, and {minimum} of them needed", 0.1)

    def alerted(self) -> list[dict[str, Any]]:
        found = self.planner.rest("GET", "/clusters/east/replication").json()["alerts"]
        return [each for each in found if each["alert"] == ALERT and self.topic in each["examples"]]


def _ok(planner: Planner, method: str, path: str, body: dict[str, Any]) -> None:
    answer = planner.rest(method, path, body)
    assert answer.status_code in (200, 201), answer.text


@pytest.fixture
def estate(make_planner: Made, brokers: Brokers, admin: ReplicaAdmin, database: Database) -> Iterator[Estate]:
    changes: dict[str, Any] = {
        "replication_look_seconds": 0.1,
        "replication_settings_seconds": 0.1,
    }
    planner = make_planner(**changes)
    settings = rest_settings(database.url, probe_timeout_seconds=20.0, **changes)
    # First of all names, so that it is among the examples.
    tenant, place = f"0{secrets.token_hex(4)}", "/tenants"
    _ok(planner, "PUT", "/trees/main", {"cluster": "east"})
    _ok(planner, "POST", place, {"name": tenant})
    _ok(planner, "POST", f"{place}/{tenant}/instances", {"name": "i", "tree": "main"})
    _ok(planner, "POST", f"{place}/{tenant}/instances/i/environments", {"name": "e"})
    streams = f"{place}/{tenant}/instances/i/environments/e/streams"
    _ok(planner, "POST", streams, {"name": "orders", "partitions": 2, "replication_factor": 1})
    watching = ReplicationHost(database.engine, settings)
    path, topic = f"{streams}/orders", f"{tenant}-i-e-orders"
    found = Estate(planner, Reconciler(database.engine, settings), watching, admin, path, topic)
    eventually(lambda: found.minimum() == 1 and found.told()["applied"] == {"east": "applied"}, "it is applied")
    yield found
    for watch in watching._watches.values():
        watch.end()
    names = brokers.admin.list_topics(timeout=DEADLINE_SECONDS).topics
    mine = [each for each in names if each == topic or each.startswith("_treeline.")]
    for future in brokers.admin.delete_topics(mine).values():
        future.result(DEADLINE_SECONDS)


@pytest.mark.nightly  # the minimum follows: test_steps; a factor in a plan: test_placements
def test_a_factor_that_is_declared_comes_by_a_placement_and_the_minimum_follows(
    estate: Estate, brokers: Brokers, admin: ReplicaAdmin
) -> None:
    planner, topic = estate.planner, estate.topic
    first = estate.seen(present=1, minimum=1)
    assert (first["declared"], estate.alerted()) == (1, [])
    for number in range(2):
        fill(brokers.servers, topic, number, MANY)

    _ok(planner, "PATCH", estate.path, {"replication_factor": 3, "min_insync_replicas": 2})

    assert estate.minimum() == 1, "it is on one broker only"
    assert estate.told()["applied"] == {"east": "applied"}
    eventually(lambda: estate.watching.tick() or estate.alerted(), "its factor is told not to be as declared", 0.1)
    (alert,) = estate.alerted()
    assert alert["severity"] == "warning"
    assert "treeline placement plan --cluster east --replication-factor declared" in alert["what_to_do"]

    others = sorted({each for each, _ in admin.read().partitions} - {topic})
    plan = planner.plan(replication_factor="declared", excluded_topics=others)
    assert (plan["state"], plan["replication_factor"]) == ("planned", {topic: 3}), plan
    assert plan["summary"]["moves"] == 4
    planner.apply(plan, bytes_per_second=SLOW_BYTES_PER_SECOND)
    planner.until(plan["id"], "they move", lambda row: (row["now"] or {}).get("moves_in_flight") == 2)
    assert estate.minimum() == 1, "producers with acks=all go on while replicas are copied"
    # Topics that are being moved do not count.
    eventually(lambda: estate.watching.tick() or not estate.alerted(), "it is told no longer", 0.1)
    planner.apply(plan, bytes_per_second=None)
    assert planner.over(plan["id"])["state"] == "applied"

    assert estate.minimum() == 2
    last = estate.seen(present=3, minimum=2)
    assert last["advice"] == (
        "acks=all: a record is on two brokers before it is acknowledged; one may be offline; "
        "unclean leader election is off"
    )
    assert estate.alerted() == []
    tenant = topic.partition("-")[0]
    items = planner.rest("GET", f"/events?stream=tenant-{tenant}&limit=200").json()["items"]
    applied = [each["data"]["replication_factor"] for each in items if each["name"] == "StreamApplied"]
    assert (applied[0], applied[-1]) == (1, 3)
    assert "StreamDrifted" not in {each["name"] for each in items}
