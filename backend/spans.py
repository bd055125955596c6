"""Parts of a request as tracing spans, if the process records any (`backend/telemetry.py`).

This module holds only the tracer of the current request: workers run the same commands and need no OpenTelemetry
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_tracer: ContextVar[Tracer | None] = ContextVar("tracer", default=None)

Tell = Callable[[str, str | int], None]
"""Sets an attribute of a part: its name (without our prefix `treeline.`) and its value."""


@contextmanager
def recording(tracer: Tracer) -> Iterator[None]:
    """Record parts in this block as spans, also on threads that the block waits for."""
    token = _tracer.set(tracer)
    try:
        yield
    finally:
        _tracer.reset(token)


@contextmanager
def part(name: str) -> Iterator[Tell]:
    """Time one part of a request. An error in it is recorded by its type only, without its text."""
    tracer = _tracer.get()
    if tracer is None:
        yield _to_nobody
        return
    from opentelemetry.trace import StatusCode

    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
        try:
            yield lambda what, value: span.set_attribute(f"treeline.{what}", value)
        except BaseException as error:
            # The text of a failed statement contains the values that were to be written.
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(StatusCode.ERROR)
            raise


def _to_nobody(what: str, value: str | int) -> None:
    """Discard an attribute, where nothing is recorded."""
