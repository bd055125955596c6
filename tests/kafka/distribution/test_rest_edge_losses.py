"""Records that targets refuse, and lost ranges, on the real estate: reported, replayed, acknowledged."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.kafka.topics import DEADLINE_SECONDS, configure, produce, read_all

ESTATE = [f"cluster-{n}" for n in range(1, 6)]
STREAMS = "/tenants/acme/instances/retail/environments/prod/streams"
HOUR_MS = 3_600_000
FAR = {"message.timestamp.after.max.ms": str(96 * HOUR_MS)}


@pytest.fixture(scope="module")
def rest(estate):
    return RestClient(estate.url, estate.token)


class Stream:
    """A stream of one partition, on all clusters of the estate."""

    def __init__(self, estate, rest):
        name = f"odd-{uuid.uuid4().hex[:8]}"
        self.full = f"acme/retail/prod/{name}"
        rest.ok("POST", STREAMS, {"name": name, "partitions": 1})

        def applied():
            row = rest.ok("GET", f"{STREAMS}/{name}")
            return row if set(row["applied"].values()) == {"applied"} else None

        self.names = eventually(applied, "the stream is applied")["technical_names"]
        self.servers = {cluster: estate.bootstrap_servers(cluster) for cluster in ESTATE}

    def produce(self, cluster, *records):
        produce(self.servers[cluster], self.names[cluster], [{**record, "partition": 0} for record in records])

    def values(self, cluster):
        return [message.value() for message in read_all(self.servers[cluster], self.names[cluster])]


@pytest.fixture
def stream(estate, rest):
    return Stream(estate, rest)


def of(rest, path, stream):
    return [row for row in rest.ok("GET", f"{path}?limit=1000")["items"] if row["stream"] == stream.full]


@pytest.mark.nightly
def test_a_record_of_the_far_future_is_dead_lettered_and_comes_everywhere_once_it_is_replayed(rest, stream):
    configure(stream.servers["cluster-1"], stream.names["cluster-1"], FAR)
    late = {"value": b"late", "timestamp": int(time.time() * 1000) + 48 * HOUR_MS, "headers": [("h", b"1")]}
    stream.produce("cluster-1", {"value": b"before"}, late, {"value": b"after"})
    for cluster in ESTATE[1:]:
        eventually(lambda c=cluster: stream.values(c) == [b"before", b"after"], f"the others are on {cluster}")
    rows = eventually(lambda: len(found := of(rest, "/set-aside", stream)) == 2 and found, "both targets' rows")
    assert {(row["cluster"], row["target"], row["offset"], row["replayed"]) for row in rows} == {
        ("cluster-1", "cluster-2", 1, False),
        ("cluster-1", "cluster-4", 1, False),
    }
    assert all("timestamp" in row["reason"] for row in rows)
    degraded = {(row["cluster"], row["level"]): row for row in rest.ok("GET", "/trees/main/distributors")}
    assert "dead letter" in degraded["cluster-1", 2]["reason"]

    refused = rest("POST", "/set-aside/replay", {"id": rows[0]["id"]})
    assert refused.status_code == 409
    assert "still refuses" in refused.json()["detail"]
    for cluster in ESTATE[1:]:
        configure(stream.servers[cluster], stream.names[cluster], FAR)
    first = rest.ok("POST", "/set-aside/replay", {"id": rows[0]["id"]})
    assert sorted(first["written"]) == ESTATE[1:]
    assert first["missing"] == {}
    assert rest.ok("POST", "/set-aside/replay", {"id": rows[1]["id"]})["written"] == []
    assert [row["replayed"] for row in of(rest, "/set-aside", stream)] == [True, True]

    stream.produce("cluster-1", {"value": b"last"})
    for cluster in ESTATE[1:]:
        eventually(lambda c=cluster: b"last" in stream.values(c), f"later ones are on {cluster}")
        assert stream.values(cluster) == [b"before", b"after", b"late", b"last"]
    assert stream.values("cluster-1") == [b"before", b"late", b"after", b"last"]


def distributor(rest):
    return rest.ok("GET", "/trees/main/distributors/cluster-3/1")


# Named exactly in test_copy_session; acknowledged in test_rest_distributors and test_losses_page.
@pytest.mark.nightly
def test_records_that_were_gone_are_named_exactly_and_acknowledged(rest, stream):
    stream.produce("cluster-3", {"value": b"first"})
    eventually(lambda: stream.values("cluster-2") == [b"first"], "copied")
    rest.ok("PATCH", "/trees/main/distributors/cluster-3/1", {"paused": True})
    eventually(lambda: distributor(rest)["state"] == "paused", "paused")
    stream.produce("cluster-3", *({"value": b"%d" % n} for n in range(10)))
    for elsewhere in ("cluster-1", "cluster-4", "cluster-5"):
        # Otherwise a late one loses them, too.
        eventually(lambda there=elsewhere: len(stream.values(there)) == 11, f"{elsewhere} has all")
    admin = AdminClient({"bootstrap.servers": stream.servers["cluster-3"]})
    (deleted,) = admin.delete_records([TopicPartition(stream.names["cluster-3"], 0, 7)]).values()
    deleted.result(DEADLINE_SECONDS)
    # Records fetched before the pause are kept; another compression makes it start at its position.
    rest.ok("PATCH", "/trees/main/distributors/cluster-3/1", {"paused": False, "compression": "zstd"})
    eventually(lambda: len(stream.values("cluster-2")) == 1 + 4, "what is left is copied")
    (row,) = eventually(lambda: of(rest, "/losses", stream), "the loss is told")
    place = (row["cluster"], row["level"], row["target"], row["partition"])
    assert place == ("cluster-3", 1, "cluster-2", 0)
    assert (row["first_offset"], row["last_offset"], row["acknowledged"]) == (1, 6, False)
    rest.ok("POST", "/losses/acknowledge", {"cluster": "cluster-3", "level": 1})
    assert [row["acknowledged"] for row in of(rest, "/losses", stream)] == [True]
    rest.ok("PATCH", "/trees/main/distributors/cluster-3/1", {"compression": "none"})


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/set-aside/replay", {"id": "nothing like it"}, 404),
        ("/set-aside/replay", {}, 422),
        ("/losses/acknowledge", {"cluster": "cluster-9", "level": 1}, 404),
        ("/losses/acknowledge", {"cluster": "cluster-1", "level": 0}, 422),
    ],
)
def test_what_is_not_there_is_refused(rest, path, body, status):
    assert rest("POST", path, body).status_code == status
