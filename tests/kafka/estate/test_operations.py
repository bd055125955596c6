"""Metrics and webhooks of a running estate, produced by its own workers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backend.metrics import METRICS
from backend.settings import settings
from tests.eventually import eventually
from tests.support.api import http
from tests.support.api.receiver import receiving
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import RunningEstate


def scraped(estate: RunningEstate) -> dict[str, list[Any]]:
    """Return name -> samples."""
    answer = http.get(f"{estate.url}/metrics", headers={"Authorization": f"Bearer {estate.token}"})
    families = text_string_to_metric_families(answer.text)
    return {f"{each.name}_total" if each.type == "counter" else each.name: each.samples for each in families}


def test_a_running_estate_tells_every_metric_and_what_it_copied(estate: RunningEstate) -> None:
    verified = estate.treeline("verify", "--records", "50", "--json")
    assert verified.returncode == 0, verified.stderr
    found = scraped(estate)
    assert found.keys() == METRICS.keys()
    for name, samples in found.items():
        assert {label for each in samples for label in each.labels} <= set(METRICS[name].labels), name
    edges = {
        (row["cluster"], row["target"], str(row["level"]))
        for row in RestClient(estate.url, estate.token).ok("GET", "/trees/main/distributors")
    }

    def of_verify(name: str) -> dict[tuple[str, str, str], float]:
        return {
            (each.labels["source"], each.labels["target"], each.labels["level"]): each.value
            for each in scraped(estate)[name]
            if each.labels["stream"] == settings().verify_stream
        }

    # Workers write once a second.
    eventually(
        lambda: (
            all(value > 0 for value in of_verify("treeline_replication_records_total").values())
            and of_verify("treeline_replication_records_total").keys() == edges
        ),
        "every distributor tells of the records that were verified",
    )
    for name in ("treeline_replication_bytes_total", "treeline_replication_latency_seconds"):
        assert of_verify(name).keys() == edges and min(of_verify(name).values()) >= 0, name
    eventually(lambda: of_verify("treeline_replication_lag_records") == dict.fromkeys(edges, 0.0), "nothing waits")
    assert of_verify("treeline_replication_record_age_seconds") == dict.fromkeys(edges, 0.0)
    held = {each.labels["lease"]: each.value for each in found["treeline_lease_held"]}
    assert held["reconcile"] == held["offsets"] == held["schemas"] == 1
    assert sum(name.startswith("distributor:") for name in held) == len(edges) * settings().partition_buckets


@pytest.mark.nightly  # test_webhook_deliveries and test_rest_webhooks, by the workers' parts
def test_a_test_of_a_webhook_comes_from_the_estates_worker(estate: RunningEstate) -> None:
    rest = RestClient(estate.url, estate.token)
    with receiving() as receiver:
        rest.ok("POST", "/webhooks", {"name": "operations", "url": receiver.url, "events": ["gap"]})
        try:
            done = estate.treeline("webhook", "test", "operations", "--json")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["state"] == "delivered"
            [got] = receiver.got
            assert json.loads(got.body)["kind"] == "test"
            receiver.status = 500
            refused = estate.treeline("webhook", "test", "operations")
            assert refused.returncode == 1 and "it answered 500" in refused.stdout
        finally:
            assert estate.treeline("delete", "webhook", "operations").returncode == 0
