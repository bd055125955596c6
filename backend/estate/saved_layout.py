"""The layout of the running estate, stored below `run/` for the commands that come while it runs.

`layout.json` has the ports (Valkey's is `redis_port`, as in earlier versions), `estate.yaml` the content of the
estate file when the estate was started: the file itself may have changed since, or be gone.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from backend.estate.document import read_estate
from backend.estate.home import Home
from backend.estate.plan import Layout
from backend.estate.processes import write_private
from backend.estate.programs.broker import AddedBroker, BrokerPorts
from backend.estate.programs.zone_router import as_document, from_document, servers_by_zone
from backend.estate.running import read_layout


def save_layout(layout: Layout) -> None:
    """Save the layout; replaces an earlier one."""
    document = {
        "url": layout.url,
        "clusters": {cluster.name: layout.bootstrap_servers(cluster.name) for cluster in layout.estate.clusters},
        "zones": servers_by_zone(layout.router),
        "api_port": layout.api_port,
        "postgres_port": layout.postgres_port,
        "redis_port": layout.valkey_port,
        "proxy_control_port": layout.proxy_control_port,
        "brokers": {name: [asdict(ports) for ports in given] for name, given in layout.brokers.items()},
        "added": [asdict(broker) for broker in layout.added],
        "router": as_document(layout.router),
    }
    # JSON is YAML: the estate is read again like any other.
    write_private(layout.home.run / "estate.yaml", json.dumps(layout.estate.document, indent=1))
    write_private(layout.home.run / "layout.json", json.dumps(document, indent=1))


def restore_layout(home: Home) -> Layout:
    """Return the layout with which this home's estate was started, with the brokers added since."""
    saved = read_layout(home)
    return Layout(
        home=home,
        estate=read_estate(home.run / "estate.yaml"),
        api_port=saved["api_port"],
        postgres_port=saved["postgres_port"],
        valkey_port=saved["redis_port"],
        proxy_control_port=saved["proxy_control_port"],
        brokers={name: tuple(BrokerPorts(**p) for p in given) for name, given in saved["brokers"].items()},
        added=tuple(AddedBroker(**{**row, "ports": BrokerPorts(**row["ports"])}) for row in saved["added"]),
        router=from_document(saved.get("router", {})),
    )
