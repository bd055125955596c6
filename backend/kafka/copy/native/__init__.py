"""The record loop in C: decisions (`decide.c`), Python types (`edge.c`, `loop.c`), librdkafka (`module.c`).

It is compiled by `build.py`, at installation or at the first start, for the pinned confluent-kafka, whose clients
it shares. If it was not built, or does not fit the running version, the loop in Python does the same work, more
slowly.
"""

from __future__ import annotations

from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import structlog

from backend.kafka.copy.native.built import MODULE, built


class NativeMissing(ImportError):
    """The native record loop was requested and cannot be used; the text says why."""


@cache
def _load() -> ModuleType | str:
    try:
        spec = spec_from_file_location(MODULE, built())
        if spec is None or spec.loader is None or not built().exists():
            raise ImportError("it has not been built; python -m backend.kafka.copy.native.build does it")
        loaded = module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded
    except ImportError as error:
        reason = f"the native record loop cannot be used: {error}"
        structlog.get_logger("record-loop").info("records are copied by the loop in Python", reason=reason)
        return reason


def available() -> bool:
    """Return whether the native loop was built for the running confluent-kafka; log the reason once if not."""
    return isinstance(_load(), ModuleType)


def module() -> ModuleType:
    """Return the compiled module, with `Loop` and `Edge`. Raises NativeMissing."""
    loaded = _load()
    if isinstance(loaded, str):
        raise NativeMissing(loaded)
    return loaded
