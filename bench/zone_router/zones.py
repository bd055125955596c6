"""What goes between zones under load, counted by somebody else than the router.

Three zones are network namespaces, joined by a router. In each: a broker, a node of the zone router that is its
main, a producer (5 MB/s; records of 1,000 bytes in batches of 64 KiB) and a consumer of all that is produced. One
topic, two partitions led by each broker, three replicas. All frames between the zones are counted, and looked
through for a canary that is in each value. Needs root.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from backend.parent_death import die_with_parent
from tests.eventually import eventually
from tests.placement_live.brokers import RACKS
from tests.zone_router_zones.clients import every_zone_reads_at_home, new_canary
from tests.zone_router_zones.counting import Traffic
from tests.zone_router_zones.lab import Lab, running
from tests.zone_router_zones.moved import moved_by

LOAD = Path(__file__).with_name("load.py")
MEGABYTES_A_SECOND = 5
"""Of each producer; as load.py has it."""
MOST_CONTROL = 0.01


def begun(lab: Lab, zone: str, what: str, topic: str, megabytes: int, *more: str) -> subprocess.Popen[str]:
    """A client in a zone, which knows its own node."""
    words = [what, lab.router.nodes[zone].servers, zone, topic, str(megabytes), *more]
    with lab.namespaces.within(zone):
        return subprocess.Popen(
            [sys.executable, str(LOAD), *words], stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent
        )


def told(client: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = client.communicate()
    found: dict[str, Any] = json.loads(said)
    assert found["failed"] == 0, found
    return found


def run(lab: Lab, seconds: int) -> int:
    """Prints tables; 1 if something crossed that should not, or too much of what may."""
    eventually(lambda: every_zone_reads_at_home(lab), "nodes know all mains")
    topic, canary, each = lab.topic(), new_canary(), seconds * MEGABYTES_A_SECOND
    lab.counting.watch(canary)
    cold, took = lab.cold_reads(), dict[str, float]()

    def load() -> None:
        clients = {f"produced in {zone}": begun(lab, zone, "steady", topic, each, canary) for zone in RACKS}
        clients |= {f"read in {zone}": begun(lab, zone, "consume", topic, each * len(RACKS)) for zone in RACKS}
        took.update({name: told(client)["seconds"] for name, client in clients.items()})

    moved = moved_by(lab, load)
    for name, spent in took.items():
        print(f"{name}: {spent:.1f} s", file=sys.stderr)
    print(moved.traffic.table(), file=sys.stderr)
    print(f"by the router: {dict(moved.counted)}", file=sys.stderr)
    print(f"partitions asked of other zones: {lab.cold_reads() - cold:.0f}", file=sys.stderr)
    crossed = moved.crossing("produce") | moved.crossing("fetch")
    planes = moved.traffic.planes_with(canary)
    rate = each * len(RACKS) / max(took.values())
    print(f"{rate:.1f} MB/s of values were produced, and read in each zone")
    print(f"by the router, client payload between zones: {sum(crossed.values())} bytes; canary in: {planes}")
    return shares(moved.traffic, each * len(RACKS) * 1_000_000) or int(bool(crossed) or planes != {"replication"})


def shares(traffic: Traffic, produced: int) -> int:
    """Of what was produced, once."""
    control = traffic.of_kind("control") + traffic.of_plane("route")
    rows = {
        "client payload (Produce, Fetch)": traffic.of_kind("produce", "fetch"),
        "control: metadata and such": traffic.of_kind("control"),
        "control: word of bulks, answers, polls": traffic.of_plane("route"),
        "control": control,
        "groups": traffic.of_kind("group"),
        "replication, Kafka's own": traffic.of_plane("replication"),
        "controllers, Kafka's own": traffic.of_plane("controller"),
    }
    print(f"| between zones, of {produced:,} bytes of values | bytes | share |\n|---|---:|---:|")
    for what, size in rows.items():
        print(f"| {what} | {size:,} | {size / produced:.3%} |")
    rest = traffic.sent.total() - traffic.of_plane("client", "route", "replication", "controller")
    return int(rows["client payload (Produce, Fetch)"] + rest > 0 or control > MOST_CONTROL * produced)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as lab:
        return run(lab, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
