"""What went through a node: bytes by plane and by the zones that they went between, and what went wrong.

A hop is from a client to a node, or from a node to a broker, and back; frames are counted whole, with their size.
The **payload** planes are produce and fetch: their frames are records but for some dozens of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from backend.domain.zones.zone_traffic import UNKNOWN_ZONE
from backend.kafka.wire.apis import Api

UNKNOWN = UNKNOWN_ZONE

_GROUP = (8, 9, 11, 12, 13, 14, 47, 68, 76, 88)
_TRANSACTION = (22, 24, 25, 26, 28)
_METADATA = (2, Api.METADATA, Api.FIND_COORDINATOR, Api.API_VERSIONS, 23, Api.DESCRIBE_CLUSTER, 75)

PLANES: Mapping[int, str] = MappingProxyType(
    {
        Api.PRODUCE: "produce",
        Api.FETCH: "fetch",
        Api.SHARE_FETCH: "fetch",
        **dict.fromkeys(_GROUP, "group"),
        **dict.fromkeys(_TRANSACTION, "transaction"),
        **dict.fromkeys(_METADATA, "metadata"),
    }
)
"""By api key; what is not here is `other`."""


class Traffic:
    """Counters of one node, as Prometheus reads them."""

    def __init__(self, node: str, zone: str, registry: CollectorRegistry) -> None:
        self.zone = zone
        self._bytes = Counter(
            "treeline_zone_router_bytes",
            "Bytes of whole frames, by plane and by the zones that they went between",
            ["plane", "from_zone", "to_zone"],
            registry=registry,
        )
        self._hops: dict[tuple[int, str, str], Counter] = {}
        self.connections = Gauge(
            "treeline_zone_router_connections", "Clients that are connected", ["cluster"], registry=registry
        )
        self._refused = Counter(
            "treeline_zone_router_refused", "Connections that were ended, by why", ["why"], registry=registry
        )
        self._zoneless = Counter(
            "treeline_zone_router_zoneless",
            "Answers with brokers' own addresses, since nothing tells the client's zone",
            registry=registry,
        )
        self._told = Counter(
            "treeline_zone_router_addresses",
            "Addresses of this zone's nodes told instead of brokers', by the request that was answered",
            ["request"],
            registry=registry,
        )
        self._cold = Counter(
            "treeline_zone_router_cold_reads",
            "Partitions of Fetches that were asked of a leader in another zone, as the zone does not have them",
            ["cluster"],
            registry=registry,
        )
        self._cold_bytes = Counter(
            "treeline_zone_router_cold_read_bytes",
            "Bytes of leaders' answers to them",
            ["cluster"],
            registry=registry,
        )
        self._unmapped = Counter(
            "treeline_zone_router_unmapped",
            "Addresses of brokers that no node of the client's zone listens for, told as they are",
            ["cluster"],
            registry=registry,
        )
        self.channel = ChannelTraffic(registry)
        self.registry = registry
        Gauge("treeline_zone_router_node", "This node", ["node", "zone"], registry=registry).labels(
            node, zone
        ).set(1)

    def went(self, api_key: int, from_zone: str, to_zone: str, size: int) -> None:
        """A frame went from one zone to another, or stayed in it."""
        hop = self._hops.get((api_key, from_zone, to_zone))
        if hop is None:
            plane = PLANES.get(api_key, "other")
            hop = self._hops[api_key, from_zone, to_zone] = self._bytes.labels(plane, from_zone, to_zone)
        hop.inc(size)

    def told_main(self, from_zone: str, to_zone: str, size: int) -> None:
        """What a proxy and a main say to each other, beside the data."""
        self._bytes.labels("route", from_zone, to_zone).inc(size)

    def hops(self) -> Iterator[tuple[str, str, str, int]]:
        """Plane, zones from and to, and bytes since the node began."""
        for labels, value in _totals(self._bytes):
            yield labels["plane"], labels["from_zone"], labels["to_zone"], value

    def cold_reads(self) -> tuple[int, int]:
        """Partitions that leaders in other zones were asked for since the node began, bytes of their answers."""
        return sum(value for _, value in _totals(self._cold)), sum(value for _, value in _totals(self._cold_bytes))

    def refused(self, why: str) -> None:
        self._refused.labels(why).inc()

    def zoneless(self) -> None:
        self._zoneless.inc()

    def cold(self, cluster: str, partitions: int, size: int) -> None:
        """The leader has answered for so many partitions."""
        self._cold.labels(cluster).inc(partitions)
        self._cold_bytes.labels(cluster).inc(size)

    def told(self, api_key: int) -> None:
        self._told.labels(Api(api_key).name.lower()).inc()

    def unmapped(self, cluster: str) -> None:
        self._unmapped.labels(cluster).inc()


class ChannelTraffic:
    """Of the router channel of one node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._bulks = Counter(
            "treeline_zone_router_bulks", "Bulks, by whether they were written", ["outcome"], registry=registry
        )
        self._bulk_bytes = Counter(
            "treeline_zone_router_bulk_bytes", "Bytes of bulks that were written", registry=registry
        )
        self._bulk_seconds = Histogram(
            "treeline_zone_router_bulk_seconds",
            "From the closing of a bulk until storage has it, all attempts together",
            registry=registry,
        )
        self._held_bytes = Gauge(
            "treeline_zone_router_held_bytes",
            "Of requests that were taken for the channel and are not answered",
            registry=registry,
        )
        self._streams = Gauge(
            "treeline_zone_router_streams",
            "What one client asks one main, of those that are open",
            registry=registry,
        )
        self._refused = Counter(
            "treeline_zone_router_routes_refused",
            "Parts of bulks that a main refused, and that are written again: their epoch was over, or they could "
            "not be read",
            registry=registry,
        )

    def wrote(self, size: int, seconds: float) -> None:
        """A bulk."""
        self._bulks.labels("written").inc()
        self._bulk_bytes.inc(size)
        self._bulk_seconds.observe(seconds)

    def failed(self) -> None:
        """A bulk could not be written, and its clients are let down."""
        self._bulks.labels("failed").inc()

    def refused(self) -> None:
        """A Route, by its main."""
        self._refused.inc()

    def watch(self, held_bytes: Callable[[], int], streams: Callable[[], int]) -> None:
        """Where these are read when somebody asks."""
        self._held_bytes.set_function(held_bytes)
        self._streams.set_function(streams)


