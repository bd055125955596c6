"""Rewrite brokers' responses for clients: addresses and supported versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backend.domain.zones.zone_map import Zones
from backend.kafka.wire import api_versions, endpoints
from backend.kafka.wire.apis import Api
from backend.kafka.wire.encoding import Buffer
from backend.kafka.wire.endpoints import Address
from backend.kafka.wire.requests import Request
from workers.zone_router.directory import Directory
from workers.zone_router.formats.bulk import Main
from workers.zone_router.proxy.routes import Routes
from workers.zone_router.proxy.zone_reader import ZoneReader
from workers.zone_router.proxy.zone_readers import ZoneReaders
from workers.zone_router.traffic import Traffic

Rewrite = Callable[[memoryview], Sequence[Buffer]]
"""Function from a message without its size to the pieces for the client. Raises MessageMalformed."""

_WITH_ALL_BROKERS = (Api.METADATA, Api.DESCRIBE_CLUSTER)


@dataclass(frozen=True)
class ListenerPlace:
    """Purpose of a listener: a broker, or bootstrap (broker None)."""

    cluster: str
    broker: int | None
    directory: Directory
    zones: Zones
    traffic: Traffic
    routes: Routes | None = None
    """Routes to mains, if produced data goes through the channel."""
    readings: ZoneReaders | None = None
    """Zone-local readers, if fetches are answered in the zone."""

    @property
    def main(self) -> Main | None:
        """Return the listener's broker if produced data reaches it through its main, else None."""
        if self.broker is None or self.routes is None or not self.routes.knows((self.cluster, self.broker)):
            return None
        is_home = self.broker_zone == self.traffic.zone
        return None if is_home and self.routes.bypasses_home_zone else (self.cluster, self.broker)

    @property
    def broker_zone(self) -> str | None:
        """Return the zone of the listener's broker, if known."""
        known = self.directory.brokers.get(self.broker) if self.broker is not None else None
        return known.zone if known else None

    def reading(self) -> ZoneReader | None:
        """Return the reader that answers Fetches in place of a broker of another zone, else None."""
        if self.broker is None or self.readings is None or self.broker_zone in (None, self.traffic.zone):
            return None
        return self.readings.of((self.cluster, self.broker))

    def rewrite(self, request: Request, zone: str | None) -> Rewrite | None:
        """Return the rewrite of the response for a client of this zone; None if the response passes unchanged."""
        api_key, version = request.api_key, request.version
        if api_key == Api.API_VERSIONS:
            return lambda answer: api_versions.limited(version, answer)
        if not endpoints.has_endpoints(api_key, version):
            return None
        if zone is None:
            self.traffic.zoneless()
            return None
        client_zone = zone
        return lambda answer: self._rewritten(api_key, version, answer, client_zone)

    def _rewritten(self, api_key: int, version: int, answer: memoryview, zone: str) -> Sequence[Buffer]:
        if api_key in _WITH_ALL_BROKERS:
            # All brokers first, as the assignment of brokers to nodes depends on the known ones.
            seen: dict[int, Address] = {}
            endpoints.rewritten(api_key, version, answer, lambda broker, address: seen.update({broker: address}))
            self.directory.learn(seen)

        def move(broker: int, address: Address) -> Address | None:
            if broker < 0 or not address.host:  # no broker, for example an unknown coordinator
                return None
            advertised = self.directory.advertised(zone, broker)
            if advertised is None:
                self.traffic.unmapped(self.cluster)
            else:
                self.traffic.rewritten(api_key)
            return advertised

        return endpoints.rewritten(api_key, version, answer, move)
