"""The zone router's file: zones, clusters, and the nodes that stand between clients and brokers.

Every node reads the same file; which one it is, is an argument. Shape:

    zones:
      az1: {networks: [10.1.0.0/16]}        # whose clients are in it, unless their client.id says zone=<zone>
      az2: {}
    clusters:
      cluster-1: {bootstrap_servers: "10.1.0.7:9092", properties: {sasl.password: "${file:/run/secret}"}}
    nodes:
      az1-a:
        zone: az1
        host: 10.1.0.20                     # what clients are told
        bind: 0.0.0.0                       # what it listens on; host, if not said
        metrics: 9404
        listeners:                          # of each cluster a port to begin with, and one for each broker id
          cluster-1: {bootstrap: 19100, brokers: {1-3: 19101, 7: 19107}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from backend.domain.zone_map import Zones
from backend.kafka.wire.endpoints import Address

_MOST_BROKERS = 10_000
"""In a range of ids: more is a slip of the pen."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Port = Annotated[int, Field(ge=1, le=65535)]


class RouterFileInvalid(ValueError):
    """The zone router's file cannot be followed; a line for each place, with what is wrong there."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Zone(_Section):
    """Clients in these networks are in it."""

    networks: list[IPv4Network | IPv6Network] = []


class Cluster(_Section):
    """A Kafka cluster, as the router finds it; properties are librdkafka's, secrets as references."""

    bootstrap_servers: Name
    properties: dict[str, str] = {}

    @field_validator("bootstrap_servers")
    @classmethod
    def _are_addresses(cls, value: str) -> str:
        for server in value.split(","):
            host, _, port = server.strip().rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                raise ValueError(f"{server.strip()!r} is no address such as 10.1.0.7:9092")
        return value

    def addresses(self) -> list[Address]:
        """To begin with."""
        servers = [server.strip().rpartition(":") for server in self.bootstrap_servers.split(",")]
        return [Address(host.strip("[]"), int(port)) for host, _, port in servers]


class Listeners(_Section):
    """Ports of one cluster on one node; of brokers by their ids."""

    bootstrap: Port
    brokers: dict[int, Port]

    @field_validator("brokers", mode="before")
    @classmethod
    def _ranges(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        found: dict[int, Any] = {}
        for ids, port in value.items():
            first, dash, last = str(ids).partition("-")
            if not (first.isdecimal() and (last.isdecimal() if dash else True)):
                raise ValueError(f"{ids!r} is neither a broker id nor a range of them such as 1-3")
            wanted = range(int(first), int(last or first) + 1)
            if not 0 < len(wanted) <= _MOST_BROKERS:
                raise ValueError(f"{ids!r} is no range of 1 to {_MOST_BROKERS} broker ids")
            for step, broker in enumerate(wanted):
                if broker in found:
                    raise ValueError(f"broker {broker} has two ports")
                found[broker] = port + step if isinstance(port, int) else port
        return found

    def ports(self) -> Iterator[tuple[str, int]]:
        """Each with what it is for."""
        yield "bootstrap", self.bootstrap
        yield from ((f"brokers.{broker}", port) for broker, port in self.brokers.items())


class Node(_Section):
    """One process of the router; it listens for every cluster that it has listeners of."""

    zone: str
    host: Name
    bind: Name | None = None
    metrics: Port | None = None
    listeners: dict[Name, Listeners] = Field(min_length=1)

    @property
    def bound_to(self) -> str:
        return self.bind or self.host


class RouterFile(_Section):
    """All of it; zones, clusters and nodes by their names."""

    zones: dict[Name, Zone] = Field(min_length=1)
    clusters: dict[Name, Cluster] = Field(min_length=1)
    nodes: dict[Name, Node] = Field(min_length=1)

    @field_validator("zones", mode="before")
    @classmethod
    def _without_networks(cls, value: Any) -> Any:
        """A zone of which nothing is said is one without networks."""
        return (
            {name: {} if zone is None else zone for name, zone in value.items()}
            if isinstance(value, dict)
            else value
        )

    @model_validator(mode="after")
    def _fits(self) -> RouterFile:
        taken: dict[tuple[str, int], str] = {}
        for name, node in self.nodes.items():
            if node.zone not in self.zones:
                raise ValueError(f"nodes.{name}.zone: {node.zone!r} is none of the zones {', '.join(self.zones)}")
            for cluster in node.listeners:
                if cluster not in self.clusters:
                    known = ", ".join(self.clusters)
                    raise ValueError(f"nodes.{name}.listeners: {cluster!r} is none of the clusters {known}")
            for use, port in _ports(node):
                place = f"nodes.{name}.{use}"
                if other := taken.get((node.bound_to, port)):
                    raise ValueError(f"{place}: port {port} of {node.bound_to} is that of {other}")
                taken[node.bound_to, port] = place
        return self

    def zone_rule(self) -> Zones:
        """Which client is in which zone."""
        return Zones({name: zone.networks for name, zone in self.zones.items()})

    def node(self, name: str) -> Node:
        """Raises RouterFileInvalid if there is none of this name."""
        if name not in self.nodes:
            raise RouterFileInvalid(f"no node {name!r} in the file; it has {', '.join(self.nodes)}")
        return self.nodes[name]


def read_router_file(path: Path) -> RouterFile:
    """Raises RouterFileInvalid, with every wrong place."""
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RouterFileInvalid(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RouterFileInvalid(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    try:
        return RouterFile.model_validate(read)
    except ValidationError as error:
        raise RouterFileInvalid("\n".join(_wrong(path, each) for each in error.errors())) from None


def _ports(node: Node) -> Iterator[tuple[str, int]]:
    if node.metrics is not None:
        yield "metrics", node.metrics
    for cluster, listeners in node.listeners.items():
        yield from ((f"listeners.{cluster}.{use}", port) for use, port in listeners.ports())


def _wrong(path: Path, error: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in error["loc"])
    said = str(error["msg"]).removeprefix("Value error, ")
    return f"{path}: {place}: {said}" if place else f"{path}: {said}"
