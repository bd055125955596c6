"""A topic is deleted and made anew under its name while records flow: nothing is there twice, nothing missing."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.estate_fixture import SMALL_ESTATE
from tests.eventually import eventually
from tests.kafka import DEADLINE_SECONDS, produce, read_all, topics
from tests.rest_client import RestClient

ORDERS = "/tenants/acme/instances/retail/environments/prod/streams/orders"
TOPIC = "acme-retail-prod-orders"


@pytest.fixture
def small(boot_estate):
    running = boot_estate(SMALL_ESTATE)
    assert running.booted.returncode == 0, running.booted.stderr
    rest = RestClient(running.url, running.token)
    eventually(lambda: set(rest.ok("GET", ORDERS)["applied"].values()) == {"applied"}, "applied on both")
    return {name: running.bootstrap_servers(name) for name in ("cluster-1", "cluster-2")}, rest


def make_anew(servers):
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([TOPIC])[TOPIC].result(DEADLINE_SECONDS)
    eventually(lambda: TOPIC not in topics(servers), "deleted")
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(DEADLINE_SECONDS)


def recorded(rest, cluster):
    row = rest.ok("GET", ORDERS)
    return row["incarnations"].get(cluster) == 2 and row["applied"][cluster] == "applied"


def values(servers):
    return sorted(message.value() for message in read_all(servers, TOPIC))


def test_a_targets_new_topic_gets_everything_again_exactly_once(small):
    servers, rest = small
    sent, stop = [], threading.Event()

    def flow():
        while not stop.wait(0.05):
            batch = [b"%06d" % n for n in range(len(sent), len(sent) + 50)]
            produce(servers["cluster-1"], TOPIC, [{"value": v, "partition": n % 2} for n, v in enumerate(batch)])
            sent.extend(batch)

    thread = threading.Thread(target=flow)
    thread.start()
    try:
        eventually(lambda: len(values(servers["cluster-2"])) > 200, "records flow", 0.3)
        make_anew(servers["cluster-2"])
        eventually(lambda: recorded(rest, "cluster-2"), "the new topic is recorded", 0.3)
    finally:
        stop.set()
        thread.join()
    eventually(lambda: set(values(servers["cluster-2"])) == set(sent), "all on cluster-2", 0.5)
    assert values(servers["cluster-2"]) == sent
    assert values(servers["cluster-1"]) == sent


def test_a_sources_new_topic_is_not_taken_for_the_old_one_however_fast_it_grows(small):
    servers, rest = small
    old, new = [b"old %03d" % n for n in range(100)], [b"new %03d" % n for n in range(400)]
    produce(servers["cluster-1"], TOPIC, [{"value": v, "partition": n % 2} for n, v in enumerate(old)])
    eventually(lambda: values(servers["cluster-2"]) == old, "the old ones arrived", 0.3)
    make_anew(servers["cluster-1"])
    # Beyond every position in the old topic, before anybody has noticed.
    produce(servers["cluster-1"], TOPIC, [{"value": v, "partition": n % 2} for n, v in enumerate(new)])
    eventually(lambda: recorded(rest, "cluster-1"), "the new topic is recorded", 0.3)
    eventually(lambda: set(values(servers["cluster-2"])) >= set(new), "the new ones arrived", 0.5)
    assert values(servers["cluster-2"]) == sorted(new + old)
