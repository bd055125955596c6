"""Ports: the preferred one, the same again, another if a foreign program has it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import IO

import pytest

from backend.estate import ports as drawing
from backend.estate.ports import SPARE, Ports, free_ports, is_free
from backend.settings import PROJECT_ROOT


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
    given = [first.take("api", 8000), first.take("valkey", 16379)]
    first.remember()
    again = Ports(tmp_path / "ports.json")
    assert [again.take("api", 8000), again.take("valkey", 16379)] == given


def test_two_uses_never_share_a_port(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    ports = Ports(tmp_path / "ports.json")
    assert len({ports.take(f"use-{n}", port) for n in range(20)}) == 20


def test_spare_ports_lie_below_those_of_outgoing_connections() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < lowest for port in SPARE)


def test_two_who_draw_at_the_same_time_draw_different_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of four who draw the only port at the same time gets it, although nothing listens on it yet."""
    (port,) = free_ports(1)
    monkeypatch.setattr(drawing, "SPARE", range(port, port + 1))
    # Claims in a folder of their own, in which the port is not this process's.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    write, together = drawing._write, Barrier(4)

    def late_write(claim: IO[str]) -> None:
        # Without a lock, all would have seen by now that nobody has the port.
        time.sleep(0.05)
        write(claim)

    def draw(_: int) -> list[int]:
        together.wait()
        try:
            return free_ports(1)
        except OSError:
            return []

    monkeypatch.setattr(drawing, "_write", late_write)
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(draw, range(4))) == [[], [], [], [port]]


def drawer(*words: str) -> subprocess.Popen[str]:
    """Start a process that draws or holds ports, prints them, and lives until its input ends."""
    code = (
        "import sys; from backend.estate.ports import free_ports, hold; given = [int(w) for w in sys.argv[1:]]; "
        "hold(given); print(*(given or free_ports(1)), flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code, *words]
    return subprocess.Popen(argv, cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> None:
    process.communicate()
    assert process.returncode == 0


def test_a_port_is_its_drawers_for_as_long_as_it_lives_though_nobody_listens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    process = drawer()
    assert process.stdout is not None
    port = int(process.stdout.readline())
    monkeypatch.setattr(drawing, "SPARE", range(port, port + 1))
    with pytest.raises(OSError, match="0 of the ports from"):
        free_ports(1)
    remembering = tmp_path / "ports.json"
    remembering.write_text(json.dumps({"api": port}))
    monkeypatch.setattr(drawing, "SPARE", SPARE)
    assert Ports(remembering).take("api") != port
    monkeypatch.setattr(drawing, "SPARE", range(port, port + 1))
    ended(process)
    assert free_ports(1) == [port]
    with pytest.raises(OSError, match="0 of the ports from"):
        free_ports(1)


def test_who_takes_ports_over_keeps_them_when_their_drawer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    first = drawer()
    assert first.stdout is not None
    port = first.stdout.readline().strip()
    second = drawer(port)
    assert second.stdout is not None and second.stdout.readline().strip() == port
    ended(first)
    monkeypatch.setattr(drawing, "SPARE", range(int(port), int(port) + 1))
    with pytest.raises(OSError, match="0 of the ports from"):
        free_ports(1)
    ended(second)
    assert free_ports(1) == [int(port)]


def test_what_no_claim_is_hinders_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    process = drawer()
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    ended(process)
    claim = Path(tempfile.gettempdir()) / f"treeline-ports-{os.getuid()}" / port
    monkeypatch.setattr(drawing, "SPARE", range(int(port), int(port) + 1))
    for content in (b"abc", b"\n", b"\xff\xfe", b"-1 5", b"99999999999 1", b"1"):
        claim.write_bytes(content)
        assert free_ports(1) == [int(port)]
