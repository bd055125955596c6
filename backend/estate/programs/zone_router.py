"""The zone router of the local estate: a proxy for each zone and a main beside each broker of the estate file.

All of them run on this machine, so they are told apart by their ports. The router channel is a folder beside the
estate's data.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from backend.estate.document import Estate
from backend.estate.document_sections import MOST_BROKERS
from backend.estate.home import Home
from backend.estate.ports import Ports
from backend.estate.processes import ProcessSpec, Ready, write_private

ROUTER_PORT = 17091
HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class ProxyPorts:
    """Ports of one zone's proxy: for each cluster a bootstrap port, and one for each broker that it may have."""

    zone: str
    metrics: int
    bootstrap: Mapping[str, int]
    brokers: Mapping[str, Mapping[int, int]]

    @property
    def name(self) -> str:
        return f"proxy-{self.zone}"

    @property
    def process(self) -> str:
        """Return its name among the estate's processes."""
        return f"zr-proxy:{self.zone}"

    def server(self, cluster: str) -> str:
        """Return the bootstrap address for clients of the zone."""
        return f"{HOST}:{self.bootstrap[cluster]}"


@dataclass(frozen=True, kw_only=True)
class MainPorts:
    """Ports of the node beside one broker."""

    cluster: str
    broker: int
    zone: str
    port: int
    metrics: int

    @property
    def name(self) -> str:
        return f"main-{self.cluster}-{self.broker}"

    @property
    def process(self) -> str:
        """Return its name among the estate's processes."""
        return f"zr-main:{self.cluster}:{self.broker}"


@dataclass(frozen=True)
class RouterPorts:
    """Ports of all nodes of the zone router; empty if the estate has no zone router."""

    proxies: tuple[ProxyPorts, ...] = ()
    mains: tuple[MainPorts, ...] = ()


def zones_of(estate: Estate) -> list[str]:
    """Return all zones that hold a broker of the estate file, in the file's order."""
    return list(dict.fromkeys(zone for cluster in estate.clusters for zone in cluster.zones))


def router_ports(ports: Ports, estate: Estate) -> RouterPorts:
    """Return the ports of a proxy for each zone, and of a main for each broker of the estate file."""
    if not estate.zones:
        return RouterPorts()
    numbers = itertools.count(ROUTER_PORT)

    def take(use: str) -> int:
        return ports.take(f"zone-router:{use}", next(numbers))

    # Not named like a broker's own ports, which are released when the broker is removed.
    proxies = [
        ProxyPorts(
            zone=zone,
            metrics=take(f"{zone}:metrics"),
            bootstrap={each.name: take(f"{zone}:{each.name}:bootstrap") for each in estate.clusters},
            brokers={
                each.name: {id_: take(f"{zone}:{each.name}:broker-{id_}") for id_ in range(1, MOST_BROKERS + 1)}
                for each in estate.clusters
            },
        )
        for zone in zones_of(estate)
    ]
    mains = [
        MainPorts(
            cluster=each.name,
            broker=broker,
            zone=zone,
            port=take(f"main:{each.name}:of-{broker}"),
            metrics=take(f"main:{each.name}:metrics-{broker}"),
        )
        for each in estate.clusters
        for broker, zone in enumerate(each.zones, start=1)
    ]
    return RouterPorts(tuple(proxies), tuple(mains))


def servers_by_zone(router: RouterPorts) -> dict[str, dict[str, str]]:
    """Return the bootstrap addresses for clients of each zone, by cluster."""
    return {each.zone: {cluster: each.server(cluster) for cluster in each.bootstrap} for each in router.proxies}


def as_document(router: RouterPorts) -> dict[str, Any]:
    """Return the ports as plain data, for `from_document`."""
    return asdict(router)


def from_document(document: Mapping[str, Any]) -> RouterPorts:
    """Restore ports from plain data; JSON has turned the brokers' numbers into text."""
    proxies = [
        ProxyPorts(
            **{
                **each,
                "brokers": {
                    cluster: {int(id_): port for id_, port in given.items()}
                    for cluster, given in each["brokers"].items()
                },
            }
        )
        for each in document.get("proxies", ())
    ]
    return RouterPorts(tuple(proxies), tuple(MainPorts(**each) for each in document.get("mains", ())))


def router_processes(
    home: Home, channel: Path, router: RouterPorts, clusters: Mapping[str, tuple[str, Mapping[str, str]]], url: str
) -> list[ProcessSpec]:
    """Return the nodes' processes; writes the file that they read, and creates the channel's folder.

    `clusters`: bootstrap servers and properties by name; `url`: the control plane's.
    """
    if not router.proxies:
        return []
    channel.mkdir(parents=True, exist_ok=True)
    path = home.run / "zone-router.yaml"
    # JSON is YAML.
    write_private(path, json.dumps({"control": _control(home, url), **_file(channel, router, clusters)}, indent=1))
    return [
        *(_process(home, main, path) for main in router.mains),
        *(_process(home, proxy, path) for proxy in router.proxies),
    ]


def _control(home: Home, url: str) -> dict[str, str]:
    home.secret("admin-token")  # must exist before the first node reads it
    return {"url": url, "token": f"${{file:{home.secret_path('admin-token')}}}"}


def _file(
    channel: Path, router: RouterPorts, clusters: Mapping[str, tuple[str, Mapping[str, str]]]
) -> dict[str, Any]:
    proxies = {
        each.name: {
            "id": number,
            "zone": each.zone,
            "host": HOST,
            "metrics": each.metrics,
            "listeners": {
                cluster: {"bootstrap": port, "brokers": each.brokers[cluster]}
                for cluster, port in each.bootstrap.items()
            },
        }
        for number, each in enumerate(router.proxies, start=1)
    }
    mains = {
        each.name: {
            "zone": each.zone,
            "host": HOST,
            "metrics": each.metrics,
            "main": {"cluster": each.cluster, "broker": each.broker, "port": each.port},
        }
        for each in router.mains
    }
    return {
        "zones": {each.zone: {} for each in router.proxies},
        "clusters": {
            name: {"bootstrap_servers": servers, "properties": dict(properties)}
            for name, (servers, properties) in clusters.items()
        },
        "channel": {"url": channel.resolve().as_uri()},
        "reads": {"cache_bytes": 32 << 20, "block_cache_bytes": 16 << 20, "block_bytes": 8 << 20},
        "nodes": {**proxies, **mains},
    }


def _process(home: Home, node: ProxyPorts | MainPorts, path: Path) -> ProcessSpec:
    return ProcessSpec(
        name=node.process,
        argv=[sys.executable, "-m", "workers.zone_router", "--file", str(path), "--node", node.name],
        environment={"PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"},
        directory=str(home.path),
        log=str(home.log(node.process)),
        ready=Ready(kind="tcp", port=node.metrics),
        stop_seconds=8.0,
        group=2,
    )
