"""Logs of our processes: JSON lines on standard output, one object per event."""

from __future__ import annotations

import logging

import structlog


def configure() -> None:
    """Send structlog and the standard library's warnings to standard output; call once per process."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Plain tracebacks: the default renderer shows local variables, and so secrets, and takes seconds.
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
