"""A control plane that plans for the brokers of this folder and executes the plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from backend.kafka.admin.replica_admin import ReplicaAdmin
from tests.eventually import eventually
from tests.support.api.rest import Rest
from workers.placement.planning import PlacementHost
from workers.run_host import RunHost


@dataclass
class Planner:
    """A control plane that knows the cluster as `east`, with its worker."""

    rest: Rest
    host: PlacementHost
    runs: RunHost
    servers: str

    def plan(self, **wish: Any) -> dict[str, Any]:
        """Request a plan and let the worker compute it."""
        asked = self.rest("POST", "/placements", {"cluster": "east", **wish})
        assert asked.status_code == 202, asked.text
        path = f"/placements/{asked.json()['id']}"

        def answered() -> dict[str, Any] | None:
            self.host.tick()
            found: dict[str, Any] = self.rest("GET", path).json()
            return found if found["state"] != "requested" else None

        return eventually(answered, "the placement is computed", 0.2)

    def reassignment(self, placement: str, which: str = "planned") -> dict[tuple[str, int], list[int]]:
        answer = self.rest("GET", f"/placements/{placement}/reassignment?which={which}").json()
        return {(row["topic"], row["partition"]): row["replicas"] for row in answer["partitions"]}

    def move(self, topic: str) -> None:
        """Change the order of one partition's replicas."""
        with ReplicaAdmin("east", self.servers, {}) as admin:
            assert admin.alter({(topic, 0): [2, 1]}) == {}
            eventually(lambda: not admin.ongoing(), "it has moved")

    def plan_for(self, topic: str, factor: int) -> dict[str, Any]:
        """Create a plan that changes this topic's replication factor and moves nothing else."""
        found = self.plan(replication_factor={topic: factor}, excluded_topics=self._others(topic))
        assert found["state"] == "planned", found
        return found

    def _others(self, topic: str) -> list[str]:
        with ReplicaAdmin("east", self.servers, {}) as admin:
            return sorted({each for each, _ in admin.read().partitions} - {topic})

    def say(self, placement: str, word: str, status: int = 202, **body: Any) -> dict[str, Any]:
        """Send an action to a planned placement; returns the response."""
        answered = self.rest("POST", f"/placements/{placement}/{word}", body or None)
        assert answered.status_code == status, answered.text
        found: dict[str, Any] = answered.json()
        return found

    def apply(self, plan: dict[str, Any], **limits: Any) -> None:
        self.say(plan["id"], "apply", digest=plan["digest"], **limits)

    def until(
        self, placement: str, what: str, holds: Callable[[dict[str, Any]], bool], *, works: bool = True
    ) -> dict[str, Any]:
        """Return the placement once the condition holds, running the worker meanwhile."""

        def found() -> dict[str, Any] | None:
            if works:
                self.runs.tick()
            row: dict[str, Any] = self.rest("GET", f"/placements/{placement}").json()
            return row if holds(row) else None

        return eventually(found, what, 0.2)

    def stop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the worker lose its leases, and wait until it stops."""
        monkeypatch.setattr("workers.run_host.ProcessLease.take", lambda _: False)
        monkeypatch.setattr("workers.run_host.ProcessLease.renew", lambda _: False)
        eventually(lambda: self.runs.is_idle, "it has stopped")

    def over(self, placement: str) -> dict[str, Any]:
        """Return the placement once nothing moves any more."""
        going_on = ("applying", "cancelling", "rolling-back")
        return self.until(placement, "it is over", lambda row: row["state"] not in going_on)


Made = Callable[..., Planner]
