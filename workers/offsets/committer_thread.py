"""A committer on its own thread: a cluster that is slow or unreachable holds up no other."""

from __future__ import annotations

import threading

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.clusters.clusters import ClusterRow
from backend.settings import Settings
from workers.offsets.applied import LostOffsets
from workers.offsets.committer import Committer
from workers.offsets.directory import Directories

log = structlog.get_logger("offsets")

_AGAIN_SECONDS = 3.0


class CommitterThread(threading.Thread):
    """Thread that runs one cluster's committer until it is stopped."""

    def __init__(
        self, engine: Engine, settings: Settings, directories: Directories, row: ClusterRow, lost: LostOffsets
    ) -> None:
        super().__init__(name=f"offsets:{row.name}", daemon=True)
        self.row = row
        self._engine, self._settings, self._directories, self._lost = engine, settings, directories, lost
        self._stopping = threading.Event()
        self._reason: str | None = None

    def stop(self) -> None:
        """Stop after the current pass."""
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._commit()
            except KafkaCallFailed as error:
                self._failed(error.reason)
            except DomainError as error:
                self._failed(error.detail)
            except Exception as error:
                log.exception("offset committer failed", cluster=self.row.name)
                self._failed(repr(error))
            self._stopping.wait(_AGAIN_SECONDS)

    def _commit(self) -> None:
        """Run a committer until it is stopped or fails; the next one starts from what is stored."""
        committer = Committer(self._engine, self._settings, self._directories, self.row, self._lost)
        try:
            while not self._stopping.is_set():
                committer.tick()
                self._reason = None
        finally:
            committer.close()

    def _failed(self, reason: str) -> None:
        if reason != self._reason:
            log.warning("offsets cannot be set", cluster=self.row.name, reason=reason)
        self._reason = reason
