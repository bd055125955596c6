"""One record traced through the real estate, from any of its copies."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from backend.cluster_requests import tracing
from backend.cluster_requests.trace_facts import TraceFacts
from backend.domain.base.errors import ClusterSilent
from backend.domain.distribution.trace import DistributorSeen, TreeVersion
from backend.domain.records import copy_flags, origin
from backend.domain.tree import routes, tree_shape
from backend.domain.tree.tree import clusters_of
from backend.kafka.search.record_search import Place
from backend.queries.distribution.traced_streams import TracedStream
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.api.rest_client import RestClient

STREAM = "acme/retail/prod/payments"
CLOCKS_MS = 1_000
"""Far more than the observed difference of the clocks of two processes on one machine (10 ms)."""
ESTATE = [f"cluster-{n}" for n in range(1, 6)]


@pytest.fixture(scope="module")
def rest(estate):
    return RestClient(estate.url, estate.token)


def technical_name(rest, cluster):
    path = "/tenants/acme/instances/retail/environments/prod/streams/payments"
    return rest.ok("GET", path)["technical_names"][cluster]


def produced(estate, rest, cluster, partition=0, headers=None, transactional_id=None, end="commit"):
    """Produce a record on a cluster; return its offset and time."""
    found = []
    config = {"bootstrap.servers": estate.bootstrap_servers(cluster)}
    if transactional_id:
        config["transactional.id"] = transactional_id
    producer = Producer(config)
    if transactional_id:
        producer.init_transactions(30)
        producer.begin_transaction()
    before = int(time.time() * 1000)
    producer.produce(
        technical_name(rest, cluster),
        b"traced",
        partition=partition,
        headers=headers,
        on_delivery=lambda error, message: found.append(message.offset()),
    )
    producer.flush()
    if transactional_id:
        (producer.commit_transaction if end == "commit" else producer.abort_transaction)(30)
    (offset,) = found
    return offset, before


def asked(cluster, offset, stream=STREAM, partition=0):
    return f"/trace?cluster={cluster}&stream={stream}&partition={partition}&offset={offset}"


def complete(rest, cluster, offset, **place):
    """Return the trace once nothing is missing."""

    def look():
        found = rest.ok("GET", asked(cluster, offset, **place))
        return found if not found["missing"] else None

    return eventually(look, f"offset {offset} of {cluster} is everywhere", every_seconds=0.3)


@some_now("born", ESTATE, now=(3,))
def test_any_copy_tells_the_whole_way(estate, rest, born):
    offset, before = produced(estate, rest, born)
    found = complete(rest, born, offset)
    assert found["origin"]["cluster"] == born
    assert (found["origin"]["offset"], found["origin"]["present"]) == (offset, True)
    document = rest.ok("GET", "/trees/main")["root"]
    root = tree_shape.parse(document, clusters_of(document))
    rows = rest.ok("GET", "/trees/main/distributors")
    targets = {(row["cluster"], row["level"]): row["target"] for row in rows}
    route = routes.routes(root, targets)[born]
    assert {(copy["cluster"], copy["copy_flags"], copy["from"]) for copy in found["copies"]} == {
        (edge.target, copy_flags.text(edge.flags), edge.source) for edge in route
    }
    assert [copy["hops"] for copy in found["copies"]] == sorted(copy["hops"] for copy in found["copies"])
    arrived = {born: before} | {copy["cluster"]: copy["arrived_at_ms"] for copy in found["copies"]}
    for copy in found["copies"]:
        assert copy["from_certain"]
        assert copy["arrived_at_ms"]
        assert arrived[copy["from"]] - CLOCKS_MS <= copy["arrived_at_ms"] <= time.time() * 1000 + CLOCKS_MS
    for copy in found["copies"]:
        assert rest.ok("GET", asked(copy["cluster"], copy["offset"])) == found


def test_a_record_with_the_headers_of_another_is_its_own(estate, rest):
    """Check a stream processor on cluster-2 that passes a copy's headers on into the same stream and partition."""
    offset, _ = produced(estate, rest, "cluster-1")
    first = complete(rest, "cluster-1", offset)
    number = first["origin"]["number"]
    header = origin.encode(origin.Origin(number, origin.stream_id(STREAM), 0, offset, 1))
    headers = [("copy-flags", copy_flags.encode(2)), ("copy-origin", header)]
    passed_on, _ = produced(estate, rest, "cluster-2", headers=headers)
    found = complete(rest, "cluster-2", passed_on)
    assert (found["origin"]["cluster"], found["origin"]["offset"]) == ("cluster-2", passed_on)
    assert {copy["cluster"] for copy in found["copies"]} == {*ESTATE} - {"cluster-2"}
    assert complete(rest, "cluster-1", offset) == first


