"""A bounded Celery task in which a process translates and applies commits, if no other process does."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from pyspark.sql import SparkSession
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.kafka.base.errors import KafkaCallFailed
from backend.settings import Settings
from spark.session import session
from workers.leases.process_lease import ProcessLease
from workers.offsets.applied import LostOffsets
from workers.offsets.committer_thread import CommitterThread
from workers.offsets.directory import Directories
from workers.offsets.translator import Translator

log = structlog.get_logger("offsets")

LEASE = "offsets"
_STOP_SECONDS = 5.0


class OffsetsHost:
    """One process's: a translator for all clusters, and a committer for each. The Spark session comes with the
    first commit and stays."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._lease = ProcessLease(engine, LEASE, settings.lease_ttl_seconds)
        self._directories = Directories(engine)
        self._lost = LostOffsets()
        self._translator: Translator | None = None
        self._committers: dict[str, CommitterThread] = {}

    def run_shift(self, seconds: float, stopping: Callable[[float], bool]) -> None:
        """Work for a while; `stopping` waits that many seconds and tells whether to stop."""
        with self._lease.renewing():
            self._run_until(time.monotonic() + seconds, stopping)

    def _run_until(self, end: float, stopping: Callable[[float], bool]) -> None:
        while time.monotonic() < end:
            try:
                if self._lease.keep():
                    self._keep_committers()
                    self._translate()
                else:
                    self._let_go()
            except DomainError as error:
                log.warning("the database is away; commits wait", reason=error.detail)
            except KafkaCallFailed as error:
                log.warning("commits wait", reason=error.reason)
            except Exception:
                # Spark's failures are many. What was not written down is read again; committers need no Spark.
                log.exception("translating failed")
                self._close_translator()
            if stopping(self._settings.offsets_every_seconds):
                self._let_go()
                return

    def _keep_committers(self) -> None:
        """One for each cluster, made anew where the cluster is reached in another way than before."""
        clusters = self._directories.read().clusters
        for name, thread in list(self._committers.items()):
            if clusters.get(name) != thread.row:
                self._committers.pop(name).stop()
                self._close_translator()
        for name, row in clusters.items():
            if name not in self._committers or not self._committers[name].is_alive():
                self._committers[name] = CommitterThread(
                    self._engine, self._settings, self._directories, row, self._lost
                )
                self._committers[name].start()

    def _translate(self) -> None:
        if self._translator is None:
            self._translator = Translator(self._engine, self._settings, self._directories, self._spark, self._lost)
        translated = self._translator.tick()
        if translated:
            log.info("commits translated", commits=translated)

    def _spark(self) -> SparkSession:
        folder = self._settings.home / "spark"
        folder.mkdir(parents=True, exist_ok=True)
        heap = self._settings.spark_heap_megabytes
        return session(self._settings.spark_master, folder, heap, few_rows=True)

    def _let_go(self) -> None:
        for thread in self._committers.values():
            thread.stop()
        for thread in self._committers.values():
            thread.join(_STOP_SECONDS)
        self._committers.clear()
        self._close_translator()

    def _close_translator(self) -> None:
        """What it has not written down yet it reads again; the Spark session stays."""
        if self._translator is not None:
            self._translator.close()
            self._translator = None
