"""Parts of a request as spans, where its process records any (`backend/telemetry.py`).

Here is nothing but the tracer of the request that is under way: workers run the same commands, and need no
OpenTelemetry for it.
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
"""Says something of a part: a name, without what all of ours begin with, and a value."""


@contextmanager
def recording(tracer: Tracer) -> Iterator[None]:
    """Parts meanwhile are recorded, also on threads that are waited for."""
    token = _tracer.set(tracer)
    try:
        yield
    finally:
        _tracer.reset(token)


@contextmanager
def part(name: str) -> Iterator[Tell]:
    """A part of what a request waits for. What is raised in it is told as its status, without its text."""
    tracer = _tracer.get()
    if tracer is None:
        yield _to_nobody
        return
    from opentelemetry.trace import StatusCode

    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
        try:
            yield lambda what, value: span.set_attribute(f"treeline.{what}", value)
        except BaseException as error:
            # The text of a statement that fails has what it was to write.
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(StatusCode.ERROR)
            raise


def _to_nobody(what: str, value: str | int) -> None:
    """Nothing is recorded."""
