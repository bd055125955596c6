"""A worker session in which a process distributes the primary's schemas, if no other process does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import structlog
from sqlalchemy import Engine

from backend.domain.base.errors import DomainError
from backend.queries.schemas.schemas import WantedSchemas, wanted_schemas
from backend.registry.mirror import Mirror
from backend.settings import Settings
from workers.leases.process_lease import ProcessLease
from workers.schemas import states
from workers.schemas.target import TargetThread
from workers.topics import desired_topics

log = structlog.get_logger("schemas")

LEASE = "schemas"
_STOP_SECONDS = 5.0


class SchemasHost:
    """One process's state: a mirror of each leaf's schemas, and a thread for each target.

    Both outlive sessions.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._settings = engine, settings
        self._lease = ProcessLease(engine, LEASE, settings.lease_ttl_seconds)
        self._position: int | None = None
        self._wanted: WantedSchemas | None = None
        self._mirrors: dict[str, Mirror] = {}
        self._targets: dict[str, TargetThread] = {}
        self._changes: Counter[str] = Counter()

    def run_session(self, seconds: float, stopping: Callable[[float], bool]) -> None:
        """Work for a while; `stopping` waits that many seconds and tells whether to stop."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self._lease.keep():
                    self._tick()
                else:
                    self._let_go()
            except DomainError as error:
                log.warning("database unreachable; schemas are not distributed", reason=error.detail)
            if stopping(self._settings.lease_renew_seconds):
                self._let_go()
                return

    def _tick(self) -> None:
        with self._engine.begin() as connection:
            position = desired_topics.position(connection)
            if position != self._position:
                self._wanted = wanted_schemas(connection)
                self._position = position
            states.write(connection, [thread.state for thread in self._targets.values()])
        self._keep_mirrors()
        self._keep_targets()

    def _keep_mirrors(self) -> None:
        """Keep a mirror for each leaf; it is made again if the cluster's connection has changed."""
        leaves = self._wanted.leaves if self._wanted else {}
        changed = {
            name
            for name, mirror in self._mirrors.items()
            if name not in leaves or mirror.endpoint != leaves[name].endpoint
        }
        if changed:
            # Threads hold mirrors: all are restarted, which costs each a comparison.
            self._stop_targets(list(self._targets))
            for name in changed:
                self._mirrors[name].stop()
            for name in changed:
                self._mirrors.pop(name).join()
        for name in leaves.keys() - self._mirrors.keys():
            mirror = Mirror(leaves[name].endpoint, self._settings.schemas_topic)
            mirror.on_news = lambda name=name: self._changed(name)  # type: ignore[misc]
            self._mirrors[name] = mirror
            mirror.start()

    def _changed(self, cluster: str) -> None:
        self._changes[cluster] += 1
        for thread in list(self._targets.values()):
            if cluster in (thread.target, thread.primary):
                thread.wake()

    def _keep_targets(self) -> None:
        """Keep a thread for each leaf but the primary."""
        now = self._wanted
        targets = now.leaves.keys() - {now.primary} if now else frozenset()
        for_another = [
            name
            for name, thread in self._targets.items()
            if name not in targets or (now and thread.primary != now.primary)
        ]
        self._stop_targets(for_another)
        if now is None or now.primary not in now.leaves:
            return
        for name in targets:
            thread = self._targets.get(name)
            if thread is None or not thread.is_alive():
                self._targets[name] = self._begin(name, now)
            else:
                thread.assign(now)

    def _begin(self, target: str, now: WantedSchemas) -> TargetThread:
        def changes() -> object:
            return self._changes[target], self._changes[now.primary]

        thread = TargetThread(self._engine, self._mirrors, target, now, changes)
        thread.start()
        return thread

    def _stop_targets(self, names: list[str]) -> None:
        ending = [self._targets.pop(name) for name in names]
        for thread in ending:
            thread.stop()
        for thread in ending:
            # A thread that hangs does no harm: it holds its target's lock, and checks the primary under it.
            thread.join(_STOP_SECONDS)

    def _let_go(self) -> None:
        self._stop_targets(list(self._targets))
        for mirror in self._mirrors.values():
            mirror.stop()
        for mirror in self._mirrors.values():
            mirror.join()
        self._mirrors.clear()
        self._position = None
