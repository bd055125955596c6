"""Registries of this process: one for each cluster, started and ended as clusters come, change and go."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import anyio
import structlog
from prometheus_client.metrics_core import Metric
from sqlalchemy import Engine

from backend.domain.distribution.edges import Endpoint
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.listen import EventListener
from backend.metrics import family
from backend.queries.clusters.clusters import list_clusters
from backend.registry.mirror import Mirror
from backend.registry.writing import Writer

logger = structlog.get_logger("registry")

NEWS_SECONDS = 5.0
RETRY_SECONDS = 1.0
_THREADS = 4


class Registry:
    """Registry of one cluster: a mirror for reads and a writer."""

    def __init__(self, engine: Engine, endpoint: Endpoint, topic: str) -> None:
        self.mirror = Mirror(endpoint, topic)
        self.writer = Writer(engine, self.mirror)
        # Own threads, so that waiting for one cluster does not delay another.
        self.threads = anyio.CapacityLimiter(_THREADS)


class Directory:
    """Follows the event log from `start` to `stop`; the database may be unavailable."""

    def __init__(self, engine: Engine, listener: EventListener, topic: str) -> None:
        self._engine = engine
        self._listener = listener
        self._topic = topic
        self._registries: dict[str, Registry] = {}
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registries", daemon=True)

    def start(self) -> None:
        """Begin to read the schemas of all clusters."""
        self._thread.start()

    def stop(self) -> None:
        """Signal all threads to end; the listener must be stopped, too, before `join` waits for them."""
        self._stopping.set()
        for registry in self._registries.values():
            registry.mirror.stop()

    def join(self) -> None:
        """Wait until the threads have ended."""
        self._thread.join()
        with self._changing:
            _end(self._registries.values())
            self._registries = {}

    def find(self, cluster: str) -> Registry | None:
        """Return a cluster's registry, None for a cluster that is not known (yet)."""
        return self._registries.get(cluster)

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics of the registries."""
        unreadable = family("treeline_schema_unreadable_records")
        readable = family("treeline_schema_topic_read")
        for name, registry in sorted(self._registries.items()):
            mirror = registry.mirror
            unreadable.add_metric([name], mirror.unreadable_records)
            readable.add_metric([name], float(mirror.ready and mirror.reason is None))
        yield from (unreadable, readable)

    def refresh(self) -> None:
        """Start and end registries by the present clusters. Raises DatabaseUnavailable."""
        with self._changing:
            if self._stopping.is_set():
                return
            with self._engine.connect() as connection:
                rows = list_clusters(connection)
            kept, made = {}, []
            for row in rows:
                known = self._registries.get(row.name)
                if known is not None and known.mirror.endpoint == row.endpoint:
                    kept[row.name] = known
                else:
                    made.append(Registry(self._engine, row.endpoint, self._topic))
            gone = [registry for registry in self._registries.values() if registry not in kept.values()]
            self._registries = kept | {registry.mirror.endpoint.name: registry for registry in made}
            for registry in made:
                registry.mirror.start()
            _end(gone)

    def _run(self) -> None:
        seen = -1
        while not self._stopping.is_set():
            try:
                self.refresh()
            except DatabaseUnavailable as error:
                logger.warning("registries not refreshed: database unavailable", error=str(error))
                self._stopping.wait(RETRY_SECONDS)
            except Exception:
                logger.exception("registries cannot be refreshed")
                self._stopping.wait(NEWS_SECONDS)
            else:
                seen = self._listener.wait_for_events(seen, NEWS_SECONDS)


def _end(registries: Iterable[Registry]) -> None:
    ending = list(registries)
    for registry in ending:
        registry.mirror.stop()
    for registry in ending:
        registry.mirror.join()
