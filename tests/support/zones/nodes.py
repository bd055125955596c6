"""Nodes of the zone router beside three real brokers, one in each zone, and clients' views of them."""

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
import pytest
import yaml
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from backend.estate.ports import free_ports
from backend.parent_exit import exit_with_parent
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.nightly import some_now
from tests.support.kafka.three_brokers import HERE, NODES, RACKS, Brokers, Site

WAYS = PASSED, BY_MAINS = "passed", "by mains"
"""Ways of produced data: directly to the leader, or through the router channel and the leader's main."""
BOTH_WAYS = pytest.mark.parametrize("router", WAYS, indirect=True)
"""Parameters for tests that differ by way; all requests but Produce use the same code in both."""
BY_MAINS_NOW = some_now("router", WAYS, now=(1,), indirect=True)
"""The same, of which `make test` goes the longer way."""
CLUSTER = "east"
_PORTS = 3 + len(NODES)
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
    site: Site = HERE
    process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return f"{self.site.host}:{self.bootstrap}"

    def start(self) -> None:
        self.begin()
        self.until_ready()

    def begin(self) -> None:
        with self.log.open("ab") as output, self.site.within():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers.zone_router", "--file", str(self.file), "--node", self.name],
                cwd=PROJECT_ROOT,
                env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=exit_with_parent,
            )

    def until_ready(self) -> None:
        eventually(lambda: not self.lives or self.metrics_text(), f"{self.name} is ready")
        assert self.lives, self.log.read_text()

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
        url = f"http://{self.site.host}:{self.metrics}/metrics"
        try:
            with self.site.within(), urllib.request.urlopen(url, timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the samples of a metric by the values of its labels, in the order of label names."""
        found = {}
        for line in self.metrics_text().splitlines():
            if (match := _SAMPLE.match(line)) and match[1] == f"treeline_zone_router_{name}":
                labels = dict(part.split("=", 1) for part in match[2].split(",")) if match[2] else {}
                found[tuple(labels[key].strip('"') for key in sorted(labels))] = float(match[3])
        return found

    def refused(self, why: str) -> float:
        return self.samples("refused_total").get((why,), 0.0)

    def memory(self) -> int:
        """Return the resident memory in bytes."""
        assert self.process is not None
        return int(psutil.Process(self.process.pid).memory_info().rss)


class Router:
    """All nodes.

    With a channel, each node is also the main of its zone's broker, or has one beside it (`apart`).
    """

    def __init__(
        self,
        folder: Path,
        brokers: Brokers,
        *,
        channel: bool = False,
        apart: bool = False,
        reads: Mapping[str, Any] | None = None,
        control: Mapping[str, str] | None = None,
    ) -> None:
        self.brokers, self._apart, self._reads, self._control = brokers, apart, reads, control
        folder.mkdir(exist_ok=True)
        self.channel = folder / "channel" if channel else None
        drawn: Iterator[int] = iter(free_ports((_PORTS + 1) * len(RACKS)))
        self.main_ports = {zone: next(drawn) for zone in RACKS}
        self.file = folder / "zone-router.yaml"
        self.nodes: dict[str, Node] = {}
        for zone in RACKS:
            bootstrap, metrics = next(drawn), next(drawn)
            ports = {broker: next(drawn) for broker in NODES}
            name = f"zr-{zone}"
            log, site = folder / f"{name}.log", brokers.sites[zone]
            self.nodes[zone] = Node(name, zone, bootstrap, ports, metrics, self.file, log, site)
        self.mains: dict[str, Node] = {}
        if apart:
            for zone in RACKS:
                log = folder / f"main-{zone}.log"
                site = brokers.sites[zone]
                self.mains[zone] = Node(f"main-{zone}", zone, 0, {}, next(drawn), self.file, log, site)
        self.file.write_text(yaml.safe_dump(self._document()))

    def _document(self) -> dict[str, Any]:
        return {
            "zones": dict.fromkeys(RACKS),
            **({"channel": {"url": f"file://{self.channel}"}} if self.channel else {}),
            **({"reads": dict(self._reads)} if self._reads is not None else {}),
            **({"control": dict(self._control)} if self._control else {}),
            "clusters": {CLUSTER: {"bootstrap_servers": self.brokers.servers}},
            "nodes": {
                node.name: {
                    **self._of_the_channel(node.zone),
                    "zone": node.zone,
                    "host": node.site.host,
                    "metrics": node.metrics,
                    "listeners": {CLUSTER: {"bootstrap": node.bootstrap, "brokers": node.brokers}},
                }
                for node in self.nodes.values()
            }
            | {
                main.name: {"zone": zone, "host": main.site.host, "metrics": main.metrics, **self._main(zone)}
                for zone, main in self.mains.items()
            },
        }

    def _main(self, zone: str) -> dict[str, Any]:
        return {"main": {"cluster": CLUSTER, "broker": RACKS.index(zone) + 1, "port": self.main_ports[zone]}}

    def _of_the_channel(self, zone: str) -> dict[str, Any]:
        if self.channel is None:
            return {}
        return {"id": RACKS.index(zone) + 1, **({} if self._apart else self._main(zone))}

    def twin(self, node: Node) -> Node:
        """Return a node of the same name and id that listens on other ports."""
        drawn = iter(free_ports(_PORTS))
        bootstrap, metrics, main = next(drawn), next(drawn), next(drawn)
        brokers = {broker: next(drawn) for broker in NODES}
        file = self.file.with_name(f"twin-of-{node.name}.yaml")
        log = file.with_suffix(".log")
        twin = Node(node.name, node.zone, bootstrap, brokers, metrics, file, log, node.site)
        document = self._document()
        document["nodes"][node.name] |= {
            "metrics": metrics,
            "main": {"cluster": CLUSTER, "broker": RACKS.index(node.zone) + 1, "port": main},
            "listeners": {CLUSTER: {"bootstrap": bootstrap, "brokers": brokers}},
        }
        file.write_text(yaml.safe_dump(document))
        return twin

    def start(self) -> None:
        starting = [node for node in (*self.mains.values(), *self.nodes.values()) if not node.lives]
        for node in starting:
            node.begin()
        for node in starting:
            node.until_ready()

    def end(self) -> None:
        for node in (*self.mains.values(), *self.nodes.values()):
            node.end(kill=True)

    @property
    def ports_of_brokers(self) -> set[int]:
        """Return the brokers' ports, to which clients of a zone should not connect."""
        return {int(server.rpartition(":")[2]) for server in self.brokers.servers.split(",")}

    def strays(self, zone: str, pid: int) -> set[int]:
        """Return the ports of brokers and of other zones' nodes to which a process is connected."""
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
    """Return librdkafka's configuration for a client in the node's zone."""
    named = {key.replace("_", "."): value for key, value in config.items()}
    return {"bootstrap.servers": node.servers, "client.id": f"zone={node.zone}", "log_level": 0, **named}


def until(deadline_seconds: float) -> Iterator[None]:
    """Yield until a deadline."""
    end = time.monotonic() + deadline_seconds
    while time.monotonic() < end:
        yield


Labels = Mapping[tuple[str, ...], float]


def produce_request(topic: str, number: int, *, acks: int = -1, partition: int = 0) -> bytes:
    """Return a Produce request of version 3 with one record, without the size prefix."""
    batch = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 100_000)
    batch.append(0, int(time.time() * 1000), b"k", str(number).encode(), [])
    records = bytes(batch.build())
    part = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=records)
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[part])
    request = ProduceRequest(version=3, transactional_id=None, acks=acks, timeout_ms=30_000, topic_data=[data])
    request.with_header(correlation_id=number, client_id="zone=az1")
    return bytes(request.encode(header=True))
