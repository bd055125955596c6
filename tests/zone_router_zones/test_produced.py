"""What clients produce by their zone's node comes to leaders in all zones, and not a byte of it by the network.

Told by three that know nothing of each other: the router's counters, a count of all frames between the zones, and
a canary in each value, looked for in all that went there. Replication between brokers is Kafka's own.
"""

from __future__ import annotations

from itertools import permutations

from tests.placement_live.brokers import RACKS
from tests.zone_router_zones.clients import (
    FAMILIES,
    everywhere,
    leaders_logs,
    new_canary,
    produce,
    produce_by,
    read,
    records_of,
)
from tests.zone_router_zones.counting import Traffic
from tests.zone_router_zones.lab import Lab

COUNT, SIZE = 400, 1_000


def test_what_is_produced_crosses_no_border_and_is_read_as_its_leader_has_it(lab: Lab):
    topic, canary = lab.topic(), new_canary()
    records = {
        (zone, family): records_of(zone, family, canary, COUNT, SIZE) for zone in RACKS for family in FAMILIES
    }
    lab.counting.watch(canary)
    before, counted_before = lab.counting.traffic(), lab.counted_by_nodes()
    everywhere(lab, lambda zone, family: produce(lab, topic, zone, family, records[zone, family]))
    traffic, counted = lab.counting.traffic().since(before), lab.counted_by_nodes()

    produced = {key: value for each in records.values() for key, value in each.items()}
    log = leaders_logs(lab, topic)
    assert {each.key: each.value for each in log} == produced and len(log) == len(produced)
    assert all(
        {each.partition % 3 for each in log if each.key in mine} == {0, 1, 2} for mine in records.values()
    ), "each has produced to leaders in all zones"

    grown = {hop: count - counted_before.get(hop, 0) for hop, count in counted.items()}
    for start in RACKS:
        assert grown[start, "produce", start] > COUNT * len(FAMILIES) * SIZE
    assert {hop: size for hop, size in grown.items() if hop[1] == "produce" and hop[0] != hop[2] and size} == {}
    assert traffic.of_kind("produce") == 0, traffic.table()
    assert_nobody_strays(traffic)
    assert traffic.planes_with(canary) == {"replication"}
    assert {way[1:3] for way in traffic.found} == set(permutations(RACKS, 2)), "it is found where it is"

    seen = everywhere(lab, lambda zone, family: read(lab, topic, zone, family, len(log)))
    for reader, found in seen.items():
        assert found == log, reader


def assert_nobody_strays(traffic: Traffic) -> None:
    """Nobody speaks to another zone's proxy, or to what is not known."""
    known = traffic.of_plane("client", "route", "replication", "controller")
    assert known == traffic.sent.total() and traffic.of_kind("unasked") == 0, traffic.table()


def test_a_client_that_goes_to_brokers_itself_is_seen(lab: Lab):
    """So what finds nothing above would have found something."""
    topic, canary = lab.topic(), new_canary()
    lab.counting.watch(canary)
    before = lab.counting.traffic()
    with lab.namespaces.within("az1"):
        config = {"bootstrap.servers": lab.brokers.servers, "log_level": 0}
        produce_by(config, topic, records_of("az1", "librdkafka", canary, 60, SIZE))
    traffic = lab.counting.traffic().since(before)
    for zone in ("az2", "az3"):
        assert 20 * SIZE < traffic.kinds["az1", zone, "client", "produce"] < 30 * SIZE
        assert traffic.found[canary, "az1", zone, "client"] > 0
