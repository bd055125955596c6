"""A bounded Celery task in which one process at a time translates and applies commits."""

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
    """Translator of all clusters and one committer per cluster, in one process.

    The Spark session starts with the first commit and stays.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._lease = ProcessLease(engine, LEASE, settings.lease_ttl_seconds)
        self._directories = Directories(engine)
        self._lost = LostOffsets()
        self._translator: Translator | None = None
        self._committers: dict[str, CommitterThread] = {}

    def run_session(self, seconds: float, stopping: Callable[[float], bool]) -> None:
        """Work for `seconds`; `stopping` waits that many seconds and tells whether to stop."""
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
                log.warning("the database is unavailable; translation of commits is paused", reason=error.detail)
            except KafkaCallFailed as error:
                log.warning("translation of commits is paused", reason=error.reason)
            except Exception:
                # Spark fails in many ways. Whatever was not stored is read again; committers need no Spark.
                log.exception("translation of commits failed")
                self._close_translator()
            if stopping(self._settings.offsets_every_seconds):
                self._let_go()
                return

    def _keep_committers(self) -> None:
        """Run one committer per cluster; replace it when the cluster's connection settings change."""
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
        """Close the translator, which reads again what it has not stored; the Spark session stays."""
        if self._translator is not None:
            self._translator.close()
            self._translator = None