def test_a_copy_that_names_no_origin_cannot_be_followed(estate, rest):
    """Check records from a time with TREELINE_ORIGIN_HEADER=false."""
    flags = copy_flags.encode(copy_flags.mask(copy_flags.HIGHEST_LEVEL))
    offset, _ = produced(estate, rest, "cluster-2", headers=[("copy-flags", flags)])
    refused = rest("GET", asked("cluster-2", offset))
    assert refused.status_code == 409
    assert "names no origin" in refused.json()["detail"]


def test_an_offset_without_a_record_says_why(estate, rest):
    offset, _ = produced(estate, rest, "cluster-3", 1, transactional_id="test.trace")
    complete(rest, "cluster-3", offset, partition=1)
    marker = rest("GET", asked("cluster-3", offset + 1, partition=1))
    assert marker.status_code == 404
    assert "transaction marker" in marker.json()["detail"]
    aborted, _ = produced(estate, rest, "cluster-3", 1, transactional_id="test.trace", end="abort")
    gone = rest("GET", asked("cluster-3", aborted, partition=1))
    assert gone.status_code == 404
    assert "aborted" in gone.json()["detail"]
    beyond = rest("GET", asked("cluster-3", 10**9, partition=1))
    assert beyond.status_code == 404
    assert f"offsets 0 to {aborted + 1}" in beyond.json()["detail"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("cluster=nowhere&stream={s}&partition=0&offset=0", 404),
        ("cluster=Cluster-1%00&stream={s}&partition=0&offset=0", 404),
        ("cluster=cluster-1&stream=acme/retail/prod/unknown&partition=0&offset=0", 404),
        ("cluster=cluster-1&stream=acme&partition=0&offset=0", 404),
        ("cluster=cluster-1&stream=_treeline.%00&partition=0&offset=0", 404),
        ("cluster=cluster-1&stream=__consumer_offsets&partition=0&offset=0", 404),
        ("cluster=cluster-1&stream=&partition=0&offset=0", 404),
        ("cluster=cluster-1&stream={s}&partition=4&offset=0", 422),
        ("cluster=cluster-1&stream={s}&partition=-1&offset=0", 422),
        ("cluster=cluster-1&stream={s}&partition=zero&offset=0", 422),
        ("cluster=cluster-1&stream={s}&partition=0&offset=-1", 422),
        ("cluster=cluster-1&stream={s}&partition=0&offset=99999999999999999999", 422),
        ("cluster=cluster-1&stream={s}&partition=0", 422),
        ("cluster=cluster-1&stream={s}&partition=0&offset=0&at=3", 422),
        ("stream={s}&partition=0&offset=0", 422),
    ],
)
def test_bad_questions_are_refused_in_words(rest, query, status):
    answer = rest("GET", "/trace?" + query.format(s=STREAM))
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


def test_the_command_shows_the_way(estate, rest):
    offset, _ = produced(estate, rest, "cluster-5")
    complete(rest, "cluster-5", offset)
    words = ("trace", STREAM, "0", str(offset), "--cluster", "cluster-5")
    found = estate.treeline(*words, "--json")
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert {document["origin"]["cluster"], *(copy["cluster"] for copy in document["copies"])} == {*ESTATE}
    shown = estate.treeline(*words)
    assert (shown.returncode, "cluster-4" in shown.stdout) == (0, True)


