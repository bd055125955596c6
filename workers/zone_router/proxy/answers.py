"""What is done with brokers' answers before a client gets them: whose addresses and versions it is told."""

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
from workers.zone_router.proxy.reading import Reading
from workers.zone_router.proxy.readings import Readings
from workers.zone_router.proxy.routes import Routes
from workers.zone_router.traffic import Traffic

Rewrite = Callable[[memoryview], Sequence[Buffer]]
"""A message without its size -> as the client gets it, in pieces. Raises MessageMalformed."""

_OF_ALL_BROKERS = (Api.METADATA, Api.DESCRIBE_CLUSTER)


@dataclass(frozen=True)
class Place:
    """What a listener is for; broker None to begin with."""

    cluster: str
    broker: int | None
    directory: Directory
    zones: Zones
    traffic: Traffic
    routes: Routes | None = None
    """By which what is produced goes to this broker's main, if it does."""
    readings: Readings | None = None
    """By which what is fetched from this broker is read in the zone, if it is."""

    @property
    def main(self) -> Main | None:
        """Of a listener for a broker: that broker, if what is produced goes to it by its main."""
        if self.broker is None or self.routes is None or not self.routes.knows((self.cluster, self.broker)):
            return None
        is_home = self.broker_zone == self.traffic.zone
        return None if is_home and self.routes.spares_home else (self.cluster, self.broker)

    @property
    def broker_zone(self) -> str | None:
        """Of a listener for a broker: that broker's zone, if it is known."""
        known = self.directory.brokers.get(self.broker) if self.broker is not None else None
        return known.zone if known else None

    def reading(self) -> Reading | None:
        """Of a listener for a broker of another zone: what answers Fetches instead of it."""
        if self.broker is None or self.readings is None or self.broker_zone in (None, self.traffic.zone):
            return None
        return self.readings.of((self.cluster, self.broker))

    def rewrite(self, request: Request, zone: str | None) -> Rewrite | None:
        """What is to be done with the answer for a client of this zone; None if it goes on as it is."""
        api_key, version = request.api_key, request.version
        if api_key == Api.API_VERSIONS:
            return lambda answer: api_versions.capped(version, answer)
        if not endpoints.has_endpoints(api_key, version):
            return None
        if zone is None:
            self.traffic.zoneless()
            return None
        at_home = zone
        return lambda answer: self._moved(api_key, version, answer, at_home)

    def _moved(self, api_key: int, version: int, answer: memoryview, zone: str) -> Sequence[Buffer]:
        if api_key in _OF_ALL_BROKERS:
            # All first: which node stands for which broker is worked out from those that are known.
            seen: dict[int, Address] = {}
            endpoints.moved(api_key, version, answer, lambda broker, address: seen.update({broker: address}))
            self.directory.learn(seen)

        def move(broker: int, address: Address) -> Address | None:
            if broker < 0 or not address.host:  # there is none, as where a coordinator is not known
                return None
            told = self.directory.told(zone, broker)
            if told is None:
                self.traffic.unmapped(self.cluster)
            else:
                self.traffic.told(api_key)
            return told

        return endpoints.moved(api_key, version, answer, move)
