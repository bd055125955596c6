"""Clients of all clusters that a switch asks, open as long as it takes."""

from __future__ import annotations

from backend.kafka.cluster_clients import ClusterClients
from backend.queries.clusters import ClusterRow


class EstateClients:
    """Used by one thread."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[ClusterRow, ClusterClients]] = {}

    def of(self, row: ClusterRow) -> ClusterClients:
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
        """Give the connections back."""
        for _, clients in self._by_name.values():
            clients.close()
        self._by_name.clear()
