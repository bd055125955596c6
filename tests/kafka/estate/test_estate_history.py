"""The history of measures of a running estate, sampled by its own workers."""

from __future__ import annotations

from typing import Any

from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import RunningEstate


def test_each_minute_of_a_running_estate_has_samples_of_its_edges_and_clusters(estate: RunningEstate) -> None:
    rest = RestClient(estate.url, estate.token)
    edges = {f"{row['cluster']}:{row['level']}" for row in rest.ok("GET", "/trees/main/distributors")}
    assert "cluster-1:3" in edges

    def subjects(metric: str) -> set[str]:
        items: list[dict[str, Any]] = rest.ok("GET", f"/history/subjects?metric={metric}")["items"]
        return {each["subject"] for each in items}

    def values(metric: str, subject: str) -> list[float]:
        points = rest.ok("GET", f"/history?metric={metric}&subject={subject}")["points"]
        return [value for _, value in points if value is not None]

    for metric in ("edge.lag_records", "edge.records_per_second", "edge.wait_seconds"):
        eventually(lambda metric=metric: subjects(metric) == edges, f"{metric} is sampled of all edges", 1.0)
        assert all(value >= 0 for value in values(metric, "cluster-1:3"))
    clusters = {f"cluster-{number}" for number in range(1, 6)}
    # Bytes are known once sizes were read twice, a minute apart.
    eventually(lambda: subjects("cluster.bytes_in_per_second") == clusters, "bytes appended are sampled", 1.0)
    assert values("cluster.offline_partitions", "cluster-1") != []
    assert subjects("broker.bytes") >= {"cluster-1/1"} and values("broker.bytes", "cluster-1/1")[-1] > 0
