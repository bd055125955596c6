"""A bounded Celery task in which a process translates commits, if no other process does."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

import structlog
from pyspark.sql import SparkSession
from sqlalchemy import Engine

from backend.domain.errors import DomainError
from backend.kafka.errors import KafkaCallFailed
from backend.settings import Settings
from spark.session import session
from workers import leases
from workers.offsets.translator import Translator

log = structlog.get_logger("offsets")

LEASE = "offsets"


class OffsetsHost:
    """One process's; the Spark session comes with the first commit and stays."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._holder = f"{socket.gethostname()}:{os.getpid()}"
        self._engine, self._settings = engine, settings
        self._translator: Translator | None = None

    def run_shift(self, seconds: float, stopping: Callable[[float], bool]) -> None:
        """Translate for a while; `stopping` waits that many seconds and tells whether to stop."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self._is_mine():
                    self._translate()
                else:
                    self._let_go()
            except DomainError as error:
                log.warning("the database is away; commits wait", reason=error.detail)
            except KafkaCallFailed as error:
                log.warning("commits wait", reason=error.reason)
            except Exception:
                # Spark's failures are many. What was not written down is read again.
                log.exception("translating failed")
                self._let_go()
            if stopping(self._settings.offsets_every_seconds):
                self._let_go()
                return

    def _is_mine(self) -> bool:
        with self._engine.begin() as connection:
            return leases.renew_or_acquire(connection, self._holder, LEASE, self._settings.lease_ttl_seconds)

    def _translate(self) -> None:
        if self._translator is None:
            self._translator = Translator(self._engine, self._settings, self._spark)
        translated = self._translator.tick()
        if translated:
            log.info("commits translated", commits=translated)

    def _spark(self) -> SparkSession:
        folder = self._settings.home / "spark"
        folder.mkdir(parents=True, exist_ok=True)
        return session(self._settings.spark_master, folder, self._settings.spark_heap_megabytes)

    def _let_go(self) -> None:
        if self._translator is not None:
            self._translator.close()
            self._translator = None
