"""One request to a webhook's receiver, however its address is written."""

from __future__ import annotations

import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from backend.domain.webhooks.addresses import parse_networks
from tests.support.api.receiver import receiving
from workers.webhooks.posting import DeliveryFailed, post

LONG_SECONDS = 600.0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:0001]", "localhost"])
def test_an_address_is_no_host_with_a_port(host: str) -> None:
    with receiving() as receiver:
        url = f"http://{host}:{urlsplit(receiver.url).port}/hook"
        allowed = parse_networks("127.0.0.0/8, ::1/128")
        assert post(url, {}, b"{}", allowed=allowed, timeout_seconds=LONG_SECONDS) == 204
        [got] = receiver.got
        assert got.headers["Host"] == url.split("/")[2]


def test_an_address_that_is_refused_is_not_called() -> None:
    with receiving() as receiver, pytest.raises(DeliveryFailed, match="the address is not allowed"):
        post(receiver.url, {}, b"{}", allowed=(), timeout_seconds=LONG_SECONDS)
    assert receiver.got == []


def test_each_address_that_a_name_stands_for_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a denied address among allowed ones: it may be an attempt to reach it by luck."""
    with receiving() as receiver:
        port = urlsplit(receiver.url).port
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.1", "10.0.0.1")
        ]
        monkeypatch.setattr("workers.webhooks.posting.socket.getaddrinfo", lambda *_, **__: found)
        allowed = parse_networks("127.0.0.0/8")
        with pytest.raises(DeliveryFailed, match=r"the address is not allowed: 10\.0\.0\.1"):
            post(f"http://receiver.example:{port}/", {}, b"{}", allowed=allowed, timeout_seconds=LONG_SECONDS)
        assert receiver.got == []


def test_the_address_that_was_looked_at_is_the_one_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a name whose address changes between the check and a second look-up (DNS rebinding)."""
    look_up = socket.getaddrinfo
    # The first look-up gets this address, the next one another, where no server listens.
    answers = iter(("127.0.0.1", "127.0.0.9"))

    def changing(host: str, *rest: Any, **more: Any) -> list[Any]:
        return look_up(next(answers) if host == "receiver.example" else host, *rest, **more)

    monkeypatch.setattr("workers.webhooks.posting.socket.getaddrinfo", changing)
    with receiving() as receiver:
        url = f"http://receiver.example:{urlsplit(receiver.url).port}/"
        allowed = parse_networks("127.0.0.0/8")
        assert post(url, {}, b"{}", allowed=allowed, timeout_seconds=LONG_SECONDS) == 204


def test_a_name_server_that_hangs_does_not_hold_up_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = threading.Event()

    def hangs(*_: object, **__: object) -> list[object]:
        freed.wait()
        return []

    monkeypatch.setattr("workers.webhooks.posting.socket.getaddrinfo", hangs)
    try:
        with pytest.raises(DeliveryFailed, match="did not answer within"):
            post("http://receiver.example/", {}, b"{}", allowed=(), timeout_seconds=0.05)
    finally:
        freed.set()
