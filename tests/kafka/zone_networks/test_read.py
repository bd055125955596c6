"""Data read through a zone's node equals the leaders', and does not cross zones."""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.kafka.zone_networks.clients import Record, every_zone_reads_at_home, everywhere, leaders_logs, read
from tests.kafka.zone_networks.lab import Lab
from tests.kafka.zone_networks.moved import PAYLOAD, Moved, Produced, assert_nobody_strays, moved_by
from tests.support.kafka.three_brokers import RACKS

Seen = dict[tuple[str, str], list[Record]]


@pytest.fixture(scope="module")
def seen(lab: Lab, produced: Produced) -> tuple[Seen, Moved]:
    """Read with clients of both families in all zones, each through its zone's node, from all leaders."""
    eventually(
        lambda: every_zone_reads_at_home(lab), "nodes know all mains, which they ask for when one first reads"
    )
    count = sum(map(len, produced.records.values()))
    found: Seen = {}

    def work() -> None:
        found.update(everywhere(lab, lambda zone, family: read(lab, produced.topic, zone, family, count)))

    moved = moved_by(lab, work)
    return found, moved


def test_everybody_reads_what_the_leaders_have(lab: Lab, produced: Produced, seen: tuple[Seen, Moved]):
    log = leaders_logs(lab, produced.topic)
    for reader, found in seen[0].items():
        assert found == log, reader
    assert_nobody_strays(seen[1].traffic)


def test_what_is_read_stays_in_its_zone_by_the_routers_counters(seen: tuple[Seen, Moved]):
    assert seen[1].crossing("fetch") == {}
    for zone in RACKS:
        assert seen[1].within(zone, "fetch") > PAYLOAD * len(RACKS) * 2


def test_what_is_read_crosses_no_border_by_the_count_of_frames(seen: tuple[Seen, Moved]):
    traffic = seen[1].traffic
    assert traffic.of_kind("produce", "fetch") == 0, traffic.table()


def test_what_is_read_is_nowhere_between_zones(produced: Produced, seen: tuple[Seen, Moved]):
    traffic = seen[1].traffic
    assert traffic.planes_with(produced.canary) == set(), traffic.found
