"""A topic is deleted and re-created under its name while records flow: nothing is duplicated or missing."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.kafka.topics import DEADLINE_SECONDS, produce, read_all, topics

STREAMS = "/tenants/acme/instances/retail/environments/prod/streams"


@dataclass(frozen=True)
class Two:
    """Two clusters, and a stream of this test with two partitions."""

    rest: RestClient
    servers: dict[str, str]
    stream: str

    @property
    def topic(self) -> str:
        return f"acme-retail-prod-{self.stream}"

    def make_anew(self, cluster: str) -> None:
        servers = self.servers[cluster]
        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_topics([self.topic])[self.topic].result(DEADLINE_SECONDS)
        eventually(lambda: self.topic not in topics(servers), "deleted")
        admin.create_topics([NewTopic(self.topic, 2, 1)])[self.topic].result(DEADLINE_SECONDS)

    def recorded(self, cluster: str) -> bool:
        row = self.rest.ok("GET", f"{STREAMS}/{self.stream}")
        return row["incarnations"].get(cluster) == 2 and row["applied"][cluster] == "applied"

    def send(self, cluster: str, values: list[bytes]) -> None:
        records = [{"value": value, "partition": n % 2} for n, value in enumerate(values)]
        produce(self.servers[cluster], self.topic, records)

    def values(self, cluster: str) -> list[bytes]:
        return sorted(message.value() for message in read_all(self.servers[cluster], self.topic))


@pytest.fixture
def two(small, request):
    rest = RestClient(small.url, small.token)
    servers = {name: small.bootstrap_servers(name) for name in ("cluster-1", "cluster-2")}
    made = Two(rest, servers, request.node.name.replace("_", "-")[:60])
    rest.ok("POST", STREAMS, {"name": made.stream, "partitions": 2})
    eventually(
        lambda: set(rest.ok("GET", f"{STREAMS}/{made.stream}")["applied"].values()) == {"applied"},
        "applied on both",
    )
    return made


@pytest.mark.nightly
def test_a_targets_new_topic_gets_everything_again_exactly_once(two):
    sent, stop = [], threading.Event()

    def flow():
        while not stop.wait(0.05):
            batch = [b"%06d" % n for n in range(len(sent), len(sent) + 50)]
            two.send("cluster-1", batch)
            sent.extend(batch)

    thread = threading.Thread(target=flow)
    thread.start()
    try:
        eventually(lambda: len(two.values("cluster-2")) > 200, "records flow", 0.3)
        two.make_anew("cluster-2")
        eventually(lambda: two.recorded("cluster-2"), "the new topic is recorded", 0.3)
    finally:
        stop.set()
        thread.join()
    eventually(lambda: set(two.values("cluster-2")) == set(sent), "all on cluster-2", 0.5)
    assert two.values("cluster-2") == sent
    assert two.values("cluster-1") == sent


def test_a_sources_new_topic_is_not_taken_for_the_old_one_however_fast_it_grows(two):
    old, new = [b"old %03d" % n for n in range(100)], [b"new %03d" % n for n in range(400)]
    two.send("cluster-1", old)
    eventually(lambda: two.values("cluster-2") == old, "the old ones arrived", 0.3)
    two.make_anew("cluster-1")
    # Beyond every position in the old topic, before any poll has noticed.
    two.send("cluster-1", new)
    eventually(lambda: two.recorded("cluster-1"), "the new topic is recorded", 0.3)
    eventually(lambda: set(two.values("cluster-2")) >= set(new), "the new ones arrived", 0.5)
    assert two.values("cluster-2") == sorted(new + old)
    told = [each for each in two.rest.ok("GET", "/losses")["items"] if each["stream"].endswith(two.stream)]
    # No loss is certain; whether records were written after the last poll is unknown.
    assert {(each["partition"], each["first_offset"], each["at_least"]) for each in told} == {
        (0, 50, 0),
        (1, 50, 0),
    }
    assert {each["target"] for each in told} == {"cluster-2"}, "what comes to the new topic again is no loss"
    assert two.rest.ok("POST", "/losses/acknowledge", {"cluster": "cluster-1", "level": 1})
