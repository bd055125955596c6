"""One question for all who wait, and nobody gets an answer that was asked for before they came."""

from __future__ import annotations

import asyncio
import threading

import pytest

from backend.registry.single_flight import SingleFlight


def test_who_comes_while_one_asks_gets_the_next_answer() -> None:
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
    asked: list[int] = []

    def ask() -> int:
        asked.append(len(asked))
        answer = asked[-1]
        begun.release()
        go_on.acquire()
        return answer

    async def run() -> None:
        together = SingleFlight(ask)
        first = asyncio.create_task(together())
        await asyncio.to_thread(begun.acquire)
        late = [asyncio.create_task(together()) for _ in range(5)]
        await asyncio.sleep(0.01)
        late[0].cancel()
        assert asked == [0]
        go_on.release()
        go_on.release()
        assert await first == 0
        assert await asyncio.gather(*late[1:]) == [1] * 4
        assert asked == [0, 1]

    asyncio.run(run())


def test_a_failure_is_everybodys_who_waited_and_nobody_elses() -> None:
    answers = iter((ValueError("away"), None))

    def ask() -> str:
        if problem := next(answers):
            raise problem
        return "there"

    together = SingleFlight(ask)

    async def run() -> None:
        found = await asyncio.gather(together(), together(), return_exceptions=True)
        assert [type(each) for each in found] == [ValueError] * 2

    asyncio.run(run())
    # In another event loop.
    assert asyncio.run(together.__call__()) == "there"


def test_what_an_ended_loop_left_behind_is_in_nobodys_way() -> None:
    go_on = threading.Event()
    together = SingleFlight(lambda: go_on.wait(10))

    async def cut_off() -> None:
        await asyncio.wait_for(asyncio.gather(together(), together()), 0.05)

    threading.Timer(0.3, go_on.set).start()
    with pytest.raises(TimeoutError):
        asyncio.run(cut_off())
    assert asyncio.run(together.__call__())
