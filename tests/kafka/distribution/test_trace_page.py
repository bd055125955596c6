"""The page that traces one record, on the real estate, and its answers without a record."""

from __future__ import annotations

import re
import uuid

import pytest

from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, head, said, visitor
from tests.support.kafka.topics import produce, read_all

PAGE = "/trace"
STREAMS = "/tenants/acme/instances/retail/environments/prod/streams"


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def test_it_says_what_it_is_for(acme: Console, viewer: Visitor) -> None:
    acme.rest.ok(
        "POST", "/clusters", {"name": "spare", "bootstrap_servers": "127.0.0.1:8", "accept_offline": True}
    )
    page = viewer.get(PAGE)
    assert "Enter a record's stream, partition, and its offset" in said(page)
    assert re.findall(r"<option>(\w+)</option>", page.text) == ["c1", "c2", "c3"]


@some_now(
    "query, status, words",
    [
        ("stream=acme/retail/prod/none&cluster=c1&partition=0&offset=0", 404, "There is no stream"),
        ("stream=acme/retail/prod/orders&cluster=c9&partition=0&offset=0", 404, "c9"),
        ("stream=acme/retail/prod/orders&cluster=c1&partition=99&offset=0", 404, "has no topic on c1"),
        ("stream=acme/retail/prod/orders&cluster=c1&partition=x&offset=0", 422, "is not a valid partition"),
        ("stream=acme/retail/prod/orders&cluster=c1&partition=0&offset=-1", 422, "is not a valid offset"),
        (
            "stream=acme/retail/prod/orders&cluster=c1&partition=0&offset=99999999999999999999",
            422,
            "is not a valid offset",
        ),
        ("stream=acme/retail/prod/orders&cluster=c1", 422, "Give the record&#39;s stream, partition and offset"),
        ("stream=%00&cluster=c1&partition=0&offset=0", 404, "There is no stream"),
        ("stream=<script>&cluster=<b>&partition=0&offset=0", 404, "There is no cluster"),
        ("stream=acme/retail/prod/orders&cluster=c1&partition=0&offset=0", 404, "has no topic on c1"),
    ],
    now=(0, 3),
)
def test_what_is_not_there_is_told_beside_the_form(
    acme: Console, viewer: Visitor, query: str, status: int, words: str
) -> None:
    page = viewer.get(f"{PAGE}?{query}")
    banner = re.search(r'id="refused">([^<]*)<', page.text)
    assert page.status_code == status and banner is not None and words in banner[1]
    assert 'name="offset"' in page.text and "<script>" not in page.text.partition("<main>")[2]


def test_a_stream_of_another_tenant_is_one_that_there_is_not(acme: Console) -> None:
    stranger = visitor(acme, "stranger")
    asked = "cluster=c1&partition=0&offset=0"
    theirs = stranger.get(f"{PAGE}?stream=acme/retail/prod/orders&{asked}")
    none = stranger.get(f"{PAGE}?stream=acme/retail/prod/nothing&{asked}")
    assert theirs.status_code == none.status_code == 404
    assert said(theirs).replace("orders", "nothing") == said(none)


@pytest.mark.nightly  # the way over all clusters: test_trace
def test_a_record_is_followed_over_all_clusters(estate) -> None:
    console = Console(estate.url, estate.token)
    name = f"traced-{uuid.uuid4().hex[:8]}"
    console.rest.ok("POST", STREAMS, {"name": name, "partitions": 1})

    def applied() -> dict[str, str] | None:
        row = console.rest.ok("GET", f"{STREAMS}/{name}")
        return row["technical_names"] if set(row["applied"].values()) == {"applied"} else None

    topics = eventually(applied, "the stream is applied")
    before = head(console)["position"]
    servers = {cluster: estate.bootstrap_servers(cluster) for cluster in topics}
    produce(servers["cluster-3"], topics["cluster-3"], [{"value": b"x", "partition": 0}])
    for cluster in topics:
        eventually(lambda at=cluster: read_all(servers[at], topics[at]), f"it is on {cluster}")
    asked = f"stream=acme/retail/prod/{name}&cluster=cluster-5&partition=0&offset=0"
    page = console.get(f"{PAGE}?{asked}")
    assert page.status_code == 200 and "On every cluster of the tree" in said(page)
    assert "Cluster cluster-3 Offset 0, still there" in said(page)
    copies = dict(re.findall(r'data-copy="([^"]*)">.*?<td class="code">(\d+)</td>', page.text, re.DOTALL))
    assert copies == {"cluster-2": "0001", "cluster-4": "0100", "cluster-1": "0010", "cluster-5": "0101"}
    # As of a position before its production no copy had arrived; as of a later one all had.
    earlier = console.get(f"{PAGE}?{asked}&at={before}")
    assert "after this position" in said(earlier) and "No copies had arrived by then." in said(earlier)
    assert sorted(re.findall(r'data-missing="([^"]*)" data-state="later"', earlier.text)) == sorted(copies)
    assert "Not arrived yet" in said(earlier) and "Missing now" not in said(earlier)
    console.rest.ok("POST", "/users", {"name": name, "role": "viewer"})
    later = console.get(f"{PAGE}?{asked}&at={head(console)['position']}")
    assert "Was on every cluster of the tree" in said(later) and len(re.findall("data-copy=", later.text)) == 4


def test_workers_look_at_what_is_observed(estate) -> None:
    console = Console(estate.url, estate.token)
    for path in ("/offsets", "/clusters/cluster-1/replication"):
        page = console.get(f"{path}?at={head(console)['position']}")
        assert "the observation of" in said(page), "the first look is taken as soon as workers run"
