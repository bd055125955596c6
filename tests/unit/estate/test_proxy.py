"""The proxy on real sockets, before an echo server: the effect of each fault on bytes in flight."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from backend.estate.ports import free_ports
from backend.estate.proxy import TOKEN_VARIABLE
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually

QUIET_SECONDS = 0.3  # seconds that a test listens to be sure that nothing comes


class Proxied:
    """A proxy with one link to an echo server."""

    def __init__(self, control: int, listen: int) -> None:
        self.control, self.listen = control, listen

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.listen), 10)

    def order(self, action: str, token: str = "secret", **details: Any) -> dict[str, Any]:
        words = {"action": action, "cluster": "cluster-1", "token": token, **details}
        with socket.create_connection(("127.0.0.1", self.control), 10) as connection:
            connection.sendall(json.dumps(words).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
        return answer


@contextmanager
def echo_server() -> Iterator[tuple[int, bytearray]]:
    """Yield its port, and everything that it has received."""
    received = bytearray()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(ConnectionResetError):
            while data := connection.recv(65536):
                received.extend(data)
                connection.sendall(data)

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], received
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def echo() -> Iterator[tuple[int, bytearray]]:
    with echo_server() as served:
        yield served


@pytest.fixture
def proxied(echo: tuple[int, bytearray]) -> Iterator[Proxied]:
    control, listen = free_ports(2)
    process = subprocess.Popen(
        [sys.executable, "-m", "backend.estate.proxy", str(control), f"cluster-1={listen}:{echo[0]}"],
        cwd=PROJECT_ROOT,
        env={**os.environ, TOKEN_VARIABLE: "secret"},
    )
    running = Proxied(control, listen)

    def answers() -> bool:
        try:
            return "links" in running.order("show")
        except OSError:
            return False

    eventually(answers, "the proxy listens")
    yield running
    process.terminate()
    assert process.wait() == 0


def silent(connection: socket.socket) -> bool:
    connection.settimeout(QUIET_SECONDS)
    try:
        return not connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(10)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return receive(connection, len(data))


def receive(connection: socket.socket, count: int) -> bytes:
    answer = b""
    while len(answer) < count and (part := connection.recv(65536)):
        answer += part
    return answer


def test_without_a_fault_bytes_pass_unchanged(proxied: Proxied) -> None:
    data = os.urandom(3_000_000)
    with proxied.connect() as connection:
        thread = threading.Thread(target=connection.sendall, args=(data,))
        thread.start()
        assert receive(connection, len(data)) == data
        thread.join()


def test_a_cut_stops_open_and_new_connections_and_heals_without_a_loss(proxied: Proxied) -> None:
    with proxied.connect() as old:
        assert echoed(old, b"before") == b"before"
        proxied.order("cut")
        with proxied.connect() as new:
            old.sendall(b"during")
            new.sendall(b"new")
            assert silent(old)
            assert silent(new)
            proxied.order("heal")
            assert receive(old, 6) == b"during"
            assert receive(new, 3) == b"new"


@pytest.mark.parametrize(("direction", "arrives"), [("to_broker", False), ("to_client", True)])
def test_a_one_way_cut_stops_one_way(
    proxied: Proxied, echo: tuple[int, bytearray], direction: str, arrives: bool
) -> None:
    with proxied.connect() as connection:
        assert echoed(connection, b"before") == b"before"
        proxied.order("cut", direction=direction)
        connection.sendall(b"during")
        assert silent(connection)
        assert echo[1].endswith(b"during") is arrives
        proxied.order("heal")
        assert receive(connection, 6) == b"during"


def test_refuse_resets_open_and_new_connections(proxied: Proxied) -> None:
    with proxied.connect() as old:
        assert echoed(old, b"before") == b"before"
        proxied.order("refuse")
        with pytest.raises(ConnectionResetError):
            old.recv(1)
        with pytest.raises(ConnectionResetError), proxied.connect() as new:
            new.recv(1)
    proxied.order("heal")
    with proxied.connect() as again:
        assert echoed(again, b"after") == b"after"


def test_a_delay_holds_every_byte_at_least_that_long_each_way(proxied: Proxied) -> None:
    proxied.order("delay", delay_ms=150)
    with proxied.connect() as connection:
        started = time.monotonic()
        assert echoed(connection, b"slow") == b"slow"
        # A lower bound, which a slow machine can only exceed.
        assert time.monotonic() - started >= 0.3


def test_a_flapping_link_is_cut_and_open_by_turns(proxied: Proxied) -> None:
    proxied.order("flap", up_ms=100, down_ms=100)
    for wanted in (True, False, True):
        eventually(lambda w=wanted: bool(proxied.order("show")["links"][0]["cut"]) is w, f"cut: {wanted}")  # type: ignore[misc]
    with proxied.connect() as connection:
        assert echoed(connection, b"in the end") == b"in the end"


def test_a_dead_broker_behind_the_proxy_resets_the_client(proxied: Proxied) -> None:
    (nobody,) = free_ports(1)
    control, listen = free_ports(2)
    process = subprocess.Popen(
        [sys.executable, "-m", "backend.estate.proxy", str(control), f"cluster-1={listen}:{nobody}"],
        cwd=PROJECT_ROOT,
        env={**os.environ, TOKEN_VARIABLE: "secret"},
    )
    try:
        dead = Proxied(control, listen)

        def reset() -> bool:
            try:
                with dead.connect() as connection:
                    connection.recv(1)
            except ConnectionResetError:
                return True
            except ConnectionRefusedError:  # the proxy itself does not run yet
                return False
            return False

        eventually(reset, "the client is reset")
    finally:
        process.terminate()
        process.wait()


def test_a_cluster_gets_a_way_more_and_loses_it_under_the_fault_that_it_has(
    proxied: Proxied, echo: tuple[int, bytearray]
) -> None:
    (listen,) = free_ports(1)
    proxied.order("cut")
    for _ in range(2):  # a proxy that was restarted meanwhile has it already
        (link,) = proxied.order("open_way", listen=listen, target=echo[0])["links"]
    assert link["cut"] == ["to_broker", "to_client"]
    with socket.create_connection(("127.0.0.1", listen), 10) as connection:
        connection.sendall(b"during")
        assert silent(connection)
        proxied.order("heal")
        assert receive(connection, 6) == b"during"
    for _ in range(2):
        assert "error" not in proxied.order("close_way", listen=listen)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listen), 10)
    with proxied.connect() as other:
        assert echoed(other, b"still") == b"still"


def test_a_way_at_a_strangers_port_is_refused(proxied: Proxied) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        answer = proxied.order("open_way", listen=stranger.getsockname()[1], target=1)
    assert "address already in use" in answer["error"]


@pytest.mark.parametrize(
    ("action", "details", "named"),
    [
        ("explode", {}, "explode"),
        ("cut", {"direction": "up"}, "up"),
        ("cut", {"cluster": "cluster-9"}, "cluster-9"),
        ("delay", {"delay_ms": -1}, "delay_ms"),
        ("delay", {}, "delay_ms"),
        ("flap", {"up_ms": 1}, "down_ms"),
        ("open_way", {"listen": 1024}, "target"),
        ("open_way", {"listen": 65536, "target": 1024}, "listen"),
        ("close_way", {}, "listen"),
        ("heal", {"token": "guessed"}, "token"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(
    proxied: Proxied, action: str, details: dict[str, Any], named: str
) -> None:
    words = {"cluster": "cluster-1", "token": "secret", **details, "action": action}
    with socket.create_connection(("127.0.0.1", proxied.control), 10) as connection:
        connection.sendall(json.dumps(words).encode() + b"\n")
        assert named in json.loads(connection.makefile().readline())["error"]
    assert proxied.order("show")["links"][0]["cut"] == []


def test_noise_on_the_control_port_changes_nothing(proxied: Proxied) -> None:
    for noise in (b"\n", b"[]\n", b"\xff\xfe\n", b"null\n", b"{" * 1000 + b"\n"):
        with socket.create_connection(("127.0.0.1", proxied.control), 10) as connection:
            connection.sendall(noise)
            assert "error" in json.loads(connection.makefile().readline())
