"""Measure traffic between zones under load, counted independently of the router.

Three zones are network namespaces, joined by a router. Each has a broker, a node of the zone router that is its
main, a producer (5 MB/s; records of 1,000 bytes in batches of 64 KiB) and a consumer of all data. One topic, two
partitions led by each broker, three replicas. All frames between the zones are counted, and searched for a canary
that is in each value. `passed`: nodes forward requests directly to the leaders. Needs root.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from backend.parent_exit import exit_with_parent
from tests.eventually import eventually
from tests.kafka.zone_networks.clients import every_zone_reads_at_home, new_canary
from tests.kafka.zone_networks.lab import Lab, running
from tests.kafka.zone_networks.moved import Moved, moved_by
from tests.support.kafka.three_brokers import RACKS

LOAD = Path(__file__).with_name("load.py")
MEGABYTES_A_SECOND = 5
"""Rate of each producer, as in load.py."""
BY_STORAGE = "by storage"
WAYS = {"passed": False, BY_STORAGE: True}
LEAST_RATE = 10.0
MOST_CONTROL = 0.01


def begun(lab: Lab, zone: str, what: str, topic: str, megabytes: int, *more: str) -> subprocess.Popen[str]:
    """Start a client in a zone, which knows its own node."""
    words = [what, lab.router.nodes[zone].servers, zone, topic, str(megabytes), *more]
    with lab.namespaces.within(zone):
        return subprocess.Popen(
            [sys.executable, str(LOAD), *words], stdout=subprocess.PIPE, text=True, preexec_fn=exit_with_parent
        )


def told(client: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = client.communicate()
    assert client.returncode == 0, client.args
    found: dict[str, Any] = json.loads(said)
    assert found["failed"] == 0, found
    return found


@dataclass(frozen=True)
class Outcome:
    """Result of one configuration."""

    rate: float
    """MB/s of values produced, and read in each zone."""
    moved: Moved
    links: int
    """Bytes of the confirm WAL, which goes through object storage."""
    planes: set[str]
    """Planes in which the canary crossed zones."""

    def rows(self) -> dict[str, int]:
        """Return the bytes between zones."""
        traffic = self.moved.traffic
        return {
            "produced records": traffic.of_kind("produce"),
            "consumed records": traffic.of_kind("fetch"),
            "metadata and other requests": traffic.of_kind("control"),
            "announcements, polls and their responses": traffic.of_plane("route"),
            "confirm WAL, through object storage": self.links,
            "groups": traffic.of_kind("group"),
            "replication, Kafka's own": traffic.of_plane("replication"),
            "controllers, Kafka's own": traffic.of_plane("controller"),
            "unknown": traffic.of_plane("proxy", "unknown", "not TCP") + traffic.of_kind("unasked"),
        }


def run(lab: Lab, seconds: int) -> Outcome:
    """Run all clients concurrently."""
    eventually(lambda: every_zone_reads_at_home(lab), "nodes know all mains")
    topic, canary, each = lab.topic(), new_canary(), seconds * MEGABYTES_A_SECOND
    lab.counting.watch(canary)
    took: dict[str, float] = {}

    def load() -> None:
        clients = {f"produced in {zone}": begun(lab, zone, "steady", topic, each, canary) for zone in RACKS}
        clients |= {f"read in {zone}": begun(lab, zone, "consume", topic, each * len(RACKS)) for zone in RACKS}
        took.update({name: told(client)["seconds"] for name, client in clients.items()})

    cold, links = lab.cold_reads(), links_of(lab)
    moved = moved_by(lab, load)
    print(f"{took}\n{moved.traffic.table()}\n{dict(moved.counted)}", file=sys.stderr)
    print(f"partitions read from leaders in other zones: {lab.cold_reads() - cold:.0f}", file=sys.stderr)
    rate, written = each * len(RACKS) / max(took.values()), links_of(lab) - links
    return Outcome(rate, moved, written, moved.traffic.planes_with(canary))


def links_of(lab: Lab) -> int:
    """Return the bytes of all mains' confirm WALs."""
    samples = [node.samples("written_bytes_total") for node in lab.router.nodes.values()]
    return int(sum(each.get(("wal",), 0) for each in samples))


def table(found: dict[str, Outcome], produced: int) -> None:
    """Print bytes, and their share of the produced values."""
    print(f"| between zones, of {produced:,} bytes of values | {' | '.join(found)} |")
    print("|---" + "|---:" * len(found) + "|")
    rows = {way: outcome.rows() for way, outcome in found.items()}
    for what in next(iter(rows.values())):
        cells = (f"{mine[what]:,} ({mine[what] / produced:.2%})" for mine in rows.values())
        print(f"| {what} | {' | '.join(cells)} |")
    print(f"| planes with the canary | {' | '.join(', '.join(sorted(each.planes)) for each in found.values())} |")
    print(
        f"| MB/s produced, and read in each zone | {' | '.join(f'{each.rate:.1f}' for each in found.values())} |"
    )


def wrong(outcome: Outcome, produced: int) -> list[str]:
    """Return the limits that traffic, canary or rate violate."""
    rows = outcome.rows()
    found = [what for what in ("produced records", "consumed records", "unknown") if rows[what]]
    control = (
        "metadata and other requests",
        "announcements, polls and their responses",
        "confirm WAL, through object storage",
    )
    if sum(rows[what] for what in control) > MOST_CONTROL * produced:
        found.append("too much control traffic")
    if outcome.moved.crossing("produce") | outcome.moved.crossing("fetch"):
        found.append("payload by the router's own counters")
    if outcome.planes != {"replication"}:
        found.append(f"canary in {outcome.planes}")
    if outcome.rate < LEAST_RATE:
        found.append(f"only {outcome.rate:.1f} MB/s")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    seconds = parser.parse_args().seconds
    found = {}
    for way, by_storage in WAYS.items():
        with tempfile.TemporaryDirectory() as folder, running(Path(folder), by_storage=by_storage) as lab:
            found[way] = run(lab, seconds)
    produced = seconds * MEGABYTES_A_SECOND * len(RACKS) * 1_000_000
    table(found, produced)
    if failed := wrong(found[BY_STORAGE], produced):
        print(f"limits exceeded: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
