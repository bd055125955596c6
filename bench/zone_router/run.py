"""What the zone router costs: producing and consuming through a node against the same without, in one run.

Three brokers on this machine, one replica, 1,000-byte records in batches of 64 KiB. The node's processor time is
that of its process; a GB is 10^9 bytes of records. Rounds take turns, and medians are told.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import psutil

from tests.placement_live.brokers import NODES, Brokers
from tests.zone_router_live.nodes import Node, Router

LOAD = Path(__file__).with_name("load.py")
ZONE = "az1"
PARTS = ("produce", "consume", "latency")
LEAST_OF_DIRECT = 0.5
MOST_CPU_SECONDS = 6.0


def loaded(what: str, servers: str, topic: str, megabytes: int) -> dict[str, Any]:
    words = [sys.executable, str(LOAD), what, servers, ZONE, topic, str(megabytes)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["failed"] == 0, found
    return found


def cpu_seconds(node: Node) -> float:
    assert node.process is not None
    times = psutil.Process(node.process.pid).cpu_times()
    return float(times.user + times.system)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        brokers = Brokers(Path(folder))
        router = Router(Path(folder), brokers)
        try:
            brokers.start(*NODES)
            router.start()
            node = router.nodes[ZONE]
            for turn in range(given.rounds):
                for way, servers in (("direct", brokers.servers), ("node", node.servers)):
                    topic = f"bench-{turn}-{way}"
                    brokers.create(topic, [[1], [2], [3], [1], [2], [3]])
                    for what in PARTS:
                        size = given.megabytes if what != "latency" else min(given.megabytes, 50)
                        before = cpu_seconds(node)
                        seen = loaded(what, servers, topic, size)
                        seen["cpu"] = (cpu_seconds(node) - before) / size * 1_000
                        seen["rate"] = size / seen["seconds"]
                        found[what, way].append(seen)
                        print(f"{turn} {way} {what}: {seen}", file=sys.stderr)
                    brokers.admin.delete_topics([topic])[topic].result(60)
        finally:
            router.end()
            brokers.end()
    return told(found)


def median(seen: list[dict[str, Any]], key: str) -> float:
    return statistics.median(each[key] for each in seen)


def told(found: dict[tuple[str, str], list[dict[str, Any]]]) -> int:
    """A table; 1 if a limit is not kept."""
    failed = []
    print("| | direct | through a node | of direct | node, CPU s a GB |\n|---|---:|---:|---:|---:|")
    for what in ("produce", "consume"):
        direct, node = found[what, "direct"], found[what, "node"]
        share, cpu = median(node, "rate") / median(direct, "rate"), median(node, "cpu")
        rates = f"{median(direct, 'rate'):.0f} MB/s | {median(node, 'rate'):.0f} MB/s"
        print(f"| {what} | {rates} | {share:.0%} | {cpu:.2f} |")
        if share < LEAST_OF_DIRECT or cpu > MOST_CPU_SECONDS:
            failed.append(what)
    for key in ("p50_ms", "p99_ms"):
        direct, node = median(found["latency", "direct"], key), median(found["latency", "node"], key)
        print(f"| produce at 5 MB/s, {key[:3]} | {direct:.1f} ms | {node:.1f} ms | | |")
    if failed:
        print(f"beyond its limits: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
