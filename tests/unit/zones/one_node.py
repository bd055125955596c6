"""The smallest zone router: node `a` in zone `az1`, with a listener for one broker of cluster `east`."""

from __future__ import annotations

from backend.estate.ports import free_ports
from workers.zone_router.router_file import RouterFile


def one_node() -> tuple[RouterFile, int]:
    """Return the router file and the port of the node's listener; both ports of the node are free."""
    bootstrap, port = free_ports(2)
    file = RouterFile.model_validate({
        "zones": {"az1": {}},
        "clusters": {"east": {"bootstrap_servers": "127.0.0.1:1"}},
        "nodes": {"a": {"zone": "az1", "host": "127.0.0.1", "listeners": {
            "east": {"bootstrap": bootstrap, "brokers": {1: port}}}}},
    })  # fmt: skip
    return file, port
