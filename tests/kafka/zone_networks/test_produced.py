"""Data produced through a zone's node reaches leaders in all zones, and none of it crosses by network.

Three independent sources confirm it: the router's counters, a count of all frames between the zones, and a canary
in each value, searched for in all traffic. Replication between brokers is Kafka's own.
"""

from __future__ import annotations

from itertools import permutations

from tests.kafka.zone_networks.clients import leaders_logs, new_canary, produce_by, read_by, records_of
from tests.kafka.zone_networks.lab import Lab
from tests.kafka.zone_networks.moved import PAYLOAD, SIZE, Produced, assert_nobody_strays, moved_by
from tests.support.kafka.three_brokers import RACKS


def test_each_record_is_in_its_leaders_log_once(lab: Lab, produced: Produced):
    log = leaders_logs(lab, produced.topic)
    wanted = {key: value for each in produced.records.values() for key, value in each.items()}
    assert {each.key: each.value for each in log} == wanted and len(log) == len(wanted)
    for producer, mine in produced.records.items():
        leaders = {each.partition % len(RACKS) for each in log if each.key in mine}
        assert leaders == {0, 1, 2}, f"{producer} has produced to leaders in all zones"


def test_what_is_produced_stays_in_its_zone_by_the_routers_counters(produced: Produced):
    assert produced.moved.crossing("produce") == {}
    for zone in RACKS:
        assert produced.moved.within(zone, "produce") > PAYLOAD


def test_what_is_produced_crosses_no_border_by_the_count_of_frames(produced: Produced):
    traffic = produced.moved.traffic
    assert traffic.of_kind("produce") == 0, traffic.table()
    assert_nobody_strays(traffic)


def test_what_is_produced_is_nowhere_between_zones_but_in_replication(produced: Produced):
    traffic = produced.moved.traffic
    assert traffic.planes_with(produced.canary) == {"replication"}, traffic.found
    assert {(start, end) for _, start, end, _ in traffic.found} == set(permutations(RACKS, 2)), (
        "it is found where it is"
    )


def test_a_client_that_goes_to_brokers_itself_is_seen(lab: Lab):
    """The test proves that the checks above would have found cross-zone data."""
    topic, canary = lab.topic(), new_canary()
    lab.counting.watch(canary)

    config = {"bootstrap.servers": lab.brokers.servers, "log_level": 0}

    def write() -> None:
        with lab.namespaces.within("az1"):
            produce_by(config, topic, records_of("az1", "librdkafka", canary, 60, SIZE))

    def look() -> None:
        with lab.namespaces.within("az1"):
            read_by(config | {"group.id": topic, "auto.offset.reset": "earliest"}, topic, 60)

    written, read = moved_by(lab, write).traffic, moved_by(lab, look).traffic
    for zone in ("az2", "az3"):
        assert 20 * SIZE < written.kinds["az1", zone, "client", "produce"] < 30 * SIZE
        assert 20 * SIZE < read.kinds[zone, "az1", "client", "fetch"] < 30 * SIZE
        assert written.found[canary, "az1", zone, "client"] > 0 < read.found[canary, zone, "az1", "client"]
