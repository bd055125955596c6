"""Concurrent holders of a catalog's lock: no thread here waits for time, only for others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from backend.registry.sharing import CatalogLock
from tests.eventually import eventually


class Shared:
    """A lock and threads that take it, each until it is told to leave."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.lock, self.order = CatalogLock(), list[str]()
        self._threads = threads
        self.leaving: dict[str, threading.Event] = {}
        self.done: dict[str, Future[None]] = {}

    def come(self, name: str, kind: str) -> None:
        leave = self.leaving[name] = threading.Event()

        def stay() -> None:
            with getattr(self.lock, kind)():
                self.order.append(name)
                assert leave.wait(30)

        self.done[name] = self._threads.submit(stay)

    def leave(self, name: str) -> None:
        self.leaving[name].set()
        self.done[name].result(30)

    def is_in(self, name: str) -> Callable[[], bool]:
        return lambda: name in self.order

    def wait_for(self, name: str) -> None:
        eventually(self.is_in(name), f"{name} is in", 0.001)

    def waits(self) -> None:
        eventually(lambda: self.lock._waiting == 1, "a change waits", 0.001)


@pytest.fixture
def shared() -> Iterator[Shared]:
    with ThreadPoolExecutor(8) as threads:
        shared = Shared(threads)
        yield shared
        for leave in shared.leaving.values():
            leave.set()


def test_who_looks_waits_for_nobody_who_parses_also_while_a_change_waits_for_him(shared):
    shared.come("parser", "parsing")
    shared.wait_for("parser")
    shared.come("another parser", "parsing")
    shared.wait_for("another parser")
    shared.come("change", "writing")
    shared.waits()
    shared.come("looker", "reading")
    shared.wait_for("looker")
    assert shared.lock.try_read()
    shared.lock.release()
    shared.leave("looker")
    shared.come("late parser", "parsing")
    for name in ("parser", "another parser"):
        assert shared.order[-1] == "looker", "the change waits for all who parse"
        shared.leave(name)
    shared.wait_for("change")
    assert not shared.lock.try_read()
    assert "late parser" not in shared.order
    shared.leave("change")
    shared.wait_for("late parser")
    assert shared.order == ["parser", "another parser", "looker", "change", "late parser"]


def test_a_change_is_let_in_before_those_who_come_to_look_later(shared):
    assert shared.lock.try_read()
    shared.come("change", "writing")
    shared.waits()
    assert not shared.lock.try_read()
    shared.come("looker", "reading")
    shared.lock.release()
    shared.wait_for("change")
    assert shared.order == ["change"]
    shared.leave("change")
    shared.wait_for("looker")


def test_nothing_is_ever_changed_under_somebodys_eyes():
    lock, held, seen, wrong = CatalogLock(), [0, 0], [0], []
    left = threading.Barrier(6)

    def reader(kind: str) -> None:
        for _ in range(2000):
            with getattr(lock, kind)():
                if held[0] != held[1]:
                    wrong.append(tuple(held))
                seen[0] += 1
        left.wait(30)

    def changer() -> None:
        for _ in range(500):
            with lock.writing():
                held[0] += 1
                held[1] += 1
        left.wait(30)

    with ThreadPoolExecutor(6) as threads:
        jobs = [threads.submit(reader, kind) for kind in ("reading", "reading", "parsing", "parsing")]
        jobs += [threads.submit(changer) for _ in range(2)]
        for job in jobs:
            job.result(60)
    assert (held, wrong) == ([1000, 1000], [])


def test_a_fault_gives_the_catalog_back():
    lock = CatalogLock()
    for kind in (lock.reading, lock.parsing, lock.writing):
        with pytest.raises(KeyError), kind():
            raise KeyError
    with lock.writing():
        pass
