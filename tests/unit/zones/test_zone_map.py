"""Zones of clients, and the assignment of brokers to proxies."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.zones.zone_map import Zones, assign_mains

ZONES = Zones({"az1": [ip_network("10.1.0.0/16"), ip_network("fd00:1::/32")], "az2": [], "az1-b": [], "az10": []})


@pytest.mark.parametrize(
    ("client_id", "host", "zone"),
    [
        (b"zone=az1", "10.9.0.1", "az1"),
        (b"orders zone=az2;v=3", "10.9.0.1", "az2"),
        # Tools add their own behind it.
        (b"zone=az2-producer-1", "10.9.0.1", "az2"),
        (b"consumer-zone=az1-17", "10.9.0.1", "az1"),
        # The longest name that fits.
        (b"zone=az10", "10.9.0.1", "az10"),
        (b"zone=az1-b-0", "10.9.0.1", "az1-b"),
        # Only zones that there are; their names have an end.
        (b"zone=az11", "10.9.0.1", None),
        (b"zone=nowhere", "10.9.0.1", None),
        (b"timezone=az1", "10.9.0.1", None),
        (b"zone=nowhere zone=az2", "10.9.0.1", "az2"),
        # What the client says goes before where it is.
        (b"zone=az2", "10.1.2.3", "az2"),
        (b"orders", "10.1.2.3", "az1"),
        (None, "10.1.2.3", "az1"),
        (None, "::ffff:10.1.2.3", "az1"),
        (None, "fd00:1::7", "az1"),
        (b"", "10.9.0.1", None),
        (b"\xff\xfe", "no address", None),
    ],
)
def test_a_clients_zone_is_what_its_name_says_else_where_it_is(
    client_id: bytes | None, host: str, zone: str | None
):
    assert ZONES.of_client(client_id, host) == zone


def test_of_networks_within_networks_the_narrower_one_counts():
    zones = Zones({"wide": [ip_network("10.0.0.0/8")], "narrow": [ip_network("10.1.0.0/16")]})
    assert (zones.of_client(None, "10.1.0.1"), zones.of_client(None, "10.2.0.1")) == ("narrow", "wide")


def test_without_zones_nobody_is_in_one():
    assert Zones({}).of_client(b"zone=az1", "10.1.0.1") is None


NAMES = st.sets(st.integers(0, 10_000).map(str), max_size=60)


@given(NAMES, NAMES)
def test_every_main_has_one_proxy_and_loads_are_within_one(mains: set[str], proxies: set[str]):
    found = assign_mains(mains, proxies)
    assert set(found) == (mains if proxies else set())
    loads = Counter(found.values())
    assert set(loads) <= proxies
    if proxies:
        assert max(loads[proxy] for proxy in proxies) - min(loads[proxy] for proxy in proxies) <= 1


@given(NAMES, NAMES, st.randoms())
def test_all_nodes_find_the_same_whatever_the_order(mains: set[str], proxies: set[str], random):
    def shuffled(names: set[str]) -> list[str]:
        return random.sample(sorted(names), len(names))

    assert assign_mains(shuffled(mains), shuffled(proxies)) == assign_mains(mains, proxies)


@pytest.mark.parametrize(("mains", "proxies"), [(6, 2), (100, 3), (100, 10), (300, 7), (1000, 20)])
def test_little_moves_when_a_proxy_comes_or_goes(mains: int, proxies: int):
    """Some mains must move; at most twice as many do."""
    all_mains, all_proxies = [f"broker-{n}" for n in range(mains)], [f"proxy-{n}" for n in range(proxies)]
    before = assign_mains(all_mains, all_proxies)
    with_one_more = assign_mains(all_mains, [*all_proxies, "proxy-new"])
    without_one = assign_mains(all_mains, all_proxies[1:])

    def moved(after: dict[str, str]) -> int:
        return sum(before[main] != after[main] for main in all_mains)

    assert moved(with_one_more) <= 2 * -(-mains // (proxies + 1))
    assert moved(without_one) <= 2 * -(-mains // proxies)


def test_the_six_nodes_of_the_document():
    """N1 and N2 in AZ1, N3 and N4 in AZ2, N5 and N6 in AZ3; each is main and proxy."""
    nodes = {"az1": ["N1", "N2"], "az2": ["N3", "N4"], "az3": ["N5", "N6"]}
    for zone, proxies in nodes.items():
        elsewhere = [node for other, names in nodes.items() if other != zone for node in names]
        found = assign_mains(elsewhere, proxies)
        assert set(found) == set(elsewhere)
        assert Counter(found.values()) == {proxies[0]: 2, proxies[1]: 2}
