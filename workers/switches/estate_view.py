"""The estate as a switch sees it: its topology, and open clients of all clusters that are queried.

All parts of a switch share one view: a client costs threads and connections, and the first call on it takes a
multiple of the time of later calls.
"""

from __future__ import annotations

from sqlalchemy import Engine

from backend.kafka.groups.cluster_clients import ClusterClients
from backend.queries.clusters.clusters import ClusterRow
from backend.settings import Settings
from workers.switches.topology import Topologies, Topology


class EstateView:
    """Topology and clients for one switch. Used by one thread."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine, self.settings = engine, settings
        self._topologies = Topologies(engine, settings)
        self._by_name: dict[str, tuple[ClusterRow, ClusterClients]] = {}

    def topology(self) -> Topology:
        """Return the current topology."""
        return self._topologies.read()

    def clients(self, row: ClusterRow) -> ClusterClients:
        """Return the clients of a cluster; reopen them if its address or properties changed."""
        before = self._by_name.get(row.name)
        if before is not None:
            known, found = before
            if (known.bootstrap_servers, known.properties) == (row.bootstrap_servers, row.properties):
                return found
            found.close()
        found = ClusterClients(row.name, row.bootstrap_servers, row.properties)
        self._by_name[row.name] = (row, found)
        return found

    def close(self) -> None:
        """Close all connections; later requests reopen them."""
        for _, clients in self._by_name.values():
            clients.close()
        self._by_name.clear()
