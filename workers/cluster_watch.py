"""Watch of one cluster: it is observed in a thread now and then, and the result or the failure is stored."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.clusters.clusters import ClusterRow
from backend.settings import Settings
from workers import AN_ERROR_OF_OURS
from workers.one_thread import OneThread


class ClusterWatch(ABC):
    """One cluster, observed by one thread at a time. `subject` names what is observed, in logs and threads."""

    def __init__(self, subject: str, row: ClusterRow, engine: Engine, settings: Settings) -> None:
        self._subject, self._row, self._engine, self._settings = subject, row, engine, settings
        self.log = structlog.get_logger(subject)
        self._thread = OneThread(f"{subject}-{row.name}", self._close)
        self._due = float("-inf")
        self._cpu_seconds = 0.0
        """Processor time of the last observation."""

    def same(self, row: ClusterRow) -> bool:
        """Tell whether the cluster's endpoint is unchanged."""
        return self._row.endpoint == row.endpoint

    def begin_if_due(self) -> None:
        """Start an observation in a thread, unless one is under way or the last was just now."""
        if time.monotonic() >= self._due:
            self._thread.begin(self._run)

    def end(self) -> None:
        """Stop observing; an observation under way ends by itself."""
        self._thread.end()

    @abstractmethod
    def observe(self) -> None:
        """Observe the cluster once. Raises KafkaCallFailed, DomainError."""

    @abstractmethod
    def store(self) -> None:
        """Store what was observed. Raises DomainError.

        A failure here is the database's, so it is no reason why the cluster was not observed.
        """

    @property
    @abstractmethod
    def _pause(self) -> float:
        """Return the seconds from the beginning of the last observation to the next one."""

    @abstractmethod
    def _store_reason(self, reason: str) -> None:
        """Store why the cluster was not observed. Raises DomainError."""

    @abstractmethod
    def _close(self) -> None:
        """Release clients, once no observation is under way and none will be."""

    def _run(self) -> None:
        began, cpu_seconds = time.monotonic(), time.thread_time()
        try:
            self._observe_or_store_reason()
        except DomainError as error:
            self.log.warning(
                f"{self._subject}: observation not stored", cluster=self._row.name, reason=error.detail
            )
        except Exception:
            self.log.exception(f"{self._subject}: observation not stored", cluster=self._row.name)
        finally:
            self._cpu_seconds = time.thread_time() - cpu_seconds
            self._due = began + self._pause

    def _observe_or_store_reason(self) -> None:
        try:
            self.observe()
        except KafkaCallFailed as error:
            self.log.warning(f"{self._subject}: observation failed", cluster=self._row.name, reason=error.reason)
            self._store_reason(error.reason)
        except DomainError as error:
            # For example, a secret in its properties cannot be read.
            self._store_reason(error.detail)
        except Exception:
            self.log.exception(f"{self._subject}: observation failed", cluster=self._row.name)
            self._store_reason(AN_ERROR_OF_OURS)
        else:
            self.store()
