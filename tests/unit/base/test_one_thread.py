"""Occasional work in a thread of its own: one at a time, and closed when none is running."""

from __future__ import annotations

import threading

import pytest

from tests.eventually import eventually
from workers.one_thread import OneThread


class Work:
    """Work that runs until it may end, and counts."""

    def __init__(self) -> None:
        self.may_end, self.begun, self.closed = threading.Event(), 0, 0

    def __call__(self) -> None:
        self.begun += 1
        assert self.may_end.wait(60)

    def close(self) -> None:
        self.closed += 1


def idle(thread: OneThread) -> None:
    eventually(lambda: not thread.is_working, "the work is done")


def test_one_thread_at_a_time_works() -> None:
    work = Work()
    thread = OneThread("work", work.close)
    assert thread.begin(work) and thread.is_working
    assert not thread.begin(work)
    work.may_end.set()
    idle(thread)
    assert thread.begin(work)
    idle(thread)
    assert (work.begun, work.closed) == (2, 0)


def test_what_ends_while_nobody_works_is_closed_at_once_and_begins_no_more() -> None:
    work = Work()
    thread = OneThread("work", work.close)
    thread.end()
    thread.end()
    assert work.closed == 1
    assert not thread.begin(work) and work.begun == 0


def test_what_ends_while_one_works_is_closed_behind_it() -> None:
    work = Work()
    thread = OneThread("work", work.close)
    thread.begin(work)
    thread.end()
    assert work.closed == 0
    work.may_end.set()
    eventually(lambda: work.closed == 1, "it is closed")
    idle(thread)
    assert work.closed == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_that_fails_lets_the_next_begin() -> None:
    def fails() -> None:
        raise ValueError("of the work")

    thread = OneThread("work")
    assert thread.begin(fails)
    idle(thread)
    assert thread.begin(fails)
    idle(thread)


def test_without_a_thread_it_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    work = Work()
    work.may_end.set()
    thread = OneThread("work", work.close)
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", none)
        with pytest.raises(RuntimeError):
            thread.begin(work)
    assert not thread.is_working
    assert thread.begin(work)
    idle(thread)
    assert work.begun == 1
