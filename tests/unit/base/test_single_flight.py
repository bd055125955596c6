"""Answers are kept for a moment, never asked for twice at a time, and only so many of them."""

from __future__ import annotations

import threading

import pytest

from backend import single_flight
from backend.single_flight import CachedAnswer, CachedAnswers


def test_an_answer_is_kept_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    at, answers = [100.0], iter(range(9))
    monkeypatch.setattr(single_flight.time, "monotonic", lambda: at[0])
    answer = CachedAnswer[int](5.0)
    read = answers.__next__
    assert [answer.get(read), answer.get(read)] == [0, 0]
    at[0] += 5.1
    assert [answer.get(read), answer.get(read)] == [1, 1]


def test_a_failure_is_not_kept() -> None:
    answers = iter([0])

    def read() -> float:
        return 1 / next(answers, 2)

    answer = CachedAnswer[float](5.0)
    with pytest.raises(ZeroDivisionError):
        answer.get(read)
    assert answer.get(read) == 0.5


def test_one_reads_at_a_time_and_the_others_take_its_answer() -> None:
    reading, go_on, reads, got = threading.Event(), threading.Event(), [], []

    def read() -> int:
        reads.append(1)
        reading.set()
        go_on.wait(30)
        return len(reads)

    answer = CachedAnswer[int](3600.0)
    threads = [threading.Thread(target=lambda: got.append(answer.get(read))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert reading.wait(30)
    go_on.set()
    for thread in threads:
        thread.join()
    assert got == [1] * 4


def test_of_many_names_those_that_were_asked_for_last_are_kept() -> None:
    answers, read = CachedAnswers[int](3600.0, most=2), iter(range(9)).__next__
    assert [answers.get(name, read) for name in ("a", "b", "a", "c")] == [0, 1, 0, 2]
    assert [answers.get(name, read) for name in ("a", "c", "b", "a")] == [0, 2, 3, 4]


def test_a_name_that_nothing_has_displaces_no_other() -> None:
    answers, read = CachedAnswers[int](3600.0, most=2), iter(range(9)).__next__

    def fail() -> int:
        raise LookupError

    assert [answers.get("a", read), answers.get("b", read)] == [0, 1]
    for number in range(3):
        with pytest.raises(LookupError):
            answers.get(f"unknown-{number}", fail)
        assert answers.get("b", read) == 1
