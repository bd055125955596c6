"""The estate as a switch sees it: what is known of it, and open clients of all clusters that are asked.

All that a switch does shares one: a client costs threads and connections, and the first call on one a multiple of
those that follow.
"""

from __future__ import annotations

from sqlalchemy import Engine

from backend.kafka.groups.cluster_clients import ClusterClients
from backend.queries.clusters.clusters import ClusterRow
from backend.settings import Settings
from workers.switches.topology import Topologies, Topology


class EstateView:
    """Used by one thread."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine, self.settings = engine, settings
        self._topologies = Topologies(engine, settings)
        self._by_name: dict[str, tuple[ClusterRow, ClusterClients]] = {}

    def topology(self) -> Topology:
        """The present one."""
        return self._topologies.read()

    def clients(self, row: ClusterRow) -> ClusterClients:
        """Those of one cluster, opened anew where it is reached in another way than before."""
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
        """Give the connections back; those that are asked for later are opened anew."""
        for _, clients in self._by_name.values():
            clients.close()
        self._by_name.clear()
