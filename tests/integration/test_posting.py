"""One request to a webhook's receiver, however its address is written."""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

import pytest

from backend.domain.addresses import networks_of
from tests.integration.receiver import receiving
from workers.webhooks.posting import NotTaken, post

LONG_SECONDS = 600.0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:0001]", "localhost"])
def test_an_address_is_no_host_with_a_port(host: str) -> None:
    with receiving() as receiver:
        url = f"http://{host}:{urlsplit(receiver.url).port}/hook"
        allowed = networks_of("127.0.0.0/8, ::1/128")
        assert post(url, {}, b"{}", allowed=allowed, timeout_seconds=LONG_SECONDS) == 204
        [got] = receiver.got
        assert got.headers["Host"] == url.split("/")[2]


def test_an_address_that_is_refused_is_not_called() -> None:
    with receiving() as receiver, pytest.raises(NotTaken, match="nothing is sent"):
        post(receiver.url, {}, b"{}", allowed=(), timeout_seconds=LONG_SECONDS)
    assert receiver.got == []


def test_a_name_server_that_hangs_does_not_hold_up_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = threading.Event()

    def hangs(*_: object, **__: object) -> list[object]:
        freed.wait()
        return []

    monkeypatch.setattr("workers.webhooks.posting.socket.getaddrinfo", hangs)
    try:
        with pytest.raises(NotTaken, match="has not answered within"):
            post("http://receiver.example/", {}, b"{}", allowed=(), timeout_seconds=0.05)
    finally:
        freed.set()
