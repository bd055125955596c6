"""Shared services of one API process: database, dispatcher, listener for new events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import structlog
from alembic.config import Config
from alembic.script import ScriptDirectory
from prometheus_client.metrics_core import Metric
from sqlalchemy import Connection

from backend.dispatch import Dispatcher
from backend.eventlog.engine import create_engine
from backend.eventlog.faults import DatabaseUnavailable
from backend.eventlog.listen import EventListener
from backend.eventlog.registry import domain_registry
from backend.projections import runner
from backend.projections.catalogue import PROJECTIONS
from backend.queries.base import events
from backend.queries.distribution import stream_measures
from backend.queries.distribution.partition_buckets import partition_buckets
from backend.queries.distribution.stream_measures import MeasuredStream
from backend.settings import PROJECT_ROOT, Settings
from backend.single_flight import CachedAnswer

logger = structlog.get_logger(__name__)

NEWS_SECONDS = 5.0
RETRY_SECONDS = 1.0


class Services:
    """Services of a process, created once, after any fork; the application's lifespan calls `start` and `stop`."""

    def __init__(self, config: Settings) -> None:
        self.config = config
        self.engine = create_engine(config.database_url)
        # A snapshot: an answer composed from several reads must not mix two positions.
        self._snapshots = self.engine.execution_options(isolation_level="REPEATABLE READ")
        # For one statement: no transaction to begin or end.
        self._single_statements = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self.dispatcher = Dispatcher(self.engine, domain_registry(), PROJECTIONS)
        self.listener = EventListener(self.engine)
        self.closing = threading.Event()
        self.collectors: list[Callable[[], Iterator[Metric]]] = []
        """Collectors of other parts of the process for /metrics."""
        self._measured: CachedAnswer[tuple[list[MeasuredStream], bool]] = CachedAnswer(config.metrics_keep_seconds)
        self._follower = threading.Thread(target=self._follow, name="projections", daemon=True)

    def start(self) -> None:
        """Start to follow the log; the database may still be unavailable."""
        self.listener.start()
        self._follower.start()

    def stop(self) -> None:
        """End all threads and connections."""
        self.closing.set()
        self.listener.stop()
        self._follower.join()
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Return a connection that sees one snapshot of the database."""
        with self._snapshots.connect() as connection:
            yield connection

    @contextmanager
    def looking(self) -> Iterator[Connection]:
        """Return a connection for one statement that every request waits for."""
        with self._single_statements.connect() as connection:
            yield connection

    def lag_events(self, connection: Connection) -> dict[str, int]:
        """Return how many events each projection is behind the log."""
        head = events.head(connection).position
        return {name: max(0, head - place) for name, place in runner.positions(connection, PROJECTIONS).items()}

    def measured(self) -> tuple[list[MeasuredStream], bool]:
        """Return the streams' measures for /metrics, some seconds old, and whether they are complete."""
        return self._measured.get(self._read_measures)

    def _read_measures(self) -> tuple[list[MeasuredStream], bool]:
        with self.reading() as connection:
            buckets = partition_buckets(connection, self.config)
            return stream_measures.read(connection, buckets, self.config.metrics_most_streams)

    @cached_property
    def newest_migration(self) -> str | None:
        """Return the newest revision of this program's migrations."""
        config = Config()
        config.set_main_option("script_location", str(PROJECT_ROOT / "migrations"))
        config.set_main_option("recursive_version_locations", "true")
        return ScriptDirectory.from_config(config).get_current_head()

    def _follow(self) -> None:
        """Apply events that others appended without projecting them: seeding, a restore, an older program."""
        seen = -1
        while not self.closing.is_set():
            try:
                with self.engine.connect() as connection:
                    behind = any(self.lag_events(connection).values())
                if behind:
                    self.dispatcher.catch_up()
            except DatabaseUnavailable as error:
                logger.warning("projections wait for the database", error=str(error))
                self.closing.wait(RETRY_SECONDS)
            except Exception:
                # One unreadable event must not end the thread: /readyz reports how far behind we are.
                logger.exception("projections cannot be brought up to date")
                self.closing.wait(NEWS_SECONDS)
            else:
                seen = self.listener.wait_for_events(seen, NEWS_SECONDS)