class Watched(Collector):
    """What a node counts itself, read when somebody asks: of its main, and of what it keeps of what it reads."""

    def __init__(
        self,
        batches: Callable[[], Mapping[str, int]],
        written: Callable[[], Mapping[str, int]],
        cached: Callable[[], Mapping[str, int]],
    ) -> None:
        """Batches by whether they are stored as a `link` or `whole`; bytes of objects by kind; bytes by cache."""
        self._batches, self._written, self._cached = batches, written, cached

    def collect(self) -> Iterator[Metric]:
        batches = CounterMetricFamily(
            "treeline_zone_router_followed_batches",
            "Batches of a broker's log in its main's confirm WAL: as links, or whole",
            labels=["stored"],
        )
        written = CounterMetricFamily(
            "treeline_zone_router_written_bytes",
            "Bytes of a main's objects: its confirm WAL, its blocks",
            labels=["kind"],
        )
        cached = GaugeMetricFamily(
            "treeline_zone_router_cache_bytes", "Of a proxy: ends of logs, and blocks", labels=["cache"]
        )
        for family, told in ((batches, self._batches()), (written, self._written()), (cached, self._cached())):
            for label, value in told.items():
                family.add_metric([label], value)
            yield family


def _totals(counter: Counter) -> Iterator[tuple[Mapping[str, str], int]]:
    """Labels and values."""
    for metric in counter.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                yield sample.labels, int(sample.value)
