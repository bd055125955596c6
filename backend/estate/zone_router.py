"""The zone router of the local estate: a node for each zone, all on this machine, so told apart by their ports."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.estate.document import Estate
from backend.estate.document_sections import MOST_BROKERS
from backend.estate.home import Home
from backend.estate.ports import Ports
from backend.estate.processes import ProcessSpec, Ready, write_private
from backend.settings import PROJECT_ROOT

ROUTER_PORT = 17091
HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class NodePorts:
    """Ports of one node; of each cluster one to begin with, and one for each broker that it may ever have."""

    zone: str
    metrics: int
    bootstrap: Mapping[str, int]
    brokers: Mapping[str, Mapping[int, int]]

    @property
    def name(self) -> str:
        return f"proxy-{self.zone}"

    @property
    def process(self) -> str:
        """Its name among the estate's processes."""
        return f"zr-proxy:{self.zone}"

    def server(self, cluster: str) -> str:
        """Where clients of the zone begin."""
        return f"{HOST}:{self.bootstrap[cluster]}"


def zones_of(estate: Estate) -> list[str]:
    """All zones in which a broker of the estate file is, in the file's order."""
    return list(dict.fromkeys(zone for cluster in estate.clusters for zone in cluster.zones))


def node_ports(ports: Ports, estate: Estate) -> tuple[NodePorts, ...]:
    """Of a node for each zone; none if the estate has no zone router."""
    if not estate.zones:
        return ()
    number = 0

    def take(use: str) -> int:
        nonlocal number
        number += 1
        return ports.take(use, ROUTER_PORT + number - 1)

    found = []
    for zone in zones_of(estate):
        bootstrap, brokers = {}, {}
        for cluster in estate.clusters:
            use = f"zone-router:{zone}:{cluster.name}"
            bootstrap[cluster.name] = take(f"{use}:bootstrap")
            # Not named as a broker's own ports, which are given back when the broker goes.
            brokers[cluster.name] = {id_: take(f"{use}:broker-{id_}") for id_ in range(1, MOST_BROKERS + 1)}
        metrics = take(f"zone-router:{zone}:metrics")
        found.append(NodePorts(zone=zone, metrics=metrics, bootstrap=bootstrap, brokers=brokers))
    return tuple(found)


def servers_by_zone(nodes: tuple[NodePorts, ...]) -> dict[str, dict[str, str]]:
    """Where clients of each zone begin, by cluster."""
    return {node.zone: {cluster: node.server(cluster) for cluster in node.bootstrap} for node in nodes}


def as_document(nodes: tuple[NodePorts, ...]) -> list[dict[str, Any]]:
    """Ports as plain data, for `from_document`."""
    return [
        {"zone": node.zone, "metrics": node.metrics, "bootstrap": dict(node.bootstrap), "brokers": node.brokers}
        for node in nodes
    ]


def from_document(document: list[dict[str, Any]]) -> tuple[NodePorts, ...]:
    """JSON has made text of the brokers' numbers."""
    return tuple(
        NodePorts(
            zone=node["zone"],
            metrics=node["metrics"],
            bootstrap=node["bootstrap"],
            brokers={
                cluster: {int(id_): port for id_, port in given.items()}
                for cluster, given in node["brokers"].items()
            },
        )
        for node in document
    )


def node_processes(
    home: Home, nodes: tuple[NodePorts, ...], clusters: Mapping[str, tuple[str, Mapping[str, str]]]
) -> list[ProcessSpec]:
    """The nodes; the file that they read is written. `clusters`: servers to begin with and properties, by name."""
    if not nodes:
        return []
    path = home.run / "zone-router.yaml"
    # JSON is YAML.
    write_private(path, json.dumps(_file(nodes, clusters), indent=1))
    return [_process(home, node, path) for node in nodes]


def _file(nodes: tuple[NodePorts, ...], clusters: Mapping[str, tuple[str, Mapping[str, str]]]) -> dict[str, Any]:
    return {
        "zones": {node.zone: {} for node in nodes},
        "clusters": {
            name: {"bootstrap_servers": servers, "properties": dict(properties)}
            for name, (servers, properties) in clusters.items()
        },
        "nodes": {
            node.name: {
                "zone": node.zone,
                "host": HOST,
                "metrics": node.metrics,
                "listeners": {
                    cluster: {"bootstrap": port, "brokers": node.brokers[cluster]}
                    for cluster, port in node.bootstrap.items()
                },
            }
            for node in nodes
        },
    }


def _process(home: Home, node: NodePorts, path: Path) -> ProcessSpec:
    return ProcessSpec(
        name=node.process,
        argv=[sys.executable, "-m", "workers.zone_router", "--file", str(path), "--node", node.name],
        environment={"PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"},
        directory=str(PROJECT_ROOT),
        log=str(home.log(node.process)),
        ready=Ready(kind="tcp", port=node.metrics),
        stop_seconds=8.0,
        group=2,
    )
