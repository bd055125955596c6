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
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from backend.domain.clusters.client_properties import is_reference
from backend.domain.zones.zone_map import Zones
from backend.kafka.wire.endpoints import Address
from backend.yaml_files import YamlInvalid, load_yaml
from workers.zone_router.formats.bulk import Main

_MOST_BROKERS = 10_000
"""In a range of ids: more is a slip of the pen."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Port = Annotated[int, Field(ge=1, le=65535)]


class RouterFileInvalid(ValueError):
    """The zone router's file cannot be followed; a line for each place, with what is wrong there."""


class MainAt(NamedTuple):
    """Where a main's own node listens, and the zone it is in."""

    address: Address
    zone: str


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Zone(_Section):
    """Clients in these networks are in it."""

    networks: list[IPv4Network | IPv6Network] = []

    @field_validator("networks", mode="before")
    @classmethod
    def _are_text(cls, value: Any) -> Any:
        """Of a number an address would be made."""
        for each in value if isinstance(value, list) else ():
            if not isinstance(each, str):
                raise ValueError(f"{each!r} is no network such as 10.1.0.0/16")
        return value


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


class MainSection(_Section):
    """Which broker a node stands beside, and where its zone's and other zones' proxies reach it."""

    cluster: str
    broker: Annotated[int, Field(ge=0)]
    port: Port


class Channel(_Section):
    """Object storage through which produced data goes to the leader's zone."""

    url: Name
    options: dict[str, str] = {}
    window_ms: Annotated[int, Field(ge=1, le=10_000)] = 250
    bulk_bytes: Annotated[int, Field(ge=1_024, le=1 << 30)] = 8 * 1024 * 1024
    held_bytes: Annotated[int, Field(ge=1_024)] = 256 * 1024 * 1024
    same_zone: Literal["channel", "direct"] = "channel"

    @field_validator("url")
    @classmethod
    def _is_for_all_nodes(cls, value: str) -> str:
        """Of other URLs some would be taken: for the folder that a node was started in, or its own memory."""
        parts = urlsplit(value)
        is_folder = parts.scheme == "file" and not parts.netloc and parts.path.strip("/")
        if not is_folder and not (parts.scheme == "s3" and parts.netloc):
            raise ValueError(
                f"{value!r} is neither a folder such as file:///mnt/shared nor a bucket such as s3://bucket/prefix"
            )
        return value


class Reads(_Section):
    """Records are read in the client's zone: mains follow their brokers and store where each batch is."""

    acks: Literal["kafka", "confirmwal"] = "kafka"
    """With confirmwal, what is produced is acknowledged when the confirm WAL has it, too."""
    history: Literal["new", "all"] = "new"
    """Whether partitions that are there when a main first looks are followed from their ends, or from their first
    records.
    """
    wal_window_ms: Annotated[int, Field(ge=1, le=10_000)] = 10
    block_bytes: Annotated[int, Field(ge=1_024, le=1 << 30)] = 16 * 1024 * 1024
    commit_ms: Annotated[int, Field(ge=100, le=600_000)] = 10_000
    keep_minutes: Annotated[int, Field(ge=1, le=60 * 24 * 30)] = 60
    """How long blocks are kept; what is older is read from the leader."""
    cache_bytes: Annotated[int, Field(ge=1_024)] = 128 * 1024 * 1024
    """Of a proxy, for the ends of logs."""
    block_cache_bytes: Annotated[int, Field(ge=1_024)] = 64 * 1024 * 1024


class ControlSection(_Section):
    """The control plane, which nodes report to, and which tells them of epochs and of nodes that are dead."""

    url: Name
    token: Name | None = None
    """A reference, as secrets are."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        try:
            found = urlsplit(value)
            is_one = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
        except ValueError:
            is_one = False
        if not is_one or found.query or found.fragment or found.username is not None:
            raise ValueError(f"{value!r} is no address such as https://treeline.example:8000")
        return value.rstrip("/")

    @field_validator("token")
    @classmethod
    def _is_a_reference(cls, value: str | None) -> str | None:
        if value is not None and not is_reference(value):
            raise ValueError("give a reference, ${env:NAME} or ${file:/path}, never the secret itself")
        return value


class Node(_Section):
    """One process of the router: a proxy if it has listeners, a main if it stands beside a broker, or both."""

    id: Annotated[int, Field(ge=1, lt=1 << 32)] | None = None
    """In the channel; every proxy has another one, for good."""
    zone: str
    host: Name
    bind: Name | None = None
    metrics: Port | None = None
    listeners: dict[Name, Listeners] = {}
    main: MainSection | None = None

    @field_validator("host")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        """Clients are told it, without a port."""
        if value in ("0.0.0.0", "::"):
            raise ValueError(f"{value} is no address that clients reach; say it as bind")
        if ":" in value:
            try:
                ip_address(value)
            except ValueError:
                raise ValueError(f"{value!r} is no name or address; ports are those of listeners") from None
        return value

    @property
    def bound_to(self) -> str:
        return self.bind or self.host

    def bootstrap_servers(self) -> dict[str, str]:
        """Where clients of its zone begin, by cluster."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return {cluster: f"{host}:{listeners.bootstrap}" for cluster, listeners in self.listeners.items()}


