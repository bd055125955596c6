"""Schema of the router file: zones, clusters, and the nodes between clients and brokers.

Every node reads the same file; its own name is an argument. Shape:

    zones:
      az1: {networks: [10.1.0.0/16]}        # clients from these networks, unless client.id has zone=<zone>
      az2: {}
    clusters:
      cluster-1: {bootstrap_servers: "10.1.0.7:9092", properties: {sasl.password: "${file:/run/secret}"}}
    nodes:
      az1-a:
        zone: az1
        host: 10.1.0.20                     # address given to clients
        bind: 0.0.0.0                       # address to listen on; default: host
        metrics: 9404
        listeners:                          # for each cluster a bootstrap port, and a port for each broker id
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
"""Most ids in a range; a larger range is a typing error."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Port = Annotated[int, Field(ge=1, le=65535)]


class RouterFileInvalid(ValueError):
    """The router file is invalid; the message has a line for each wrong place."""


class MainAt(NamedTuple):
    """Address of a main, and its zone."""

    address: Address
    zone: str


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Zone(_Section):
    """A zone and the networks of its clients."""

    networks: list[IPv4Network | IPv6Network] = []

    @field_validator("networks", mode="before")
    @classmethod
    def _must_be_strings(cls, value: Any) -> Any:
        """Refuse numbers, which would be converted to addresses."""
        for each in value if isinstance(value, list) else ():
            if not isinstance(each, str):
                raise ValueError(f"{each!r} is not a network such as 10.1.0.0/16")
        return value


class Cluster(_Section):
    """A Kafka cluster; properties are librdkafka's, with secrets as references."""

    bootstrap_servers: Name
    properties: dict[str, str] = {}

    @field_validator("bootstrap_servers")
    @classmethod
    def _must_be_addresses(cls, value: str) -> str:
        for server in value.split(","):
            host, _, port = server.strip().rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                raise ValueError(f"{server.strip()!r} is not an address such as 10.1.0.7:9092")
        return value

    def addresses(self) -> list[Address]:
        """Return the bootstrap addresses."""
        servers = [server.strip().rpartition(":") for server in self.bootstrap_servers.split(",")]
        return [Address(host.strip("[]"), int(port)) for host, _, port in servers]


