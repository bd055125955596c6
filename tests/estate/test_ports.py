"""Ports: the preferred one, the same again, another if a stranger has it."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backend.estate.ports import SPARE, Ports, free_ports, is_free


def listening(port: int, address: str = "127.0.0.1") -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen()
    return server


def test_the_preferred_port_is_taken_while_it_is_free(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    ports = Ports(tmp_path / "ports.json")
    assert ports.take("api", port) == port
    assert ports.moved == []


def test_a_stranger_on_the_preferred_port_is_left_alone(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with listening(port):
        ports = Ports(tmp_path / "ports.json")
        given = ports.take("api", port)
        assert given != port
        assert ports.moved == [("api", port, given)]


def test_a_stranger_on_all_addresses_counts_as_well() -> None:
    (port,) = free_ports(1)
    with listening(port, "0.0.0.0"):
        assert not is_free(port)


def test_what_was_given_once_is_given_again(tmp_path: Path) -> None:
    first = Ports(tmp_path / "ports.json", prefer_defaults=False)
    given = [first.take("api", 8000), first.take("redis", 16379)]
    first.remember()
    again = Ports(tmp_path / "ports.json")
    assert [again.take("api", 8000), again.take("redis", 16379)] == given


def test_two_uses_never_share_a_port(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    ports = Ports(tmp_path / "ports.json")
    assert len({ports.take(f"use-{n}", port) for n in range(20)}) == 20


def test_spare_ports_lie_below_those_of_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < lowest for port in SPARE)


def test_two_who_draw_at_the_same_time_draw_different_ports():
    """Nobody listens yet on what the other one has drawn."""
    with ThreadPoolExecutor(4) as drawing:
        drawn = list(drawing.map(lambda _: free_ports(300), range(8)))
    assert len({port for each in drawn for port in each}) == 8 * 300
