"""Placements for tests of pages: requested, planned or failed by the functions that a worker uses."""

from __future__ import annotations

import random
from typing import Any

from backend.deciders import PLACEMENT
from backend.domain.placement.placement_aims import Aims
from backend.domain.placement.placements import RecordFailure, RecordPlan, RequestPlacement
from backend.placement import plan as planning
from backend.placement.request_document import read_problem
from backend.queries.placement.placements import PlanDocuments, store_documents
from tests.support.console.visitors import record
from tests.support.database.postgres import Database

MIB = 2**20


def brokers(*racks: str | None) -> list[dict[str, Any]]:
    """Return brokers 1, 2, ... in these racks."""
    return [{"id": at, "rack": rack} for at, rack in enumerate(racks, 1)]


def partition(topic: str, number: int, *replicas: int, size_bytes: int = MIB) -> dict[str, Any]:
    return {"topic": topic, "partition": number, "replicas": list(replicas), "size_bytes": size_bytes}


def cluster(racks: list[str], partitions: dict[str, int], empty: int = 0, seed: int = 1) -> dict[str, Any]:
    """Build a cluster with three replicas per partition in three racks, whose last brokers are still empty."""
    chance, known = random.Random(seed), brokers(*racks)
    used = known[: len(known) - empty]
    by_rack = [[each["id"] for each in used if each["rack"] == rack] for rack in sorted(set(racks))]
    rows = [
        partition(
            topic, number, *(chance.choice(ids) for ids in chance.sample(by_rack, 3)), size_bytes=number * MIB
        )
        for topic, count in partitions.items()
        for number in range(count)
    ]
    return {"brokers": known, "partitions": rows}


GROWN = cluster(
    ["az1", "az2", "az3"] * 2 + ["az1", "az2", "az3"],
    {"acme-retail-prod-orders": 12, "acme-retail-prod-payments": 8, "globex-shop-prod-items": 6},
    empty=3,
)
"""Six brokers with 26 partitions, and three new brokers."""


def documents(question: dict[str, Any]) -> PlanDocuments:
    """Return the documents that a worker stores: the request, and the plan computed from it."""
    return PlanDocuments(question=question, plan=planning.make(read_problem(question)).document())


def ask(database: Database, placement: str, cluster: str = "c1", **aims: Any) -> None:
    """Request a placement, as an operator does."""
    known = frozenset({"c1", "c2", "c3"})
    request = RequestPlacement(placement=placement, cluster=cluster, aims=Aims(**aims), known_clusters=known)
    record(database, request, PLACEMENT, f"placement-{placement}")


def planned(database: Database, placement: str, kept: PlanDocuments) -> None:
    """Record a computed plan, as a worker does."""
    plan = kept.plan
    names = ("moves", "lower_bound", "moved_bytes", "leader_changes", "largest_share")
    summary: dict[str, Any] = {name: plan[name] for name in names}
    summary["partitions"] = len(plan["partitions"])
    summary["violations"] = {each["constraint"]: each["count"] for each in plan["violations"]}
    with database.engine.begin() as connection:
        store_documents(connection, placement, kept)
    record(database, RecordPlan(digest=plan["digest"], summary=summary), PLACEMENT, f"placement-{placement}")


def failed(database: Database, placement: str, reason: str) -> None:
    """Record a failure to plan, as a worker does."""
    record(database, RecordFailure(reason=reason), PLACEMENT, f"placement-{placement}")
