"""Figures of a stream from the brokers of all its clusters, concurrently, each with a time limit.

Answers are kept for a few seconds and shared by all callers, so that reloads do not burden brokers. The ends of
logs of the read before are kept as well: two reads give a rate. A process asks for few streams at once, and few
clusters of each, as every question has a thread and connections of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from backend.domain.base.errors import ClusterUnreachable
from backend.domain.topics.stream_figures import Ends, Rate, TopicFigures, rate_between
from backend.kafka.admin.topic_figures import read_figures
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.clusters.clusters import ClusterRow, list_clusters
from backend.queries.tenants.streams import StreamRow
from backend.single_flight import CachedAnswers
from backend.slots import Slots

KEPT_SECONDS = 5.0
"""Seconds for which an answer is shared."""
AT_ONCE = 8
"""Streams for which one process asks brokers at once."""
OF_A_USER = 3
"""Share of one user in them."""
CLUSTERS_AT_ONCE = 8
"""Clusters that are asked at once for one stream; those of a larger tree follow."""
_MOST_STREAMS = 200
_MOST_ENDS = 2_000
OFFLINE = "offline"


@dataclass(frozen=True, kw_only=True)
class FiguresPlace:
    """A stream's topic on one cluster, and how to reach it; `properties` holds references to secrets."""

    cluster: str
    topic: str
    bootstrap_servers: str
    properties: dict[str, Any] = field(repr=False)
    absent: str
    """Reason why brokers are not asked: the topic does not exist yet, or the cluster is offline; empty: none."""
    detail: str | None = None
    """Further words on the reason, for readers of the estate."""


@dataclass(frozen=True, kw_only=True)
class ClusterFigures:
    """Figures of a stream on one cluster, or why there are none."""

    cluster: str
    topic: str
    figures: TopicFigures | None
    rate: Rate | None = None
    problem: str = ""
    """Sentence on why there are no figures, such as `c3 does not answer (timed out after 5 s)`; empty: none."""
    detail: str | None = None
    """The cluster's own words, which may name brokers: for readers of the estate only."""


def figures_places(connection: Connection, row: StreamRow) -> list[FiguresPlace]:
    """Return where a stream's figures can be read, in the order of its tree's clusters."""
    known = {each.name: each for each in list_clusters(connection)}
    return [_place(row, known[cluster], topic) for cluster, topic in row.technical_names.items()]


def _place(row: StreamRow, cluster: ClusterRow, topic: str) -> FiguresPlace:
    absent, detail = "", None
    if cluster.state == OFFLINE:
        absent, detail = f"{cluster.name} is offline", cluster.reason
    elif cluster.name not in row.topic_ids:
        absent = f"{cluster.name} has no topic of this stream yet: it is {row.applied[cluster.name]}"
        detail = row.failures.get(cluster.name)
    return FiguresPlace(
        cluster=cluster.name,
        topic=topic,
        bootstrap_servers=cluster.bootstrap_servers,
        properties=dict(cluster.properties),
        absent=absent,
        detail=detail,
    )


Read = Callable[[str, dict[str, Any], str, float], TopicFigures | None]


class FiguresReader:
    """Reader of streams' figures for one process. Safe to share between threads."""

    def __init__(
        self, seconds: float, read: Read = read_figures, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Build the reader. `seconds`: time that each cluster has; `read`: the request to one cluster."""
        self._seconds, self._read, self._clock = seconds, read, clock
        self._answers: CachedAnswers[tuple[ClusterFigures, ...]] = CachedAnswers(KEPT_SECONDS, _MOST_STREAMS)
        self._ends: dict[tuple[str, str], Ends] = {}
        """(STREAM, cluster) -> ends of the read before, the most recently read last."""
        self._lock = threading.Lock()
        self._slots = Slots(AT_ONCE, OF_A_USER, "reading figures of streams")

    def read(self, user: str, stream: str, places: Sequence[FiguresPlace]) -> tuple[ClusterFigures, ...]:
        """Return the figures of a stream on these clusters, at most a few seconds old.

        Raises MessagesBusy if the process, or it for this user, asks for as many streams as it can.
        """
        # The places are part of the name: a topic that was created just now must not be hidden by an older answer.
        name = "|".join([stream, *(f"{each.cluster}={each.absent}" for each in places)])
        return self._answers.get(name, lambda: self._all(user, stream, places))

    def _all(self, user: str, stream: str, places: Sequence[FiguresPlace]) -> tuple[ClusterFigures, ...]:
        if not places:
            return ()
        most = min(len(places), CLUSTERS_AT_ONCE)
        with self._slots.one(user), ThreadPoolExecutor(most, "stream-figures") as threads:
            return tuple(threads.map(lambda place: self._one(stream, place), places))

    def _one(self, stream: str, place: FiguresPlace) -> ClusterFigures:
        if place.absent:
            return _unknown(place, place.absent, place.detail)
        try:
            found = self._read(place.bootstrap_servers, place.properties, place.topic, self._seconds)
        except KafkaCallFailed as error:
            if error.reason.startswith("timed out"):
                return _unknown(place, f"{place.cluster} does not answer ({error.reason})", None)
            said = "refuses to describe the topic" if error.is_lasting else "does not answer"
            return _unknown(place, f"{place.cluster} {said}", error.reason)
        except ClusterUnreachable as error:
            return _unknown(place, f"{place.cluster} cannot be reached", error.detail)
        if found is None:
            return _unknown(place, f"{place.cluster} has no topic of this stream: it was deleted there", None)
        return ClusterFigures(
            cluster=place.cluster, topic=place.topic, figures=found, rate=self._rate(stream, place.cluster, found)
        )

    def _rate(self, stream: str, cluster: str, found: TopicFigures) -> Rate | None:
        now = Ends(at_seconds=self._clock(), topic_id=found.topic_id, ends=found.ends)
        with self._lock:
            before = self._ends.pop((stream, cluster), None)
            self._ends[stream, cluster] = now
            while len(self._ends) > _MOST_ENDS:
                del self._ends[next(iter(self._ends))]
        return rate_between(before, now)


def _unknown(place: FiguresPlace, problem: str, detail: str | None) -> ClusterFigures:
    return ClusterFigures(cluster=place.cluster, topic=place.topic, figures=None, problem=problem, detail=detail)
