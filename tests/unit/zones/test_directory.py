"""Addresses given to clients: unreachable nodes serve no broker, and are reassigned the same ones on return."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from backend.kafka.wire.endpoints import Address
from workers.zone_router.directory import Directory
from workers.zone_router.router_file import read_router_file

BROKERS = range(1, 7)
NODES = {"a": "az1", "b": "az1", "c": "az1", "d": "az2"}


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    document = {
        "zones": {"az1": None, "az2": None},
        "clusters": {"east": {"bootstrap_servers": "10.1.0.7:9092"}},
        "nodes": {
            name: {
                "zone": zone,
                "host": f"node-{name}",
                "listeners": {"east": {"bootstrap": 19100, "brokers": {"1-6": 19101}}},
            }
            for name, zone in NODES.items()
        },
    }
    path = tmp_path / "zone-router.yaml"
    path.write_text(yaml.safe_dump(document))
    found = Directory(read_router_file(path), "east")
    found.learn({broker: Address(f"broker-{broker}", 9092) for broker in BROKERS})
    return found


def told(directory: Directory, zone: str = "az1") -> dict[int, str | None]:
    found = {broker: directory.advertised(zone, broker) for broker in BROKERS}
    return {broker: address.host if address else None for broker, address in found.items()}


def test_what_a_node_stands_for_is_what_clients_are_told(directory: Directory) -> None:
    standing = {name: directory.brokers_served(name) for name in NODES}
    assert sorted(standing["a"] + standing["b"] + standing["c"]) == list(BROKERS)
    assert {len(standing[name]) for name in "abc"} == {2} and standing["d"] == list(BROKERS)
    assert all(told(directory)[broker] == f"node-{name}" for name in "abc" for broker in standing[name])
    assert directory.brokers_served("another") == []


def test_the_living_stand_for_what_a_dead_node_stood_for(directory: Directory) -> None:
    before = told(directory)
    directory.exclude({"b", "no node of this cluster"})
    assert set(told(directory).values()) == {"node-a", "node-c"}
    assert (
        len(directory.brokers_served("a")) == len(directory.brokers_served("c")) == 3
        and directory.brokers_served("b") == []
    )
    assert told(directory, "az2") == dict.fromkeys(BROKERS, "node-d")
    directory.exclude([])
    assert told(directory) == before


def test_where_none_of_a_zone_lives_brokers_are_told_as_they_are(directory: Directory) -> None:
    directory.exclude("abc")
    assert told(directory) == dict.fromkeys(BROKERS, None)
    assert told(directory, "az2") == dict.fromkeys(BROKERS, "node-d")
