"""`/metrics` on a port of its own, without a token, if `TREELINE_METRICS_PORT` is set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from prometheus_client import CollectorRegistry, start_http_server

from backend.api.frame.metrics import StateCollector
from backend.api.frame.services import Services

logger = structlog.get_logger(__name__)


@contextmanager
def metrics_served(services: Services) -> Iterator[None]:
    """Serve the metrics while the block runs, if the settings name a port.

    Of several processes on one machine only the first gets the port; each would serve the same.
    """
    config = services.config
    if config.metrics_port is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(StateCollector(services))
    try:
        server, thread = start_http_server(config.metrics_port, addr=config.metrics_host, registry=registry)
    except OSError as error:
        logger.error(
            "the metrics port cannot be opened: it is in use by another process or not permitted",
            host=config.metrics_host,
            port=config.metrics_port,
            reason=error.strerror,
        )
        yield
        return
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
