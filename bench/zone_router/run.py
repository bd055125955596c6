"""Measure the cost of the zone router: produce and consume through a node and without, in one run.

`passed`: requests go directly to the leader; `by mains`: produced data goes through the router channel (a local
folder) and the leader's main; `read in zone`: data consumed from leaders in other zones (two thirds) comes through
storage, too.

Three brokers on this machine, one replica, 1,000-byte records in batches of 64 KiB. Processor time is that of the
proxies and, after a plus, that of the mains; a GB is 10^9 bytes of records. Rounds alternate, and medians are
printed. Before each round memory is filled with page cache, unless `--memory-as-it-is` (see `page_cache`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import psutil

from bench.zone_router import page_cache
from tests.support.kafka.three_brokers import NODES, Brokers
from tests.support.zones.nodes import Node, Router

LOAD = Path(__file__).with_name("load.py")
ZONE = "az1"
PARTS = ("produce", "consume", "latency")
WAYS = ("direct", "passed", "by mains", "read in zone")
LEAST_OF_DIRECT = 0.5
MOST_CPU_SECONDS = 6.0
WINDOW_MS = 250


def loaded(what: str, servers: str, topic: str, megabytes: int) -> dict[str, Any]:
    words = [sys.executable, str(LOAD), what, servers, ZONE, topic, str(megabytes)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["failed"] == 0, found
    return found


def cpu_seconds(nodes: Iterable[Node]) -> float:
    """Return the CPU seconds of all nodes together."""
    total = 0.0
    for node in nodes:
        assert node.process is not None
        times = psutil.Process(node.process.pid).cpu_times()
        total += times.user + times.system
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory-as-it-is", action="store_true")
    given = parser.parse_args()
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        brokers = Brokers(Path(folder))
        routers: dict[str, Router] = {}
        try:
            brokers.start(*NODES)
            for way in WAYS[1:]:
                # One after the other, as free ports are only reserved by listening.
                by_channel, reads = way != "passed", {} if way == "read in zone" else None
                place = Path(folder) / way.replace(" ", "-")
                routers[way] = Router(place, brokers, channel=by_channel, apart=by_channel, reads=reads)
                routers[way].start()
            for turn in range(given.rounds):
                if not given.memory_as_it_is:
                    page_cache.fill(Path(folder))
                price = page_cache.price(Path(folder))
                print(f"{turn}: writing a GB into new files costs {price:.1f} CPU s", file=sys.stderr)
                for way in WAYS:
                    one_round(brokers, routers.get(way), way, turn, given.megabytes, found)
        finally:
            for router in routers.values():
                router.end()
            brokers.end()
    return printed(found)


def one_round(
    brokers: Brokers,
    router: Router | None,
    way: str,
    turn: int,
    megabytes: int,
    found: dict[tuple[str, str], list[dict[str, Any]]],
) -> None:
    topic = f"bench-{turn}-{way.replace(' ', '-')}"
    brokers.create(topic, [[1], [2], [3], [1], [2], [3]])
    for what in PARTS:
        size = megabytes if what != "latency" else min(megabytes, 50)
        proxies, mains = (router.nodes.values(), router.mains.values()) if router else ((), ())
        before = cpu_seconds(proxies), cpu_seconds(mains)
        seen = loaded(what, router.nodes[ZONE].servers if router else brokers.servers, topic, size)
        seen["cpu"] = (cpu_seconds(proxies) - before[0]) / size * 1_000
        seen["mains_cpu"] = (cpu_seconds(mains) - before[1]) / size * 1_000
        seen["rate"] = size / seen["seconds"]
        found[what, way].append(seen)
        print(f"{turn} {way} {what}: {seen}", file=sys.stderr)
    brokers.admin.delete_topics([topic])[topic].result(60)


def median(seen: list[dict[str, Any]], key: str) -> float:
    return statistics.median(each[key] for each in seen)


def printed(found: dict[tuple[str, str], list[dict[str, Any]]]) -> int:
    """Print a table; return 1 if a limit is exceeded."""
    failed = []
    print(f"| | {' | '.join(WAYS)} |\n|---{'|---:' * len(WAYS)}|")
    for what in ("produce", "consume"):
        cells = []
        for way in WAYS:
            rate, cpu = median(found[what, way], "rate"), median(found[what, way], "cpu")
            mains = median(found[what, way], "mains_cpu")
            spent = f", {cpu:.1f}{f' + {mains:.1f}' if mains > 0.05 else ''} CPU s a GB"
            cells.append(f"{rate:.0f} MB/s" + (spent if way != "direct" else ""))
            if rate < LEAST_OF_DIRECT * median(found[what, "direct"], "rate") or cpu > MOST_CPU_SECONDS:
                failed.append(f"{what} {way}")
        print(f"| {what} | {' | '.join(cells)} |")
    for key in ("p50_ms", "p99_ms"):
        cells = [f"{median(found['latency', way], key):.1f} ms" for way in WAYS]
        print(f"| produce at 5 MB/s, {key[:3]} | {' | '.join(cells)} |")
    for way in WAYS[2:]:
        if median(found["latency", way], "p99_ms") > WINDOW_MS + 20:
            failed.append(f"p99 {way}")
    if failed:
        print(f"limits exceeded: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
