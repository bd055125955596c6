"""View model of the page Zones: epochs, broker-to-proxy assignment, and cross-zone traffic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from backend.domain.zones.route_epochs import UNREACHABLE_AFTER_SECONDS
from backend.domain.zones.zone_traffic import PAYLOAD_PLANES, PLANES, UNKNOWN_ZONE, crosses
from backend.queries.zones.zone_router import NodeRow
from backend.queries.zones.zones import RoutedBroker, ZoneRouterState
from backend.web.forms.effect import listed
from backend.web.words.figures import counted, sized

BROKERS_SHOWN = 200
NODES_SHOWN = 200
CELLS = 12
"""Number of epochs in the strip."""
_SHADES = 7
_NAMED = 4
_LATE_EPOCH_SECONDS = 60.0
"""Age in seconds beyond which the newest epoch counts as late; one begins every ten seconds."""
_ABOUT = {
    "produce": "records that clients write",
    "fetch": "records that clients read",
    "metadata": "broker and topic metadata",
    "group": "consumer groups",
    "transaction": "transactions",
    "route": "control messages between proxies and mains",
    "other": "all other requests",
}


@dataclass(frozen=True)
class EpochShown:
    """One of the three epochs: current, fenced or committed."""

    name: str
    epoch: int
    begun_at: datetime | None
    because: str


@dataclass(frozen=True)
class EpochCell:
    """One epoch of the strip; `state` is committed, fenced or open."""

    epoch: int
    state: str


@dataclass(frozen=True)
class ServingNode:
    """A node in a cell of the map."""

    node: str
    is_unreachable: bool


@dataclass(frozen=True)
class BrokerShown:
    """A row of the broker table: the proxies that serve the broker, by zone."""

    seen: RoutedBroker
    cells: Sequence[tuple[str, Sequence[ServingNode]]]
    """Proxies by zone, in the order of the columns. Without a proxy, clients of the zone get the broker's own
    address."""


@dataclass(frozen=True)
class BytesShown:
    """A cell of a plane's traffic matrix."""

    from_zone: str
    to_zone: str
    bytes: int
    text: str
    kind: str
    """`home`: within a zone; `away`: across zones; `unknown`: a zone is not known."""
    is_wrong: bool
    """True if the cell is payload that crossed zones."""
    shade: int


@dataclass(frozen=True)
class PlaneShown:
    """Traffic matrix of one plane."""

    name: str
    about: str
    is_payload: bool
    rows: Sequence[tuple[str, Sequence[BytesShown]]]
    total: str
    crossed: int
    crossed_text: str


@dataclass(frozen=True)
class NodeShown:
    """A row of the node table."""

    row: NodeRow
    serves: str
    stands_for: str
    behind: str
    """Number of epochs by which a main's reported epoch trails the fenced one, as text."""
    reported_at: datetime
    cold: str
    cache: str
    cache_share: float | None