class Listeners(_Section):
    """Ports of one cluster on one node: for bootstrap, and for each broker id."""

    bootstrap: Port
    brokers: dict[int, Port]

    @field_validator("brokers", mode="before")
    @classmethod
    def _expand_ranges(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        found: dict[int, Any] = {}
        for ids, port in value.items():
            first, dash, last = str(ids).partition("-")
            if not (first.isdecimal() and (last.isdecimal() if dash else True)):
                raise ValueError(f"{ids!r} is neither a broker id nor a range such as 1-3")
            wanted = range(int(first), int(last or first) + 1)
            if not 0 < len(wanted) <= _MOST_BROKERS:
                raise ValueError(f"{ids!r} must be a range of 1 to {_MOST_BROKERS} broker ids")
            for step, broker in enumerate(wanted):
                if broker in found:
                    raise ValueError(f"broker {broker} has two ports")
                found[broker] = port + step if isinstance(port, int) else port
        return found

    def ports(self) -> Iterator[tuple[str, int]]:
        """Yield each port with its use."""
        yield "bootstrap", self.bootstrap
        yield from ((f"brokers.{broker}", port) for broker, port in self.brokers.items())


class MainSection(_Section):
    """The broker beside which a node runs as its main, and the port for proxies."""

    cluster: str
    broker: Annotated[int, Field(ge=0)]
    port: Port


class Channel(_Section):
    """The router channel: object storage through which produced data reaches the leader's zone."""

    url: Name
    options: dict[str, str] = {}
    window_ms: Annotated[int, Field(ge=1, le=10_000)] = 250
    bulk_bytes: Annotated[int, Field(ge=1_024, le=1 << 30)] = 8 * 1024 * 1024
    held_bytes: Annotated[int, Field(ge=1_024)] = 256 * 1024 * 1024
    same_zone: Literal["channel", "direct"] = "channel"

    @field_validator("url")
    @classmethod
    def _must_be_shared(cls, value: str) -> str:
        """Refuse URLs that nodes would not share: relative folders, memory."""
        parts = urlsplit(value)
        is_folder = parts.scheme == "file" and not parts.netloc and parts.path.strip("/")
        if not is_folder and not (parts.scheme == "s3" and parts.netloc):
            raise ValueError(
                f"{value!r} is neither a folder such as file:///mnt/shared nor a bucket such as s3://bucket/prefix"
            )
        return value


class Reads(_Section):
    """Reads within the zone: mains follow their brokers and store the location of each batch."""

    acks: Literal["kafka", "confirmwal"] = "kafka"
    """When produced data is acknowledged: once the broker has it (kafka), or also the confirm WAL (confirmwal)."""
    history: Literal["new", "all"] = "new"
    """Start of partitions that exist when a main first starts: their end (new), or their first record (all)."""
    wal_window_ms: Annotated[int, Field(ge=1, le=10_000)] = 10
    block_bytes: Annotated[int, Field(ge=1_024, le=1 << 30)] = 16 * 1024 * 1024
    commit_ms: Annotated[int, Field(ge=100, le=600_000)] = 10_000
    keep_minutes: Annotated[int, Field(ge=1, le=60 * 24 * 30)] = 60
    """Retention of blocks; older data is read from the leader."""
    cache_bytes: Annotated[int, Field(ge=1_024)] = 128 * 1024 * 1024
    """Size of a proxy's cache of log tails."""
    block_cache_bytes: Annotated[int, Field(ge=1_024)] = 64 * 1024 * 1024


class ControlSection(_Section):
    """Connection to the control plane, which receives reports and returns epochs and unreachable nodes."""

    url: Name
    token: Name | None = None
    """Reference to the API token."""

    @field_validator("url")
    @classmethod
    def _must_be_address(cls, value: str) -> str:
        try:
            found = urlsplit(value)
            is_one = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
        except ValueError:
            is_one = False
        if not is_one or found.query or found.fragment or found.username is not None:
            raise ValueError(f"{value!r} is not an address such as https://treeline.example:8000")
        return value.rstrip("/")

    @field_validator("token")
    @classmethod
    def _must_be_reference(cls, value: str | None) -> str | None:
        if value is not None and not is_reference(value):
            raise ValueError("give a reference, ${env:NAME} or ${file:/path}, never the secret itself")
        return value


class Node(_Section):
    """A process of the router: a proxy if it has listeners, a main if it runs beside a broker, or both."""

    id: Annotated[int, Field(ge=1, lt=1 << 32)] | None = None
    """Permanent id in the channel, unique to each proxy."""
    zone: str
    host: Name
    bind: Name | None = None
    metrics: Port | None = None
    listeners: dict[Name, Listeners] = {}
    main: MainSection | None = None

    @field_validator("host")
    @classmethod
    def _must_be_address(cls, value: str) -> str:
        """Check that it is an address without a port, as clients connect to it."""
        if value in ("0.0.0.0", "::"):
            raise ValueError(
                f"clients cannot connect to {value}; give it as bind, and a reachable address as host"
            )
        if ":" in value:
            try:
                ip_address(value)
            except ValueError:
                raise ValueError(
                    f"{value!r} is not a host name or IP address; give ports under listeners"
                ) from None
        return value

    @property
    def bound_to(self) -> str:
        return self.bind or self.host

    def bootstrap_servers(self) -> dict[str, str]:
        """Return the bootstrap servers for clients of its zone, by cluster."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return {cluster: f"{host}:{listeners.bootstrap}" for cluster, listeners in self.listeners.items()}


class RouterFile(_Section):
    """The router file; zones, clusters and nodes by name."""

    zones: dict[Name, Zone] = Field(min_length=1)
    clusters: dict[Name, Cluster] = Field(min_length=1)
    nodes: dict[Name, Node] = Field(min_length=1)
    channel: Channel | None = None
    control: ControlSection | None = None
    reads: Reads | None = None

    @field_validator("zones", mode="before")
    @classmethod
    def _default_networks(cls, value: Any) -> Any:
        """Treat a zone without a value as one without networks."""
        return (
            {name: {} if zone is None else zone for name, zone in value.items()}
            if isinstance(value, dict)
            else value
        )

    @model_validator(mode="after")
    def _check_references(self) -> RouterFile:
        if wrong := [*self._wrong_nodes(), *self._duplicates()]:
            raise ValueError("\n".join(wrong))
        return self

    def _wrong_nodes(self) -> Iterator[str]:
        if self.reads and not self.channel:
            yield "reads: reads need object storage; configure it as channel"
        known = ", ".join(self.clusters)
        for name, node in self.nodes.items():
            if node.zone not in self.zones:
                yield f"nodes.{name}.zone: {node.zone!r} is not one of the zones {', '.join(self.zones)}"
            for cluster in node.listeners.keys() - self.clusters.keys():
                yield f"nodes.{name}.listeners: {cluster!r} is not one of the clusters {known}"
            if node.main and node.main.cluster not in self.clusters:
                yield f"nodes.{name}.main: {node.main.cluster!r} is not one of the clusters {known}"
            if not node.listeners and not node.main:
                yield f"nodes.{name}: the node needs listeners, a main, or both"
            if self.channel and node.listeners and node.id is None:
                yield f"nodes.{name}.id: the channel needs an id for each proxy"

    def _duplicates(self) -> Iterator[str]:
        """Yield an error for each network, id, broker or port that is claimed twice."""
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
                yield f"{place}: {said} is already used by {other}"

    def mains(self) -> dict[Main, MainAt]:
        """Return the address and zone of each broker's main."""
        return {
            (node.main.cluster, node.main.broker): MainAt(Address(node.host, node.main.port), node.zone)
            for node in self.nodes.values()
            if node.main
        }

    def zone_rule(self) -> Zones:
        """Return the rules that assign clients to zones."""
        return Zones({name: zone.networks for name, zone in self.zones.items()})

    def node(self, name: str) -> Node:
        """Return the node of this name. Raises RouterFileInvalid if there is none."""
        if name not in self.nodes:
            raise RouterFileInvalid(f"the file has no node {name!r}; its nodes are {', '.join(self.nodes)}")
        return self.nodes[name]


def read_router_file(path: Path) -> RouterFile:
    """Read and validate a router file. Raises RouterFileInvalid with every wrong place."""
    try:
        read = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RouterFileInvalid(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RouterFileInvalid(f"{path} is not UTF-8 text") from None
    except YamlInvalid as error:
        raise RouterFileInvalid(f"{path}: {error}") from None
    if not isinstance(read, dict):
        raise RouterFileInvalid(f"{path} has no zones, clusters and nodes; see docs/zones.md for the format")
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
