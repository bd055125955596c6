"""Placement policies on real brokers: a new broker is filled, one that is away for long is emptied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from backend.kafka.admin.replica_admin import ReplicaAdmin
from tests.eventually import eventually
from tests.kafka.placement.planner import Made, Planner
from tests.support.api.rest import rest_settings
from tests.support.database.postgres import Database
from tests.support.kafka.three_brokers import NODES, Brokers
from workers.placement.policy import PlacementPolicies
from workers.replication import ReplicationHost

pytestmark = pytest.mark.nightly
TOPIC = "come-and-go"


class Looked:
    """A planner with the worker that observes brokers."""

    def __init__(self, planner: Planner, database: Database) -> None:
        settings = rest_settings(
            database.url,
            probe_timeout_seconds=20.0,
            replication_look_seconds=0.5,
            replication_settings_seconds=1.0,
            broker_settled_seconds=2.0,
        )
        self.planner = planner
        self.looks = ReplicationHost(database.engine, settings)
        self.policies = PlacementPolicies(database.engine, settings)

    def placements(self) -> list[dict[str, Any]]:
        """Return all placements, the newest first, running the worker meanwhile."""
        self.looks.tick()
        self.policies.tick()
        self.planner.host.tick()
        self.planner.runs.tick()
        found: list[dict[str, Any]] = self.planner.rest("GET", "/placements").json()["items"]
        return found

    def set(self, policy: str) -> None:
        body = {"policy": policy, "away_minutes": 1}
        assert self.planner.rest("PUT", "/clusters/east/placement-policy", body).status_code == 200

    def knows(self, *brokers: int) -> None:
        """Wait until an observation has found exactly these brokers."""

        def seen() -> bool:
            self.placements()
            health = self.planner.rest("GET", "/clusters/east/replication").json()["health"]
            here = {each["id"] for each in (health or {"brokers": []})["brokers"] if each["is_here"]}
            return here == set(brokers)

        eventually(seen, f"brokers {brokers} are seen", 0.2)

    def end(self) -> None:
        for watch in self.looks._watches.values():
            watch.end()


@pytest.fixture
def looked(make_planner: Made, database: Database) -> Iterator[Looked]:
    found = Looked(make_planner(), database)
    yield found
    found.end()


@pytest.fixture
def two_hold_all(brokers: Brokers) -> Iterator[None]:
    """Empty broker 3, and put one topic on the two others; restored afterwards."""
    with ReplicaAdmin("east", brokers.servers, {}) as admin:
        before = {place: each.replicas for place, each in admin.read().partitions.items()}
        rest = {place: [each for each in replicas if each != 3] or [1] for place, replicas in before.items()}
        changed = {place: replicas for place, replicas in rest.items() if tuple(replicas) != before[place]}
        assert admin.alter(changed) == {}
        eventually(lambda: not admin.ongoing(), "broker 3 is empty")
    brokers.create(TOPIC, [[1, 2], [2, 1], [1, 2], [2, 1]])
    yield
    brokers.start(*NODES)
    brokers.admin.delete_topics([TOPIC])[TOPIC].result(30)


def on(brokers: Brokers) -> set[int]:
    """Return the brokers that hold replicas of the topic."""
    with ReplicaAdmin("east", brokers.servers, {}) as admin:
        return {
            id_ for place, each in admin.read().partitions.items() if place[0] == TOPIC for id_ in each.replicas
        }


def test_a_broker_that_comes_is_filled_and_one_that_stays_away_is_emptied(
    looked: Looked, brokers: Brokers, two_hold_all: None
) -> None:
    looked.set("apply")
    brokers.kill(3)
    looked.knows(1, 2)
    brokers.start(3)
    (row,) = eventually(looked.placements, "it is proposed", 0.2)
    assert (row["proposal"]["joined"], row["target_brokers"]) == ([3], [1, 2, 3])
    eventually(lambda: looked.placements()[0]["state"] == "applied", "it is applied", 0.2)
    assert on(brokers) == {1, 2, 3}
    # A restart moves nothing.
    brokers.kill(3)
    looked.knows(1, 2)
    brokers.start(3)
    looked.knows(1, 2, 3)
    assert len(looked.placements()) == 1
    # It is gone for good: its replicas are placed on the remaining brokers.
    brokers.kill(3)
    eventually(lambda: len(looked.placements()) == 2, "it is planned without it", 0.5)
    row = looked.placements()[0]
    assert (row["proposal"]["left"], row["target_brokers"]) == ([3], [1, 2])
    eventually(lambda: looked.placements()[0]["state"] == "applied", "it is applied, too", 0.5)
    assert on(brokers) == {1, 2}
    # It returns and is filled again, since no operator emptied it.
    brokers.start(3)
    eventually(lambda: len(looked.placements()) == 3, "it is proposed again", 0.5)
    assert looked.placements()[0]["proposal"]["joined"] == [3]
    eventually(lambda: looked.placements()[0]["state"] == "applied", "and applied", 0.5)
