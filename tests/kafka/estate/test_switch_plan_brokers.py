"""The plan of a switch on real brokers: what is lacking, who reads where, and a source that is silent."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import produce

THREE = PROJECT_ROOT / "tests" / "support" / "estate" / "three.yaml"
TOPIC = "acme-retail-prod-orders"
WISH = {"from": "cluster-1", "to": "cluster-3"}
PATIENCE = {"probe_timeout_seconds": "2"}


def slugs(findings: list[dict[str, str]]) -> set[tuple[str, str]]:
    return {(each["slug"], each["subject"]) for each in findings}


def lags(plan: dict[str, Any]) -> list[int | None]:
    return [item["lag_records"] for item in plan["items"]]


@contextmanager
def reading(estate: RunningEstate, cluster: str, group: str) -> Iterator[None]:
    """A consumer that is a member of a group, and has committed all that it read so far."""
    consumer = Consumer(
        {
            "bootstrap.servers": estate.bootstrap_servers(cluster),
            "group.id": f"acme-retail-prod-{group}",
            "client.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    try:
        eventually(lambda: consumer.poll(0.2) is not None and consumer.assignment(), f"{group} reads on {cluster}")
        consumer.commit(asynchronous=False)
        yield
    finally:
        consumer.close()


@pytest.mark.nightly
def test_a_plan_says_what_clusters_hold_and_who_reads_there(
    boot_estate: Callable[..., RunningEstate], tmp_path: Path
) -> None:
    estate = boot_estate(THREE, **PATIENCE)
    rest = RestClient(estate.url, estate.token)
    source = estate.bootstrap_servers("cluster-1")

    def plan(**changes: Any) -> dict[str, Any]:
        found: dict[str, Any] = rest.ok("POST", "/switches/plan", {**WISH, **changes})
        return found

    # Records that have gone everywhere are lacking nowhere, over two hops.
    produce(source, TOPIC, [{"value": b"x", "partition": n % 2} for n in range(100)])
    clean = eventually(lambda: found if lags(found := plan()) == [0, 0] else None, "nothing is lacking")
    assert clean["blockers"] == []
    assert clean["expected_ms"] == sum(part["ms"] for part in clean["expected"])

    # Those that wait at a distributor are counted, whatever else was copied.
    rest.ok("PATCH", "/trees/main/distributors/cluster-1/2", {"paused": True})
    eventually(
        lambda: rest.ok("GET", "/trees/main/distributors/cluster-1/2")["state"] == "paused", "the task has stopped"
    )
    produce(source, TOPIC, [{"value": b"y", "partition": 1}] * 40)
    produce(estate.bootstrap_servers("cluster-3"), TOPIC, [{"value": b"z", "partition": 0}] * 7)
    behind = plan(mode="emergency")
    assert lags(behind)[1] == 40
    assert behind["late_records"] == behind["lag_records"] and behind["late_from"] == "clusters"
    assert ("edge-paused", "cluster-1:2") in slugs(plan()["blockers"])
    assert plan()["late_records"] == 0

    # Groups: one that reads on the source goes on on the target; one that has members there cannot be set.
    with reading(estate, "cluster-1", "billing"), reading(estate, "cluster-3", "auditing"):
        found = plan()
        assert ("group-active-on-target", "acme-retail-prod-auditing") in slugs(found["blockers"])
        assert ("client-never-reported", "acme-retail-prod-billing") in slugs(found["warnings"])
        groups = {group["group"]: group for item in found["items"] for group in item["groups"]}
        assert (groups["billing"]["members_on_source"], groups["billing"]["members_on_target"]) == (1, 0)
        assert groups["billing"]["lag_records"] is not None
    export = tmp_path / "plan.json"
    words = ("switch", "plan", "--from", "cluster-1", "--to", "cluster-3", "--export", str(export))
    shown = estate.treeline(*words)
    assert shown.returncode == 1 and "edge-paused" in shown.stderr
    assert "acme/retail/prod/orders" in shown.stdout and '"digest"' in export.read_text()

    # A source that does not answer blocks a planned switch; an emergency tells what was seen of it last.
    at_risk = eventually(
        lambda: rest.ok("GET", "/clusters/cluster-1")["records_at_risk"] or None, "somebody has looked at the lag"
    )
    assert at_risk >= 40
    broker = estate.process("kafka:cluster-1:1")["pid"]
    os.kill(broker, signal.SIGSTOP)
    try:
        silent = plan(mode="emergency")
        assert silent["blockers"] == []
        assert (silent["late_from"], lags(silent)) == ("observations", [None, None])
        assert silent["late_records"] is not None and silent["late_records"] >= 40
        assert silent["digest"] == behind["digest"], "what decides it is the same"
        assert {slug for slug, _ in slugs(plan()["blockers"])} & {"source-silent", "source-offline"}
    finally:
        os.kill(broker, signal.SIGCONT)
    rest.ok("PATCH", "/trees/main/distributors/cluster-1/2", {"paused": False})
    eventually(lambda: lags(plan()) == [0, 0], "what waited is on the target")
