"""Nodes of the zone router beside three real brokers, one node in each zone; and what clients say of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from backend.estate.ports import free_ports
from backend.parent_death import die_with_parent
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.placement_live.brokers import NODES, RACKS, Brokers

CLUSTER = "east"
_PORTS = 2 + len(NODES)
_SAMPLE = re.compile(r"^(treeline_zone_router_\w+?)(?:\{(.*)\})? (\S+)$")


@dataclass
class Node:
    """One process of the router."""

    name: str
    zone: str
    bootstrap: int
    brokers: dict[int, int]
    metrics: int
    file: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.bootstrap}"

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers.zone_router", "--file", str(self.file), "--node", self.name],
                cwd=PROJECT_ROOT,
                env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        eventually(lambda: self.metrics_text(), f"{self.name} is ready: {self.log.read_text()}")

    def end(self, *, kill: bool = False) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        if kill:
            process.kill()
        else:
            process.terminate()
        return process.wait(30)

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def metrics_text(self) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """Of one metric: the values of its labels, in the order of their names -> the sample."""
        found = {}
        for line in self.metrics_text().splitlines():
            if (match := _SAMPLE.match(line)) and match[1] == f"treeline_zone_router_{name}":
                labels = dict(part.split("=", 1) for part in match[2].split(",")) if match[2] else {}
                found[tuple(labels[key].strip('"') for key in sorted(labels))] = float(match[3])
        return found

    def refused(self, why: str) -> float:
        return self.samples("refused_total").get((why,), 0.0)

    def memory(self) -> int:
        """Resident bytes."""
        assert self.process is not None
        return int(psutil.Process(self.process.pid).memory_info().rss)


class Router:
    """All nodes."""

    def __init__(self, folder: Path, brokers: Brokers) -> None:
        self.brokers = brokers
        drawn: Iterator[int] = iter(free_ports(_PORTS * len(RACKS)))
        self.file = folder / "zone-router.yaml"
        self.nodes: dict[str, Node] = {}
        for zone in RACKS:
            bootstrap, metrics = next(drawn), next(drawn)
            ports = {broker: next(drawn) for broker in NODES}
            name = f"zr-{zone}"
            self.nodes[zone] = Node(name, zone, bootstrap, ports, metrics, self.file, folder / f"{name}.log")
        self.file.write_text(yaml.safe_dump(self._document()))

    def _document(self) -> dict[str, Any]:
        return {
            "zones": dict.fromkeys(RACKS),
            "clusters": {CLUSTER: {"bootstrap_servers": self.brokers.servers}},
            "nodes": {
                node.name: {
                    "zone": node.zone,
                    "host": "127.0.0.1",
                    "metrics": node.metrics,
                    "listeners": {CLUSTER: {"bootstrap": node.bootstrap, "brokers": node.brokers}},
                }
                for node in self.nodes.values()
            },
        }

    def start(self) -> None:
        for node in self.nodes.values():
            if not node.lives:
                node.start()

    def end(self) -> None:
        for node in self.nodes.values():
            node.end(kill=True)

    @property
    def ports_of_brokers(self) -> set[int]:
        """Where clients of a zone have no business."""
        return {int(server.rpartition(":")[2]) for server in self.brokers.servers.split(",")}

    def strays(self, zone: str, pid: int) -> set[int]:
        """Ports of brokers, and of other zones' nodes, that a process is connected to."""
        elsewhere = {
            port
            for other, node in self.nodes.items()
            if other != zone
            for port in (node.bootstrap, *node.brokers.values())
        }
        forbidden = elsewhere | self.ports_of_brokers
        connected = {each.raddr.port for each in psutil.Process(pid).net_connections("tcp") if each.raddr}
        return connected & forbidden


def client(node: Node, **config: Any) -> dict[str, Any]:
    """librdkafka's configuration of a client in the node's zone."""
    named = {key.replace("_", "."): value for key, value in config.items()}
    return {"bootstrap.servers": node.servers, "client.id": f"zone={node.zone}", "log_level": 0, **named}


def until(deadline_seconds: float) -> Iterator[None]:
    """Turns of a loop until a deadline."""
    end = time.monotonic() + deadline_seconds
    while time.monotonic() < end:
        yield


Labels = Mapping[tuple[str, ...], float]
