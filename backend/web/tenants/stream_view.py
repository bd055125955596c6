"""Streams as pages show them: settings, technical names and applied state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from backend.domain.names.formats import ClusterFormats, technical_name, topic_problem
from backend.domain.names.names import StreamName
from backend.domain.topics.stream_settings import StreamSettings
from backend.queries.tenants.stream_lines import APPLIED, DRIFTED, FAILED, PENDING, WORST_FIRST
from backend.queries.tenants.streams import StreamRow, list_deleted
from backend.web.forms.effect import NameOn, listed
from backend.web.words.figures import counted
from backend.web.words.units import duration_shown, size_shown

_DEFAULT = "each cluster's default"
_GLYPHS = {APPLIED: "running", PENDING: "starting", FAILED: "blocked", DRIFTED: "degraded"}


@dataclass(frozen=True)
class OnCluster:
    """A stream's topic on one cluster."""

    cluster: str
    topic: str
    subject: str
    state: str
    """applied, pending, failed or drifted (applied, but the topic was changed and could not be set back)."""
    reason: str | None
    under_provisioned: bool

    @property
    def glyph(self) -> str:
        return _GLYPHS[self.state]


@dataclass(frozen=True)
class StreamView:
    """A stream and its topics, in the order of the tree's clusters."""

    row: StreamRow
    subjects: dict[str, str]

    @cached_property
    def clusters(self) -> list[OnCluster]:
        row = self.row
        return [
            OnCluster(
                cluster,
                topic,
                self.subjects.get(cluster, ""),
                DRIFTED if row.applied[cluster] == APPLIED and cluster in row.failures else row.applied[cluster],
                row.failures.get(cluster),
                cluster in row.under_provisioned,
            )
            for cluster, topic in row.technical_names.items()
        ]

    @property
    def settled(self) -> bool:
        """Tell whether no change on a cluster is pending."""
        return all(each.state in (APPLIED, DRIFTED) for each in self.clusters)

    @property
    def state(self) -> str:
        """Return the worst state of its clusters."""
        states = {each.state for each in self.clusters}
        return next((state for state in WORST_FIRST if state in states), APPLIED)

    @property
    def glyph(self) -> str:
        return _GLYPHS[self.state]

    @property
    def sentence(self) -> str:
        """Return the progress in one line."""
        if not self.clusters:
            return "The tree has no clusters."
        counts = Counter(each.state for each in self.clusters)
        said = [f"{counts[state]} {state}" for state in (PENDING, FAILED, DRIFTED) if counts[state]]
        done = f"Applied on {counts[APPLIED] + counts[DRIFTED]} of {counted(len(self.clusters), 'cluster')}"
        return f"{done}; {', '.join(said)}" if said else done

    @property
    def settings(self) -> dict[str, str]:
        return settings_shown(self.row.settings)


def view(row: StreamRow, formats: Sequence[ClusterFormats] = ()) -> StreamView:
    """Build the view, with the names of its subjects if the formats are given."""
    name = StreamName(row.tenant, row.instance, row.environment, row.name)
    return StreamView(row, {of.cluster: technical_name(of.subject_format, name) for of in formats})


def settings_shown(settings: StreamSettings) -> dict[str, str]:
    """Return the settings by the form's labels."""
    return {
        "Partitions": f"{settings.partitions:,}",
        "Replication factor": str(settings.replication_factor or _DEFAULT),
        "min.insync.replicas": str(settings.min_insync_replicas or _DEFAULT),
        "Retention": duration_shown(settings.retention_ms),
        "Cleanup policy": settings.cleanup_policy,
        "Maximum message size": size_shown(settings.max_message_bytes),
        "Other topic settings": ", ".join(f"{name}={value}" for name, value in settings.config.items()) or "none",
        "Distributed": "yes, along the tree" if settings.distributed else "no, each cluster keeps its own records",
    }


def names_on(stream: StreamName, formats: Sequence[ClusterFormats]) -> tuple[NameOn, ...]:
    """Return a stream's names on every cluster, as they are or would be."""
    found = []
    for of in formats:
        topic = technical_name(of.topic_format, stream)
        found.append(NameOn(of.cluster, topic, technical_name(of.subject_format, stream), topic_problem(topic)))
    return tuple(found)


def leftovers(connection: Connection, tenant: str, instance: str, environment: str) -> list[dict[str, Any]]:
    """Return deleted streams of an environment whose topics are pending deletion."""
    clusters: dict[str, list[str]] = {}
    for topic in list_deleted(connection):
        if (topic.tenant, topic.instance, topic.environment) == (tenant, instance, environment):
            clusters.setdefault(topic.name, []).append(topic.cluster)
    return [{"name": name, "on": listed(places)} for name, places in clusters.items()]
