"""Slow and unreliable object storage: results are late, but nothing is lost.

All nodes run in this process; each of their storage operations is delayed or fails.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from tests.eventually import eventually
from tests.kafka.zones.consuming import Consuming
from tests.kafka.zones.test_faults import Producing, each_once
from tests.nightly import some_now
from tests.support.machine.disks import full, needs_root, small_disk
from tests.support.zones.nodes import Router
from workers.zone_router.node import RouterNode
from workers.zone_router.object_storage import ObjectStorage, StorageFailed
from workers.zone_router.router_file import read_router_file
from workers.zone_router.traffic import Traffic

pytestmark = pytest.mark.parametrize("router", ["passed"], indirect=True)


@contextmanager
def within(router: Router) -> Iterator[None]:
    """Run the router's nodes in a thread."""
    ready, ended = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        file = read_router_file(router.file)
        nodes, are_ready = [], []
        for name, node in file.nodes.items():
            is_ready = asyncio.Event()
            traffic = Traffic(name, node.zone, CollectorRegistry())
            nodes.append(asyncio.create_task(RouterNode(file, name, traffic).run(ended, is_ready)))
            are_ready.append(is_ready.wait())
        await asyncio.gather(*are_ready)
        ready.set()
        await asyncio.gather(*nodes)

    thread = threading.Thread(target=lambda: uvloop.run(run()))
    thread.start()
    assert ready.wait(60)
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join()


@some_now("seconds, failing", [(0.3, 0.0), (0.05, 0.2)], now=(1,), ids=["slow", "fails now and then"])
def test_what_storage_does_late_or_at_the_second_attempt_is_not_lost(
    router: Router, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, failing: float
):
    draw = random.Random(7)

    def slowed(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def later(*args: Any) -> Any:
            await asyncio.sleep(draw.random() * seconds)
            if draw.random() < failing:
                raise StorageFailed("for now")
            return await method(*args)

        return later

    for name in ("put_new", "get", "whole", "end_of", "sizes", "delete"):
        monkeypatch.setattr(ObjectStorage, name, slowed(getattr(ObjectStorage, name)))
    mine = Router(tmp_path, router.brokers, channel=True, reads={"commit_ms": 1_000})
    topic = f"slow-{secrets.token_hex(4)}"
    router.brokers.create(topic, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]])
    with within(mine), Consuming(mine.nodes["az2"], topic) as consuming:
        with Producing(mine, topic, "az1") as producing:
            producing.resumed()
            eventually(lambda: len(consuming.found) > 1_000, "records are read")
        each_once(mine, topic, producing)
        consuming.is_the_leaders(mine)


@needs_root
@pytest.mark.nightly
def test_a_storage_that_is_full_holds_up_and_loses_nothing(router: Router, tmp_path: Path):
    """Writes fail for some seconds; written records can still be read."""
    with small_disk(tmp_path / "disk", megabytes=300) as disk:
        mine = Router(disk, router.brokers, channel=True, reads={"commit_ms": 1_000})
        topic = f"full-{secrets.token_hex(4)}"
        router.brokers.create(topic, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]])
        with within(mine), Consuming(mine.nodes["az2"], topic) as consuming:
            with Producing(mine, topic, "az1") as producing:
                with full(disk):
                    time.sleep(2)
                    done = len(producing.done)
                    eventually(lambda: len(consuming.found) > 100, "what had been written is read")
                    assert len(producing.done) < done + 1_000, "next to nothing was written meanwhile"
                producing.resumed()
            each_once(mine, topic, producing)
            consuming.is_the_leaders(mine)