class RouterFile(_Section):
    """All of it; zones, clusters and nodes by their names."""

    zones: dict[Name, Zone] = Field(min_length=1)
    clusters: dict[Name, Cluster] = Field(min_length=1)
    nodes: dict[Name, Node] = Field(min_length=1)
    channel: Channel | None = None
    control: ControlSection | None = None
    reads: Reads | None = None

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
        if wrong := [*self._wrong_nodes(), *self._doubles()]:
            raise ValueError("\n".join(wrong))
        return self

    def _wrong_nodes(self) -> Iterator[str]:
        if self.reads and not self.channel:
            yield "reads: what is read in a zone comes from object storage; say which, as channel"
        known = ", ".join(self.clusters)
        for name, node in self.nodes.items():
            if node.zone not in self.zones:
                yield f"nodes.{name}.zone: {node.zone!r} is none of the zones {', '.join(self.zones)}"
            for cluster in node.listeners.keys() - self.clusters.keys():
                yield f"nodes.{name}.listeners: {cluster!r} is none of the clusters {known}"
            if node.main and node.main.cluster not in self.clusters:
                yield f"nodes.{name}.main: {node.main.cluster!r} is none of the clusters {known}"
            if not node.listeners and not node.main:
                yield f"nodes.{name}: it has neither listeners nor a main, and so nothing to do"
            if self.channel and node.listeners and node.id is None:
                yield f"nodes.{name}.id: it is needed for the channel"

    def _doubles(self) -> Iterator[str]:
        """What only one may have."""
        taken: dict[object, str] = {}
        claims: list[tuple[object, str, str]] = []
        for zone, section in self.zones.items():
            claims += [(each, f"zones.{zone}.networks", f"{each}") for each in section.networks]
        for name, node in self.nodes.items():
            if node.id is not None:
                claims.append((("id", node.id), f"nodes.{name}.id", str(node.id)))
            if node.main:
                beside = f"broker {node.main.broker} of {node.main.cluster}"
                claims.append((("main", beside), f"nodes.{name}.main", beside))
            for use, port in _ports(node):
                claims.append(((node.host, port), f"nodes.{name}.{use}", f"port {port} of {node.host}"))
        for what, place, said in claims:
            if (other := taken.setdefault(what, place)) != place:
                yield f"{place}: {said} is that of {other}"

    def mains(self) -> dict[Main, MainAt]:
        """Where each broker's own node is."""
        return {
            (node.main.cluster, node.main.broker): MainAt(Address(node.host, node.main.port), node.zone)
            for node in self.nodes.values()
            if node.main
        }

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
        read = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RouterFileInvalid(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RouterFileInvalid(f"{path} is not UTF-8 text") from None
    except YamlInvalid as error:
        raise RouterFileInvalid(f"{path}: {error}") from None
    if not isinstance(read, dict):
        raise RouterFileInvalid(f"{path} has no zones, clusters and nodes; docs/zones.md shows one")
    try:
        return RouterFile.model_validate(read)
    except ValidationError as error:
        wrong = [line for each in error.errors() for line in _wrong(path, each)]
        raise RouterFileInvalid("\n".join(wrong)) from None


def _ports(node: Node) -> Iterator[tuple[str, int]]:
    if node.metrics is not None:
        yield "metrics", node.metrics
    if node.main is not None:
        yield "main", node.main.port
    for cluster, listeners in node.listeners.items():
        yield from ((f"listeners.{cluster}.{use}", port) for use, port in listeners.ports())


def _wrong(path: Path, error: Mapping[str, Any]) -> Iterator[str]:
    place = ".".join(str(part) for part in error["loc"])
    for said in str(error["msg"]).removeprefix("Value error, ").splitlines():
        yield f"{path}: {place}: {said}" if place else f"{path}: {said}"
