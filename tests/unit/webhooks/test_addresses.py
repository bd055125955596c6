"""Addresses to which nothing is sent, in all their disguises."""

from __future__ import annotations

import ipaddress

import pytest

from backend.domain.webhooks.addresses import Receiver, parse_networks, parse_receiver, refusal


def refused(address: str, allowed: str = "") -> bool:
    return refusal(ipaddress.ip_address(address), parse_networks(allowed)) is not None


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
        *("169.254.169.254", "224.0.0.1", "239.1.1.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1"),
        *("::1", "::", "fe80::1", "fd00::1", "ff02::1", "ff0e::1", "2001:db8::1"),
        *("fec0::1", "5f00::1", "4000::1", "2001::1", "2001:20::1", "3fff::1", "192.0.0.8", "192.88.99.1"),
        *("64:ff9b:1::a9fe:a9fe", "64:ff9b:1::101:101", "::a9fe:a9fe", "::7f00:1", "::ffff:0:a9fe:a9fe"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::"),
    ],
)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert refused(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "9.9.9.9", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2a00:1450::1"]
)
def test_what_is_public_is_not(address: str) -> None:
    assert not refused(address)


def test_networks_that_are_named_are_allowed_and_no_others() -> None:
    allowed = "10.20.0.0/16, fd00:1::/32,"
    assert not refused("10.20.3.4", allowed) and not refused("::ffff:10.20.3.4", allowed)
    assert not refused("fd00:1::5", allowed) and not refused("::1", "::1/128")
    assert refused("64:ff9b:1::a14:304", allowed), "whose prefix may have another length"
    assert refused("10.21.3.4", allowed) and refused("127.0.0.1", allowed) and refused("fd00:2::5", allowed)


@pytest.mark.parametrize("wrong", ["10.0.0.1/8", "everything", "10.0.0.0/33"])
def test_what_is_no_network_is_told(wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong.partition("/")[0]):
        parse_networks(wrong)


@pytest.mark.parametrize(
    ("url", "who"),
    [
        ("https://a.example", Receiver("https", "a.example", 443, "a.example", "/")),
        ("HTTP://A.example:8080/x?y=1", Receiver("http", "A.example", 8080, "A.example:8080", "/x?y=1")),
        ("http://a_b-c?y", Receiver("http", "a_b-c", 80, "a_b-c", "/?y")),
        (
            "https://[2606:4700::1111]:8443/",
            Receiver("https", "2606:4700::1111", 8443, "[2606:4700::1111]:8443", "/"),
        ),
    ],
)
def test_the_parts_of_a_url(url: str, who: Receiver) -> None:
    assert parse_receiver(url) == who
