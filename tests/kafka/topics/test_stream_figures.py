"""Figures of a stream from real brokers: records, sizes, leaders, by REST, on pages and on the command line."""

from __future__ import annotations

import uuid

import pytest

from backend.kafka.admin.topic_figures import read_figures
from backend.kafka.base.errors import KafkaCallFailed
from tests.eventually import eventually
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, rows, said
from tests.support.kafka.topics import produce, read_all

STREAMS = "/tenants/acme/instances/retail/environments/prod/streams"


def test_figures_are_those_of_the_brokers_on_every_cluster(estate) -> None:
    console = Console(estate.url, estate.token)
    name = f"figures-{uuid.uuid4().hex[:8]}"
    console.rest.ok("POST", STREAMS, {"name": name, "partitions": 2})

    def applied() -> dict[str, str] | None:
        row = console.rest.ok("GET", f"{STREAMS}/{name}")
        return row["technical_names"] if set(row["applied"].values()) == {"applied"} else None

    topics = eventually(applied, "the stream is applied")
    servers = {cluster: estate.bootstrap_servers(cluster) for cluster in topics}
    messages = [{"value": b"x" * 1000, "partition": 0} for _ in range(7)]
    produce(servers["cluster-1"], topics["cluster-1"], messages)
    eventually(lambda: len(read_all(servers["cluster-5"], topics["cluster-5"])) == 7, "they are copied")

    def complete() -> dict[str, dict]:
        found = {each["cluster"]: each for each in console.rest.ok("GET", f"{STREAMS}/{name}/figures")["items"]}
        # An answer from before the records is shared for some seconds.
        return found if all((each["records"] or 0) >= 7 for each in found.values()) else {}

    figures = eventually(complete, "all clusters report the records")
    home = figures["cluster-1"]
    assert (home["records"], home["problem"], home["partitions_in_sync"]) == (7, None, 2)
    first, second = home["partitions"]
    assert (first["start_offset"], first["end_offset"], second["records"]) == (0, 7, 0)
    assert first["leader"] in first["replicas"] == first["isr"] and first["newest_timestamp_ms"] > 0
    assert second["newest_timestamp_ms"] is None
    assert 7_000 < home["size_bytes"] == home["disk_bytes"] and second["size_bytes"] == 0
    # Copies come in transactions, whose markers take offsets, too.
    assert figures["cluster-5"]["records"] > 7

    member = Visitor(console, f"m-{uuid.uuid4().hex[:6]}", acme="member")
    page = member.get(f"/tenants/acme/retail/prod/{name}/-partitions?figures=1")
    lines = rows(page, "data-on")
    assert lines.keys() == topics.keys() and "1 of 1" in lines["cluster-1"] and "ISR" not in said(page)
    seen = console.get(f"/tenants/acme/retail/prod/{name}?figures=1")
    assert rows(seen, "data-figures")["cluster-1"].startswith("cluster-1 7 ")


def test_a_cluster_without_the_topic_and_one_that_is_away(estate) -> None:
    servers = estate.bootstrap_servers("cluster-1")
    assert read_figures(servers, {}, f"none-{uuid.uuid4().hex[:8]}", 5) is None
    with pytest.raises(KafkaCallFailed, match=r"timed out after 0\.5 s"):
        read_figures("127.0.0.1:9", {}, "orders", 0.5)
