"""Count what clients of Kafka leave behind, in a process where nothing else starts threads."""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from confluent_kafka import KafkaException

from backend.kafka.base import identity


def threads() -> int:
    """Return the number of this process's threads, including those of librdkafka."""
    return len(list(Path("/proc/self/task").iterdir()))


def left_by_strangers(servers: str, asked: tuple[tuple[str | None, float], ...]) -> tuple[list[str | None], int]:
    """Ask in a new process who answers at `servers`; return the answers, and the threads that were left.

    `asked` holds the expected id and the seconds of each question; an error is an answer too. Garbage is not
    collected meanwhile and errors are kept, so that a client that waits for either is counted.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(_ask, servers, asked).result()


def _ask(servers: str, asked: tuple[tuple[str | None, float], ...]) -> tuple[list[str | None], int]:
    gc.disable()
    before = threads()
    answers: list[str | None] = []
    errors: list[KafkaException] = []
    for expected, seconds in asked:
        try:
            answers.append(identity.stranger(servers, {}, expected, seconds))
        except KafkaException as error:
            errors.append(error)
            answers.append(error.args[0].name())
    return answers, threads() - before