@dataclass(frozen=True)
class ZonesView:
    """View model of the page."""

    seen: ZoneRouterState

    @property
    def is_empty(self) -> bool:
        return not self.seen.nodes

    @cached_property
    def zones(self) -> Sequence[str]:
        return self.seen.zones

    @cached_property
    def dead(self) -> Sequence[NodeRow]:
        return [each for each in self.seen.nodes if each.is_unreachable]

    @cached_property
    def paid(self) -> int:
        return self.seen.paid_payload_bytes

    @property
    def payload(self) -> int:
        return sum(each.bytes for each in self.seen.traffic if each.plane in PAYLOAD_PLANES)

    # --- summary

    @property
    def tone(self) -> str:
        if len(self.dead) == len(self.seen.nodes):
            return "bad"
        return "bad" if self.paid else "warn" if self.dead or self.epochs_stand else "good"

    @property
    def glyph(self) -> str:
        return {"good": "running", "warn": "degraded", "bad": "blocked"}[self.tone]

    @property
    def state(self) -> str:
        if len(self.dead) == len(self.seen.nodes):
            return "All nodes unreachable"
        if self.paid:
            return f"{sized(self.paid)} of payload crossed zones"
        if self.dead:
            return f"{counted(len(self.dead), 'node')} unreachable"
        if self.epochs_stand:
            return "Epochs stalled"
        return "Clients stay in their zones"

    @property
    def sentences(self) -> Sequence[str]:
        """Return sentences that explain the state."""
        return list(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if self.payload:
            crossed = sized(self.paid) if self.paid else "0 B"
            yield f"Clients produced and consumed {sized(self.payload)}, of which {crossed} crossed zones."
        else:
            yield "Clients have not produced or consumed any records yet."
        wrong = {plane.name for plane in self.planes if plane.is_payload and plane.crossed}
        if "produce" in wrong:
            yield (
                "Produced across zones: the leader's broker has no main, or the client authenticates. "
                "Add a main beside each broker."
            )
        if "fetch" in wrong:
            yield (
                "Consumed across zones: the router file has no reads section, or the zone did not have "
                "the records (cold reads)."
            )
        if self.dead:
            names = _some([each.report.node for each in self.dead])
            have, their = ("has", "its") if len(self.dead) == 1 else ("have", "their")
            yield (
                f"{names} {have} stopped reporting. Other nodes of the zone serve {their} brokers; "
                "without any, clients connect to the brokers directly."
            )
        if self.epochs_stand:
            yield "No epoch has begun for over a minute. Check that a worker is running (treeline status)."

    @property
    def about(self) -> str:
        return f"{counted(len(self.zones), 'zone')} · {counted(len(self.seen.nodes), 'node')}"

    @property
    def last_report_at(self) -> datetime | None:
        """Return the time of the newest report of a reachable node; None without any."""
        return max((self._reported_at(each) for each in self.seen.nodes if not each.is_unreachable), default=None)

    def _reported_at(self, row: NodeRow) -> datetime:
        return self.seen.now - timedelta(seconds=row.liveness.silent_seconds)

    # --- epochs

    @property
    def epochs(self) -> Sequence[EpochShown]:
        found = self.seen.epochs
        begun, committed = found.begun_at, found.committed_at
        held = found.fenced - found.committed
        behind = f"{counted(held, 'epoch')} behind the fence" if held else "level with the fence"
        return [
            EpochShown("current", found.current, begun, "proxies write under this epoch"),
            EpochShown("fenced", found.fenced, begun, "mains refuse this epoch and older ones"),
            EpochShown("committed", found.committed, committed, f"in blocks, deleted from the channel; {behind}"),
        ]

    @property
    def cells(self) -> Sequence[EpochCell]:
        """Return the newest epochs, oldest first."""
        found = self.seen.epochs
        first = max(1, found.current - CELLS + 1)
        return [EpochCell(epoch, self._state_of(epoch)) for epoch in range(first, found.current + 1)]

    def _state_of(self, epoch: int) -> str:
        found = self.seen.epochs
        return "committed" if epoch <= found.committed else "fenced" if epoch <= found.fenced else "open"

    @property
    def epochs_stand(self) -> bool:
        """Return whether epochs are stalled: nodes report, but no epoch has begun for a minute.

        Normally one begins every ten seconds.
        """
        begun = self.seen.epochs.begun_at
        heard = [each.liveness.unbroken_seconds for each in self.seen.nodes if not each.is_unreachable]
        if not heard or max(heard) < _LATE_EPOCH_SECONDS:
            return False
        return begun is None or (self.seen.now - begun).total_seconds() > _LATE_EPOCH_SECONDS

    @property
    def held_back_by(self) -> Sequence[tuple[str, str, bool]]:
        """Return the mains that hold back the committed epoch: name, progress, and whether it is unreachable."""
        dead = {each.report.node for each in self.dead}
        found = []
        for each in self.seen.mains_holding_back:
            far = "no epoch reported" if each.reported_epoch is None else f"at epoch {each.reported_epoch}"
            if each.node in dead:
                far += f", unreachable with {counted(each.open_streams, 'open stream')}"
            found.append((each.node, far, each.node in dead))
        return found

    # --- which proxy serves which broker

    @cached_property
    def brokers(self) -> Sequence[BrokerShown]:
        return [self._broker(each) for each in self.seen.brokers[:BROKERS_SHOWN]]

    @property
    def brokers_left(self) -> int:
        return max(0, len(self.seen.brokers) - BROKERS_SHOWN)

    def _broker(self, seen: RoutedBroker) -> BrokerShown:
        cells = []
        for zone in self.zones:
            nodes = seen.proxies.get(zone, ())
            # Brokers of an unreachable node have been reassigned by now, if the zone has another node.
            living = [each for each in nodes if not each.is_unreachable]
            cells.append((zone, [ServingNode(each.report.node, each.is_unreachable) for each in living or nodes]))
        return BrokerShown(seen, cells)

    # --- bytes

    @cached_property
    def planes(self) -> Sequence[PlaneShown]:
        """Return the payload planes first, then other planes that had traffic."""
        sums: dict[str, dict[tuple[str, str], int]] = {plane: {} for plane in PLANES}
        for hop in self.seen.traffic:
            sums.setdefault(hop.plane, {})[hop.from_zone, hop.to_zone] = hop.bytes
        return [self._plane(name, cells) for name, cells in sums.items() if cells or name in PAYLOAD_PLANES]

    def _plane(self, name: str, sums: Mapping[tuple[str, str], int]) -> PlaneShown:
        named = {zone for pair in sums for zone in pair}
        zones = [*self.zones, *sorted(named - set(self.zones) - {UNKNOWN_ZONE})]
        zones += [UNKNOWN_ZONE] if UNKNOWN_ZONE in named else []
        is_payload, most = name in PAYLOAD_PLANES, max(sums.values(), default=0)
        rows = [
            (
                from_zone,
                [
                    _bytes(from_zone, to_zone, sums.get((from_zone, to_zone), 0), most, is_payload)
                    for to_zone in zones
                ],
            )
            for from_zone in zones
        ]
        crossed = sum(size for (from_zone, to_zone), size in sums.items() if crosses(from_zone, to_zone))
        return PlaneShown(
            name, _ABOUT.get(name, ""), is_payload, rows, sized(sum(sums.values())), crossed, sized(crossed)
        )

    # --- nodes

    @property
    def nodes(self) -> Sequence[NodeShown]:
        """Return the nodes, the unreachable ones first."""
        order = sorted(
            self.seen.nodes, key=lambda each: (not each.is_unreachable, each.report.zone, each.report.node)
        )
        return [self._node(each) for each in order[:NODES_SHOWN]]

    @property
    def nodes_left(self) -> int:
        return max(0, len(self.seen.nodes) - NODES_SHOWN)

    def _node(self, row: NodeRow) -> NodeShown:
        report = row.report
        brokers = sum(map(len, report.stands_for.values()))
        main = f"main of {report.cluster}:{report.broker}" if row.liveness.is_main else None
        behind = self.seen.epochs.fenced - (report.reported_epoch or 0)
        cold = f"{report.cold_reads.reads:,}" + (
            f" ({sized(report.cold_reads.bytes)})" if report.cold_reads.bytes else ""
        )
        cache = report.cache
        return NodeShown(
            row,
            serves=", ".join(filter(None, ("proxy" if "proxy" in report.serves else None, main))),
            stands_for=counted(brokers, "broker") if brokers else "none",
            behind="" if report.reported_epoch is None or behind <= 1 else f"{behind} behind",
            reported_at=self._reported_at(row),
            cold=cold,
            cache=f"{sized(cache.bytes)} of {sized(cache.most_bytes)}" if cache.most_bytes else "none",
            cache_share=min(100.0, 100 * cache.bytes / cache.most_bytes) if cache.most_bytes else None,
        )

    @property
    def silent_after(self) -> str:
        return f"{UNREACHABLE_AFTER_SECONDS:.0f} s"


def _bytes(from_zone: str, to_zone: str, size: int, most: int, is_payload: bool) -> BytesShown:
    kind = "home" if from_zone == to_zone else "away" if crosses(from_zone, to_zone) else "unknown"
    shade = 0 if not size else max(1, round(_SHADES * size / most))
    return BytesShown(
        from_zone,
        to_zone,
        size,
        text=sized(size) if size else "0",
        kind=kind,
        is_wrong=is_payload and kind == "away" and size > 0,
        shade=shade,
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return listed([*names[:_NAMED], *([f"{more} more"] if more > 0 else [])])
