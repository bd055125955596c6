"""Metrics of a node: bytes by plane and zones, and failures.

A hop is from a client to a node, or from a node to a broker, and back; frames are counted whole, with their size.
The **payload** planes are produce and fetch: their frames are records apart from some dozens of bytes.
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
"""Plane of each api key; all others are `other`."""


class Traffic:
    """Prometheus counters of one node."""

    def __init__(self, node: str, zone: str, registry: CollectorRegistry) -> None:
        self.zone = zone
        self._bytes = Counter(
            "treeline_zone_router_bytes",
            "Bytes of whole frames, by plane, source zone and destination zone",
            ["plane", "from_zone", "to_zone"],
            registry=registry,
        )
        self._hops: dict[tuple[int, str, str], Counter] = {}
        self.connections = Gauge(
            "treeline_zone_router_connections", "Connected clients", ["cluster"], registry=registry
        )
        self._refused = Counter(
            "treeline_zone_router_refused", "Connections closed by the node, by reason", ["why"], registry=registry
        )
        self._zoneless = Counter(
            "treeline_zone_router_zoneless",
            "Responses with brokers' own addresses, as the client's zone is unknown",
            registry=registry,
        )
        self._rewritten = Counter(
            "treeline_zone_router_addresses",
            "Broker addresses replaced by those of the zone's nodes, by request",
            ["request"],
            registry=registry,
        )
        self._cold = Counter(
            "treeline_zone_router_cold_reads",
            "Partitions fetched from a leader in another zone, as the zone does not have the records",
            ["cluster"],
            registry=registry,
        )
        self._cold_bytes = Counter(
            "treeline_zone_router_cold_read_bytes",
            "Bytes of leaders' responses to cold reads",
            ["cluster"],
            registry=registry,
        )
        self._unmapped = Counter(
            "treeline_zone_router_unmapped",
            "Broker addresses passed unchanged, as no node of the client's zone listens for the broker",
            ["cluster"],
            registry=registry,
        )
        self.channel = ChannelTraffic(registry)
        self.registry = registry
        Gauge(
            "treeline_zone_router_node",
            "Name and zone of this node; always 1",
            ["node", "zone"],
            registry=registry,
        ).labels(node, zone).set(1)

    def went(self, api_key: int, from_zone: str, to_zone: str, size: int) -> None:
        """Count a frame that went from one zone to another, or stayed in it."""
        hop = self._hops.get((api_key, from_zone, to_zone))
        if hop is None:
            plane = PLANES.get(api_key, "other")
            hop = self._hops[api_key, from_zone, to_zone] = self._bytes.labels(plane, from_zone, to_zone)
        hop.inc(size)

    def route_message(self, from_zone: str, to_zone: str, size: int) -> None:
        """Count bytes of messages between a proxy and a main; data itself goes through storage."""
        self._bytes.labels("route", from_zone, to_zone).inc(size)

    def hops(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield plane, source zone, destination zone and bytes since the node started."""
        for labels, value in _totals(self._bytes):
            yield labels["plane"], labels["from_zone"], labels["to_zone"], value

    def cold_reads(self) -> tuple[int, int]:
        """Return the number of partitions fetched from leaders in other zones, and the bytes of the responses."""
        return sum(value for _, value in _totals(self._cold)), sum(value for _, value in _totals(self._cold_bytes))

    def refused(self, why: str) -> None:
        self._refused.labels(why).inc()

    def zoneless(self) -> None:
        self._zoneless.inc()

    def cold(self, cluster: str, partitions: int, size: int) -> None:
        """Count a cold read of so many partitions."""
        self._cold.labels(cluster).inc(partitions)
        self._cold_bytes.labels(cluster).inc(size)

    def rewritten(self, api_key: int) -> None:
        self._rewritten.labels(Api(api_key).name.lower()).inc()

    def unmapped(self, cluster: str) -> None:
        self._unmapped.labels(cluster).inc()


class ChannelTraffic:
    """Metrics of a node's router channel."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._bulks = Counter("treeline_zone_router_bulks", "Bulks by outcome", ["outcome"], registry=registry)
        self._bulk_bytes = Counter("treeline_zone_router_bulk_bytes", "Bytes of written bulks", registry=registry)
        self._bulk_seconds = Histogram(
            "treeline_zone_router_bulk_seconds",
            "Seconds from the closing of a bulk until it is stored, including retries",
            registry=registry,
        )
        self._held_bytes = Gauge(
            "treeline_zone_router_held_bytes",
            "Bytes of requests that entered the channel and are not answered yet",
            registry=registry,
        )
        self._streams = Gauge(
            "treeline_zone_router_streams",
            "Open streams, each of one client to one main",
            registry=registry,
        )
        self._refused = Counter(
            "treeline_zone_router_routes_refused",
            "Parts of bulks that a main refused and that are rewritten, as their epoch was fenced or they were "
            "unreadable",
            registry=registry,
        )

    def wrote(self, size: int, seconds: float) -> None:
        """Count a written bulk."""
        self._bulks.labels("written").inc()
        self._bulk_bytes.inc(size)
        self._bulk_seconds.observe(seconds)

    def failed(self) -> None:
        """Count a bulk that could not be written; its clients are disconnected."""
        self._bulks.labels("failed").inc()

    def refused(self) -> None:
        """Count a Route that its main refused."""
        self._refused.inc()

    def watch(self, held_bytes: Callable[[], int], streams: Callable[[], int]) -> None:
        """Set the functions that supply the gauges at each scrape."""
        self._held_bytes.set_function(held_bytes)
        self._streams.set_function(streams)


class NodeCollector(Collector):
    """Collector of counts that a node keeps itself: of its main, and of its read caches."""

    def __init__(
        self,
        batches: Callable[[], Mapping[str, int]],
        written: Callable[[], Mapping[str, int]],
        cached: Callable[[], Mapping[str, int]],
    ) -> None:
        """Set the functions that are called at each scrape.

        They return batches by how they are stored (`link` or `whole`), bytes of objects by kind, and bytes by
        cache.
        """
        self._batches, self._written, self._cached = batches, written, cached

    def collect(self) -> Iterator[Metric]:
        batches = CounterMetricFamily(
            "treeline_zone_router_followed_batches",
            "Batches of the broker's log that a main wrote to its confirm WAL, as links or whole",
            labels=["stored"],
        )
        written = CounterMetricFamily(
            "treeline_zone_router_written_bytes",
            "Bytes of objects written by a main, by kind: confirm WAL and blocks",
            labels=["kind"],
        )
        cached = GaugeMetricFamily(
            "treeline_zone_router_cache_bytes", "Bytes in a proxy's caches: log tails and blocks", labels=["cache"]
        )
        for family, values in ((batches, self._batches()), (written, self._written()), (cached, self._cached())):
            for label, value in values.items():
                family.add_metric([label], value)
            yield family


def _totals(counter: Counter) -> Iterator[tuple[Mapping[str, str], int]]:
    """Yield the labels and value of each total."""
    for metric in counter.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                yield sample.labels, int(sample.value)
