"""Switches for page tests: started, advanced and ended by the domain's commands, as a worker would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from backend.deciders import CLUSTER, SWITCH
from backend.domain.clusters.cluster import RecordOnline
from backend.domain.switch.cluster_switch import Moving, Phase, Retarget
from backend.domain.switch.switch_commands import Advance, Complete, Move, StartSwitch, SwitchCommand
from backend.domain.switch.switch_facts import ClusterAnswers, GroupFact
from backend.domain.tenants.stream_records import RecordApplied
from backend.queries.switch import discovery_clients, switch_progress
from backend.queries.switch.discovery_clients import Report
from backend.switching import planning
from tests.support.console.visitors import record
from tests.support.database.postgres import Database

PROD = {"tenant": "acme", "instance": "retail", "environment": "prod"}
PLACE = ("acme", "retail", "prod")
REPORT = {
    "duration_ms": 2140,
    "producers_held_ms": 812,
    "not_drained_records": 0,
    "drained_partitions": 4,
    "groups": 3,
    "offsets": 12,
    "re_read_bound": 0,
    "refused_groups": [{"group": "acme/retail/prod/reports", "reason": "it has members on c2"}],
    "forced_clients": ["checkout-7"],
    "clients_moved": 11,
    "late_clients": ["batch-1"],
    "silent_clients": ["cut-off-3"],
    "groups_left_behind": ["acme-retail-prod-audit"],
    "stray_records": 0,
}
DRAINED = {"partitions": 4, "not_drained_records": 0}
CARRIED = {"groups": 3, "offsets": 12, "re_read_bound": 0, "refused": REPORT["refused_groups"]}


def all_online(database: Database) -> None:
    """Put all clusters online with everything that acme needs, so that a switch has no blockers."""
    for number, cluster in enumerate(("c1", "c2", "c3")):
        online = RecordOnline(kafka_cluster_id=f"id-{number}", brokers=3)
        record(database, online, CLUSTER, f"cluster-{cluster}")
        for tenant, instance, stream in (("acme", "retail", "orders"), ("globex", "shop", "items")):
            applied = RecordApplied(
                instance=instance,
                environment="prod",
                stream=stream,
                cluster=cluster,
                topic_id=f"{stream}-{cluster}",
                replication_factor=3,
            )
            record(database, applied, stream=f"tenant-{tenant}")


@contextmanager
def clusters_say(monkeypatch: pytest.MonkeyPatch, **more: Any) -> Iterator[None]:
    """Answer plans in place of the clusters, without any cluster."""
    orders = [("acme/retail/prod/orders", partition) for partition in range(4)]
    items = [("globex/shop/prod/items", partition) for partition in range(4)]
    facts: dict[str, Any] = {
        "partitions": {(cluster, name): 4 for cluster in ("c1", "c2", "c3") for name, _ in (orders[0], items[0])},
        "queried": frozenset({"c1", "c2", "c3"}),
        "lacking": {**dict(zip(orders, (120, 80, 0, 12), strict=True)), **dict.fromkeys(items, 0)},
        "ends": dict.fromkeys([*orders, *items], 1_000),
    }
    with monkeypatch.context() as patched:
        patched.setattr(
            planning, "query_clusters", lambda ground, settings, request: ClusterAnswers(**{**facts, **more})
        )
        yield


def busy_group(name: str = "acme-retail-prod-billing") -> GroupFact:
    """Return a group with a member on the target."""
    streams = frozenset({"acme/retail/prod/orders"})
    return GroupFact(technical_group=name, group="billing", place=PLACE, client_ids=("b-1",), streams=streams)


def commands(database: Database, *given: SwitchCommand, switch: str = "s1") -> None:
    """Dispatch commands of an operator and a runner, without either."""
    for command in given:
        record(database, command, SWITCH, f"switch-{switch}")


def start(switch: str = "s1", **other: Any) -> StartSwitch:
    """Return the start of a switch of acme/retail/prod, from c1 to c2."""
    usual: dict[str, Any] = {
        "source": "c1",
        "target": "c2",
        "mode": "planned",
        "moves": (Moving(**PROD),),
        "generation": 2,
        "busy": {},
    }
    return StartSwitch(switch=switch, **{**usual, **other})


def to(phase: Phase, **measured: Any) -> Advance:
    return Advance(phase=phase, measured=measured)


def retarget() -> Retarget:
    return Retarget(cluster="c3", level=1, target="c1", previous="c2")


HOLDING = (start(), to(Phase.HOLDING, missing_records=212))
DRAINING = (*HOLDING, to(Phase.DRAINING, clients=12, forced=["checkout-7"]))
MOVING = (*DRAINING, to(Phase.CLOSING, **DRAINED), to(Phase.MOVING, **CARRIED))
MOVED = (*MOVING, Move(measured={}, missing=()))
COMPLETED = (*MOVED, Complete(measured={"clients": 11, "late": ["batch-1"]}, report=REPORT))


HOLD_MS = 600_000


def client(database: Database, client_id: str, role: str = "producer", phase: str = "active", **more: Any) -> None:
    """Store the report of a client of acme/retail/prod."""
    place = dict(zip(("tenant", "instance", "environment"), PLACE, strict=True))
    usual: dict[str, Any] = {**place, "zone": None, "generation": 1}
    report = Report(client_id=client_id, role=role, phase=phase, **{**usual, **more})
    with database.engine.begin() as connection:
        discovery_clients.write(connection, report, HOLD_MS)


def lacking(partition: int, records: int, target: str = "c2", **more: Any) -> dict[str, Any]:
    """Return the runner's report about one partition with missing records."""
    usual = {"stream": "acme/retail/prod/orders", "waits_for": None, **more}
    return {"partition": partition, "target": target, "missing_records": records, **usual}


def told(database: Database, switch: str = "s1", **news: Any) -> None:
    """Store the runner's progress."""
    with database.engine.begin() as connection:
        switch_progress.write(connection, switch, news)
