"""The record loop in C: decisions (`decide.c`), Python types (`edge.c`, `loop.c`), librdkafka (`module.c`).

Compiled at installation by `build.py` for the pinned confluent-kafka, whose clients it shares. Where it was not
built, or is not for the version that runs, the loop in Python does the same work, more slowly.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

import structlog


class NativeMissing(ImportError):
    """The native record loop was asked for and cannot be used; the text says why."""


@cache
def _load() -> ModuleType | str:
    try:
        return importlib.import_module("backend.kafka.native._record_loop")
    except ImportError as error:
        reason = f"the native record loop cannot be used: {error}"
        structlog.get_logger("record-loop").info("records are copied by the loop in Python", reason=reason)
        return reason


def available() -> bool:
    """Whether the native loop was built and is for the confluent-kafka that runs; says once if not."""
    return isinstance(_load(), ModuleType)


def module() -> ModuleType:
    """The compiled module, with `Loop` and `Edge`. Raises NativeMissing."""
    loaded = _load()
    if isinstance(loaded, str):
        raise NativeMissing(loaded)
    return loaded