@pytest.mark.nightly
def test_the_command_shows_the_way_of_a_verified_record(estate):
    ran = estate.treeline("verify", "--records", "20", "--json")
    assert ran.returncode == 0, ran.stderr
    found = estate.treeline("trace", "_treeline.verify", "2", "0", "--cluster", "cluster-4", "--json")
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert {document["origin"]["cluster"], *(copy["cluster"] for copy in document["copies"])} == {*ESTATE}
    shown = estate.treeline("trace", "_treeline.verify", "2", "0", "--cluster", "cluster-4")
    assert (shown.returncode, "first" in shown.stdout) == (0, True)
    refused = estate.treeline("trace", "_treeline.verify", "2", "999999999", "--cluster", "cluster-4")
    assert refused.returncode == 1
    assert "offsets" in refused.stderr


# --- clusters that are away


@pytest.fixture
def known(estate, rest, monkeypatch):
    """Return the facts of a record that is everywhere, and its offset on cluster-1."""
    monkeypatch.setattr(tracing, "SECONDS", 3.0)
    offset, _ = produced(estate, rest, "cluster-1", 3)
    complete(rest, "cluster-1", offset, partition=3)
    document = rest.ok("GET", "/trees/main")["root"]
    root = tree_shape.parse(document, clusters_of(document))
    topics = {cluster: technical_name(rest, cluster) for cluster in ESTATE}
    numbers = {cluster: rest.ok("GET", f"/clusters/{cluster}")["number"] for cluster in ESTATE}
    found = TraceFacts(
        stream=TracedStream(
            STREAM, 4, True, False, topics, dict.fromkeys(ESTATE, 1), {name: {} for name in ESTATE}, {}
        ),
        partition=3,
        clusters=numbers,
        names={number: cluster for cluster, number in numbers.items()},
        roots={},
        places={cluster: Place(estate.bootstrap_servers(cluster), {}, topics[cluster], 3) for cluster in ESTATE},
        absent={},
        unreachable={},
        versions=[TreeVersion(root, tree_shape.default_targets(root), 0, None)],
        distributors={},
        flags_header="copy-flags",
        origin_header="copy-origin",
    )
    return found, offset


def away(known, *clusters):
    nowhere = {name: replace(known.places[name], bootstrap_servers="127.0.0.1:9") for name in clusters}
    return replace(known, places={**known.places, **nowhere})


def test_a_cluster_that_does_not_answer_is_unknown_not_absent(known):
    found, offset = known
    traced = tracing.run(away(found, "cluster-4"), "cluster-1", offset)
    assert {copy.cluster for copy in traced.copies} == {"cluster-2", "cluster-3", "cluster-5"}
    (missing,) = traced.missing
    assert (missing.cluster, missing.state) == ("cluster-4", "unknown")
    assert missing.reason.startswith("unknown: cluster-4 does not answer")


@pytest.mark.nightly  # a cluster that does not answer stays
def test_the_way_is_told_while_the_origins_cluster_is_away(known):
    found, offset = known
    here = next(copy for copy in tracing.run(found, "cluster-1", offset).copies if copy.cluster == "cluster-5")
    traced = tracing.run(away(found, "cluster-1"), "cluster-5", here.offset)
    assert (traced.origin.cluster, traced.origin.offset, traced.origin.present) == ("cluster-1", offset, None)
    assert len(traced.copies) == 4
    assert traced.missing == ()


@pytest.mark.nightly  # a cluster that does not answer stays
def test_a_cluster_that_is_asked_and_silent_is_told(known):
    found, offset = known
    with pytest.raises(ClusterSilent) as silent:
        tracing.run(away(found, "cluster-1"), "cluster-1", offset)
    assert "cluster-1 does not answer" in silent.value.detail


def test_a_copy_that_is_not_there_is_explained_by_its_distributor(known):
    """Check a topic without the record, which stands for a cluster that it has not reached."""
    found, offset = known
    elsewhere = replace(found.places["cluster-4"], topic="acme-prod-orders")
    facts = replace(
        found,
        places={**found.places, "cluster-4": elsewhere},
        distributors={("cluster-1", 3): DistributorSeen("paused", None, 1)},
    )
    traced = tracing.run(facts, "cluster-1", offset)
    assert [(each.cluster, each.state, each.reason) for each in traced.missing] == [
        ("cluster-4", "absent", "distributor cluster-1:3 is paused")
    ]
