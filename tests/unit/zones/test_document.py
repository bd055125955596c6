"""The router file: errors are reported with their places before any port is opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.settings import PROJECT_ROOT
from workers.zone_router.router_file import RouterFileInvalid, read_router_file


def document() -> dict[str, Any]:
    return {
        "zones": {"az1": {"networks": ["10.1.0.0/16"]}, "az2": None},
        "clusters": {"east": {"bootstrap_servers": "10.1.0.7:9092,[fd00::7]:9092"}},
        "nodes": {
            "a": {
                "zone": "az1",
                "host": "10.1.0.20",
                "bind": "0.0.0.0",
                "metrics": 9404,
                "listeners": {"east": {"bootstrap": 19100, "brokers": {"1-3": 19101, 7: 19107}}},
            }
        },
    }


def written(folder: Path, content: object) -> Path:
    path = folder / "zone-router.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_ranges_of_brokers_have_ports_one_after_the_other(tmp_path: Path):
    file = read_router_file(written(tmp_path, document()))
    assert file.node("a").listeners["east"].brokers == {1: 19101, 2: 19102, 3: 19103, 7: 19107}
    assert file.node("a").bound_to == "0.0.0.0"
    assert file.clusters["east"].addresses() == [("10.1.0.7", 9092), ("fd00::7", 9092)]
    assert file.zone_rule().of_client(None, "10.1.2.3") == "az1"
    assert file.zone_rule().of_client(b"zone=az2", "10.1.2.3") == "az2"


def changed(path: str, value: object) -> dict[str, Any]:
    """Return the document with one value changed; `-` removes it."""
    found = document()
    *within, last = path.split("/")
    place: Any = found
    for name in within:
        place = place[name]
    if value == "-":
        del place[last]
    else:
        place[last] = value
    return found


@pytest.mark.parametrize(
    ("content", "sentences"),
    [
        ("{", ["line 2, column 1"]),
        ("[]", ["no zones, clusters and nodes"]),
        ("", ["no zones, clusters and nodes"]),
        (changed("zones", "-"), ["zones: Field required"]),
        (changed("zones", {}), ["zones: Dictionary should have at least 1 item"]),
        (changed("zones/az1/networks", ["10.1.0.0/99"]), ["zones.az1.networks.0"]),
        (changed("zones/az1/networks", ["10.1.2.3/16"]), ["zones.az1.networks.0"]),
        (
            changed("clusters/east/bootstrap_servers", "10.1.0.7"),
            ["'10.1.0.7' is not an address such as 10.1.0.7:9092"],
        ),
        (changed("clusters/east/bootstrap_servers", "a:99999"), ["'a:99999' is not an address"]),
        (changed("clusters/east/secret", 1), ["clusters.east.secret: Extra inputs"]),
        (changed("control", {}), ["control.url: Field required"]),
        (changed("control", {"url": "treeline:8000"}), ["'treeline:8000' is not an address such as https://"]),
        (changed("control", {"url": "ftp://treeline"}), ["control.url"]),
        (changed("control", {"url": "http://user:secret@treeline"}), ["control.url"]),
        (changed("control", {"url": "http://treeline:99999"}), ["control.url"]),
        (changed("control", {"url": "http://t", "token": "the secret"}), ["control.token: give a reference"]),
        (changed("control", {"url": "http://t", "token": "x${env:T}"}), ["control.token: give a reference"]),
        (changed("nodes/a/zone", "az9"), ["nodes.a.zone: 'az9' is not one of the zones az1, az2"]),
        (changed("nodes/a/metrics", 0), ["nodes.a.metrics: Input should be greater than or equal to 1"]),
        (changed("nodes/a/host", ""), ["nodes.a.host"]),
        (
            changed("nodes/a/listeners/west", {"bootstrap": 1, "brokers": {}}),
            ["nodes.a.listeners: 'west' is not one of the clusters east"],
        ),
        (changed("nodes/a/listeners/east/brokers", {"1-": 5}), ["'1-' is neither a broker id nor a range"]),
        (changed("nodes/a/listeners/east/brokers", {"3-1": 5}), ["'3-1' must be a range of 1 to 10000"]),
        (changed("nodes/a/listeners/east/brokers", {"1-99999": 5}), ["'1-99999' must be a range of 1 to 10000"]),
        (changed("nodes/a/listeners/east/brokers", {"1-3": 5, 2: 9}), ["broker 2 has two ports"]),
        (changed("nodes/a/listeners/east/brokers", {"1-3": 65534}), ["nodes.a.listeners.east.brokers.3"]),
        (changed("nodes/a/listeners/east/brokers", {"1": "x"}), ["nodes.a.listeners.east.brokers.1"]),
        (
            changed("nodes/a/listeners/east/bootstrap", 19102),
            ["port 19102 of 10.1.0.20 is already used by nodes.a.listeners.east.bootstrap"],
        ),
        (changed("nodes/a/host", "0.0.0.0"), ["nodes.a.host: clients cannot connect to 0.0.0.0"]),
        (changed("nodes/a/host", "here:9092"), ["nodes.a.host: 'here:9092' is not a host name or IP address"]),
        (changed("zones/az2", {"networks": [10]}), ["zones.az2.networks: 10 is not a network such as"]),
        (
            changed("zones/az2", {"networks": ["10.1.0.0/16"]}),
            ["zones.az2.networks: 10.1.0.0/16 is already used by"],
        ),
        ("2026-99-99: 1", ["is no YAML"]),
        ("zones:\n  az1: {}\n  az1: {}\n", ["line 3, column 3: 'az1' is given twice"]),
        ("nodes: {a: {listeners: {east: {brokers: {1: 5, 1: 6}}}}}", ["line 1, column 48: 1 is given twice"]),
        (
            {**document(), "nodes": {n: {**document()["nodes"]["a"], "zone": n, "host": n} for n in "xy"}},
            ["nodes.x.zone: 'x' is not one", "nodes.y.zone: 'y' is not one"],
        ),
        ({**document(), "channel": {"url": "file:///c"}}, ["nodes.a.id: the channel needs an id"]),
        (
            {**document(), "channel": {"url": "file://shared"}},
            ["channel.url: ", "is neither a folder such as file:///"],
        ),
        ({**document(), "channel": {"url": "file:///"}}, ["channel.url"]),
        ({**document(), "channel": {"url": "/mnt/shared"}}, ["channel.url"]),
        ({**document(), "channel": {"url": "s3:///prefix"}}, ["channel.url"]),
        ({**document(), "channel": {"url": "memory:///"}}, ["channel.url"]),
        (changed("nodes/a/listeners", {}), ["nodes.a: the node needs listeners, a main"]),
        (
            changed("nodes/a/main", {"cluster": "west", "broker": 1, "port": 5}),
            ["nodes.a.main: 'west' is not one"],
        ),
        (changed("nodes/a/main", {"cluster": "east", "broker": 1, "port": 9404}), ["nodes.a.main: port 9404"]),
        (
            {**document(), "nodes": {n: {**document()["nodes"]["a"], "id": 5, "host": n} for n in "xy"}},
            ["nodes.y.id: 5 is already used by nodes.x.id"],
        ),
        (
            {**changed("nodes/a/metrics", 0), "zones": {"az1": {"networks": ["here"]}}},
            ["nodes.a.metrics", "zones.az1.networks.0"],
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, content: object, sentences: list[str]):
    path = written(tmp_path, content)
    with pytest.raises(RouterFileInvalid) as refused:
        read_router_file(path)
    assert all(str(path) in line for line in str(refused.value).splitlines())
    assert all(sentence in str(refused.value) for sentence in sentences), refused.value


def run(path: Path, node: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "workers.zone_router", "--file", str(path), "--node", node]
    return subprocess.run(words, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_a_node_that_cannot_begin_says_why_and_ends(tmp_path: Path):
    path = written(tmp_path, document())
    assert (run(path, "b").returncode, run(path, "b").stderr) == (2, "the file has no node 'b'; its nodes are a\n")
    assert run(tmp_path / "nowhere", "a").returncode == 2
    nobodys = changed("nodes/a/bind", "203.0.113.7")  # an address that this machine does not have (RFC 5737)
    found = run(written(tmp_path, nobodys), "a")
    assert found.returncode == 1 and found.stderr.startswith("cannot listen: ")
