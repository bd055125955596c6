"""Storage of topics' undeclared settings, and of each cluster's defaults, for pages and answers.

The reconcile loop reads the settings anyway; only changes since the last poll are written, so that a stable estate
costs no write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy import Engine
from sqlalchemy.dialects.postgresql import insert

from backend.domain.topics.steps import SeenTopic, WantedTopic
from backend.domain.topics.topic_drift import not_as_declared
from backend.queries.base.observed import topic_defaults, topic_overrides

Seen = Mapping[str, str]


class SettingsKeeper:
    """Writer of one process's observations; it remembers what it wrote last, until a restart."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._overrides: dict[tuple[str, str], Seen] = {}
        self._defaults: dict[str, Seen] = {}

    def keep(self, cluster: str, wanted: Iterable[WantedTopic], seen: Mapping[str, SeenTopic]) -> None:
        """Write what a poll of a cluster found, if it has changed."""
        overrides: dict[str, Seen] = {}
        defaults: dict[str, str] = dict(self._defaults.get(cluster, {}))
        for topic in wanted:
            found = seen.get(topic.topic)
            if found is None or found.config is None or topic.revision is None:
                continue
            defaults |= {name: value for name, value in found.config.items() if name not in found.own}
            own = not_as_declared(found.own, topic.config)
            if self._overrides.get((cluster, topic.stream)) != own:
                overrides[topic.stream] = own
        if overrides or self._defaults.get(cluster) != defaults:
            self._write(cluster, overrides, defaults)
            self._overrides |= {(cluster, stream): own for stream, own in overrides.items()}
            self._defaults[cluster] = defaults

    def _write(self, cluster: str, overrides: Mapping[str, Seen], defaults: Seen) -> None:
        now = sa.func.clock_timestamp()
        gone = [stream for stream, own in overrides.items() if not own]
        kept = [(stream, own) for stream, own in overrides.items() if own]
        with self._engine.begin() as connection:
            same = topic_overrides.c.cluster == cluster
            connection.execute(sa.delete(topic_overrides).where(same, topic_overrides.c.stream.in_(gone)))
            for stream, own in kept:
                changed = {"own": own, "seen_at": now}
                write = insert(topic_overrides).values(cluster=cluster, stream=stream, **changed)
                connection.execute(write.on_conflict_do_update(index_elements=["cluster", "stream"], set_=changed))
            values = {"defaults": defaults, "seen_at": now}
            write = insert(topic_defaults).values(cluster=cluster, **values)
            connection.execute(write.on_conflict_do_update(index_elements=["cluster"], set_=values))
