"""Addresses that a policy forbids, however they are written."""

from __future__ import annotations

import pytest

from backend.domain.webhooks.denied_networks import forbidden, hosts_of, networks

DENIED = networks(["169.254.0.0/16", "10.1.2.3", "fe80::/10"])


@pytest.mark.parametrize(
    ("address", "denied"),
    [
        ("169.254.169.254", True),
        ("::ffff:169.254.169.254", True),
        ("::169.254.169.254", True),
        ("::ffff:0:169.254.169.254", True),
        ("64:ff9b::a9fe:a9fe", True),
        ("64:ff9b:1::a9fe:a9fe", True),
        ("64:ff9b:1:a9fe:a9:fe00::", True),
        ("64:ff9b:1:0a9:fe:a9fe::", True),
        ("64:ff9b:1:0:a9:fea9:fe00:0", True),
        ("64:ff9b:1::a01:204", False),
        ("2002:a9fe:a9fe::1", True),
        ("2001:0:a9fe:a9fe::1", True),
        ("10.1.2.3", True),
        ("10.1.2.4", False),
        ("fe80::1%eth0", True),
        ("::1", False),
        ("127.0.0.1", False),
    ],
)
def test_an_address_is_in_a_network_or_not(address: str, denied: bool) -> None:
    assert (forbidden(address, DENIED) is not None) is denied


@pytest.mark.parametrize(
    ("servers", "hosts"),
    [
        ("a:9092,b:9093", ["a", "b"]),
        (" a:9092 , SASL_SSL://b:1", ["a", "b"]),
        ("[fe80::1]:9092", ["fe80::1"]),
        ("a", ["a"]),
        ("", []),
        (",,", []),
    ],
)
def test_hosts_of_bootstrap_servers(servers: str, hosts: list[str]) -> None:
    assert hosts_of(servers) == hosts


def test_what_is_no_network_is_said() -> None:
    with pytest.raises(ValueError, match="acme"):
        networks(["acme"])
