"""A node and the control plane: reports arrive, and no response, invalid or missing, ever stops the node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.zone_router import control
from workers.zone_router.control import Control, Epochs, ResponseInvalid, read_epochs

GOOD = {"current": 12, "fenced": 10, "committed": 9, "dead": ["zr-az2"]}
TOLD = Epochs(current=12, fenced=10, committed=9, dead=frozenset({"zr-az2"}))


def http(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n".encode() + body


class Plane:
    """Server in place of the control plane, with responses as configured."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[bytes | None] = []
        """One after the other, the last one again and again; None: none."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await reader.readexactly(int(fields["content-length"]))
        self.requests.append((head, json.loads(body)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            await asyncio.sleep(30)
        else:
            writer.write(answer)
        writer.close()


@asynccontextmanager
async def listening(plane: Plane, port: int = 0) -> Any:
    server = await asyncio.start_server(plane.serve, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not happened():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_EVERY_SECONDS", 0.01)


def run(test: Callable[[Plane, list[Epochs]], Awaitable[None]]) -> None:
    asyncio.run(test(Plane(), []))  # type: ignore[arg-type]


def test_it_reports_with_its_token_and_hears_of_epochs(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("one\n")

    async def test(plane: Plane, heard: list[Epochs]) -> None:
        plane.answers = [http(json.dumps(GOOD).encode())]
        async with listening(plane) as port:
            told = Control(f"http://127.0.0.1:{port}", f"${{file:{secret}}}", lambda: {"node": "a"}, heard.append)
            running = asyncio.create_task(told.run())
            assert await told.first_answer(30)
            await until(lambda: len(heard) > 1)
            secret.write_text("two\n")
            await until(lambda: "authorization: bearer two" in plane.requests[-1][0].lower())
            running.cancel()
        assert heard[0] == TOLD
        head, body = plane.requests[0]
        assert head.startswith("POST /api/v1/route-epochs/reports HTTP/1.1\r\n") and body == {"node": "a"}
        assert "authorization: bearer one" in head.lower()

    run(test)


BAD = [
    http(b"{}"),
    http(b""),
    http(b"null"),
    http(b"[" * 5_000),
    http(b"\xff\xfe"),
    http(json.dumps(GOOD).encode(), "503 Service Unavailable"),
    http(json.dumps(GOOD).encode(), "301 Moved"),
    http(json.dumps(GOOD).encode(), length=5_000),
    http(b" " * (1 << 21)),
    b"SSH-2.0-OpenSSH\r\n",
    b"",
    None,
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_an_answer_that_is_none_changes_nothing_and_the_next_one_counts(
    bad: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_ANSWER_SECONDS", 0.3 if bad is None else 5.0)

    async def test(plane: Plane, heard: list[Epochs]) -> None:
        plane.answers = [bad, bad, http(json.dumps(GOOD).encode())]
        async with listening(plane) as port:
            told = Control(f"http://127.0.0.1:{port}", None, dict, heard.append)
            running = asyncio.create_task(told.run())
            await until(lambda: bool(heard))
            assert len(plane.requests) >= 3 and heard[0] == TOLD and not running.done()
            running.cancel()

    run(test)


def test_a_control_plane_that_is_away_is_asked_until_it_is_there(tmp_path: Path) -> None:
    """The token's file appears later, too, and a failing report does not stop the node."""
    secret, made = tmp_path / "token", [0]

    def report() -> dict[str, Any]:
        made[0] += 1
        if made[0] == 2:
            raise RuntimeError("broken for once")
        return {"node": "a"}

    async def test(plane: Plane, heard: list[Epochs]) -> None:
        plane.answers = [http(json.dumps(GOOD).encode())]
        async with listening(plane) as port:
            pass
        told = Control(f"http://127.0.0.1:{port}", f"${{file:{secret}}}", report, heard.append)
        running = asyncio.create_task(told.run())
        assert not await told.first_answer(0.05)
        secret.write_text("one")
        await until(lambda: made[0] > 2)
        assert heard == []
        async with listening(plane, port):
            await until(lambda: bool(heard))
        assert not running.done()
        running.cancel()

    run(test)


@pytest.mark.parametrize(
    "change",
    [
        {"current": "12"},
        {"current": True, "fenced": 0, "committed": 0},
        {"current": -1},
        {"current": 2**63},
        {"fenced": 12},
        {"fenced": 13},
        {"committed": 11},
        {"committed": None},
        {"dead": None},
        {"dead": [1]},
        {"dead": "zr-az2"},
    ],
)
def test_epochs_that_contradict_each_other_are_none(change: dict[str, Any]) -> None:
    with pytest.raises(ResponseInvalid):
        read_epochs(json.dumps({**GOOD, **change}).encode())


def test_before_the_first_epoch_all_are_nothing() -> None:
    nothing = {"current": 0, "fenced": 0, "committed": 0, "dead": [], "more": "of a newer one"}
    assert read_epochs(json.dumps(nothing).encode()).current == 0


@given(st.binary() | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_garbage_is_refused_and_breaks_nothing(body: bytes | str) -> None:
    with pytest.raises(ResponseInvalid):
        read_epochs(body if isinstance(body, bytes) else body.encode())
