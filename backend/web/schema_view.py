"""Schemas as pages show them: read from the registries' catalogs, and only what their viewer may know of.

A subject that follows a stream is its tenant's; any other one is the estate's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backend.domain.access import Action, Caller, may, refusal
from backend.domain.errors import ClusterSilent, NotAllowed, NotFound
from backend.domain.names import StreamName
from backend.domain.subjects import Subjects, Translation
from backend.queries.schemas import SchemaTargetRow, WantedSchemas
from backend.registry.catalog import Catalog
from backend.registry.directory import Directory
from backend.registry.mirror import Mirror
from backend.registry.records import Content, Reference, SchemaVersion
from backend.registry.schema_model import AVRO, JSON
from backend.web.differences import Line, hunks

CONFLICTED = "degraded"


@dataclass(frozen=True)
class Sight:
    """Whose schemas are looked at, and by whom."""

    viewer: Caller
    wanted: WantedSchemas

    def subjects(self, cluster: str) -> Subjects:
        """Which streams a cluster's subjects follow."""
        return Subjects(self.wanted.leaves[cluster].subject_format, self.wanted.streams)

    def may_see(self, stream: StreamName | None) -> bool:
        """Whether the viewer may know of a subject that follows this stream, or none."""
        if stream is None:
            return may(self.viewer, Action.READ_ESTATE)
        return may(self.viewer, Action.READ_TENANT, stream.tenant)

    def check_writing(self, subject: str) -> StreamName | None:
        """The stream that a subject of the primary follows. Raises NotAllowed if the viewer may not register it.

        What is another tenant's, and what follows no stream, is refused alike: they cannot be told apart.
        """
        stream = self.subjects(self.wanted.primary).stream_of(subject)
        if not self.may_see(stream):
            raise NotAllowed(
                f"{subject[:300]!a} follows no stream of yours: it has to begin with the name of one on "
                f"{self.wanted.primary}, as the stream's page shows it, and to go on with -value or -key"
            )
        needed = Action.CHANGE_ESTATE if stream is None else Action.DECLARE_STREAMS
        refused = refusal(self.viewer, needed, None if stream is None else stream.tenant)
        if refused is not None:
            raise refused
        return stream

    def translated(self, cluster: str, subject: str) -> dict[str, str]:
        """What the subject of one cluster is called on every cluster, its own too."""
        source = self.wanted.leaves[cluster].subject_format
        return {
            name: Translation(source, leaf.subject_format, self.wanted.streams).translate(subject)
            for name, leaf in self.wanted.leaves.items()
        }


def mirror_of(directory: Directory, cluster: str) -> Mirror:
    """What is read of a cluster's schemas. Raises ClusterSilent as long as it was not read to its end once."""
    registry = directory.find(cluster)
    if registry is None or not registry.mirror.ready:
        why = (registry.mirror.reason if registry is not None else None) or "they are being read"
        raise ClusterSilent(f"the schemas of {cluster} were not read yet: {why}. Load the page again in a moment")
    return registry.mirror


# --- lists


@dataclass(frozen=True)
class SubjectRow:
    """A subject in a list."""

    name: str
    stream: StreamName | None
    kind: str
    versions: int
    latest: int
    id: int
    level: str
    own_level: bool


def list_subjects(mirror: Mirror, sight: Sight, find: str, after: str, limit: int) -> list[SubjectRow]:
    """Subjects that the viewer may see, with `find` in their names, by name; at most `limit` behind `after`."""
    followed = sight.subjects(mirror.endpoint.name)
    found: list[SubjectRow] = []
    with mirror.lock:
        catalog = mirror.catalog
        for name in sorted(catalog.subjects):
            stream = followed.stream_of(name)
            if name <= after or find not in name or not sight.may_see(stream):
                continue
            versions = catalog.versions(name)
            if versions:
                found.append(_row(catalog, name, stream, versions))
            if len(found) == limit:
                break
    return found


def _row(catalog: Catalog, name: str, stream: StreamName | None, versions: Sequence[SchemaVersion]) -> SubjectRow:
    latest = versions[-1]
    return SubjectRow(
        name=name,
        stream=stream,
        kind=latest.content.kind,
        versions=len(versions),
        latest=latest.version,
        id=latest.id,
        level=level_of(catalog, name),
        own_level=_has_level(catalog, name),
    )


def level_of(catalog: Catalog, subject: str | None) -> str:
    """The compatibility level that holds."""
    return str(catalog.config(subject)["compatibilityLevel"]).upper()


def _has_level(catalog: Catalog, subject: str) -> bool:
    return "compatibilityLevel" in (catalog.configs.get(subject) or {})


@dataclass(frozen=True)
class TargetView:
    """How far a target is; what only who reads the estate may see is None for others."""

    row: SchemaTargetRow
    conflicts: list[dict[str, Any]]
    detailed: bool

    @property
    def state(self) -> str:
        """Of a target whose conflicts are all others', running."""
        if self.row.state == CONFLICTED and not self.conflicts and not self.detailed:
            return "running"
        return self.row.state


def targets_seen(rows: Sequence[SchemaTargetRow], sight: Sight) -> list[TargetView]:
    """The targets with those conflicts that the viewer may know of."""
    detailed = may(sight.viewer, Action.READ_ESTATE)
    found = []
    for row in rows:
        if row.cluster not in sight.wanted.leaves:
            continue
        followed = [sight.subjects(cluster) for cluster in (row.cluster, sight.wanted.primary)]
        conflicts = [
            each
            for each in row.conflicts
            # By both clusters' names: a name that is taken is told as the primary has it.
            if detailed or all(_is_mine(sight, subjects, each["subject"]) for subjects in followed)
        ]
        found.append(TargetView(row, conflicts, detailed))
    return found


def _is_mine(sight: Sight, subjects: Subjects, subject: str) -> bool:
    stream = subjects.stream_of(subject)
    return stream is not None and sight.may_see(stream)


# --- one subject


@dataclass(frozen=True)
class Elsewhere:
    """A subject on another cluster: its name there, and its versions; None: not read yet."""

    cluster: str
    name: str
    versions: int | None


@dataclass(frozen=True, kw_only=True)
class SubjectView:
    """One subject and one of its versions, with what differs from an earlier one."""

    cluster: str
    name: str
    stream: StreamName | None
    level: str
    own_level: bool
    mode: str
    versions: list[SchemaVersion]
    version: SchemaVersion
    against: SchemaVersion | None
    text: str
    hunks: tuple[tuple[Line, ...], ...] | None
    """None: too long to compare."""
    references: list[tuple[Reference, bool]]
    """With whether the viewer may see the subject that is referred to."""
    referrers: list[SchemaVersion]
    elsewhere: list[Elsewhere]


def subject_view(
    directory: Directory, sight: Sight, cluster: str, name: str, number: int | None, against: int | None
) -> SubjectView:
    """A version of a subject, the latest one without `number`. Raises NotFound, ClusterSilent."""
    unknown = NotFound(f"there is no subject {name[:300]!a} on {cluster}")
    followed = sight.subjects(cluster)
    stream = followed.stream_of(name)
    if not sight.may_see(stream):
        raise unknown
    mirror = mirror_of(directory, cluster)
    with mirror.lock:
        catalog = mirror.catalog
        versions = catalog.versions(name)
        if not versions:
            raise unknown
        version = _chosen(versions, number, unknown) if number is not None else versions[-1]
        earlier = [each for each in versions if each.version < version.version]
        other = _chosen(versions, against, unknown) if against is not None else (earlier[-1] if earlier else None)
        referrers = [
            each
            for each in catalog.referrers((name, version.version))
            if sight.may_see(followed.stream_of(each.subject))
        ]
        level, own_level, mode = level_of(catalog, name), _has_level(catalog, name), catalog.mode(name)
    text = pretty(version.content)
    return SubjectView(
        cluster=cluster,
        name=name,
        stream=stream,
        level=level,
        own_level=own_level,
        mode=mode,
        versions=versions,
        version=version,
        against=other,
        text=text,
        hunks=hunks(pretty(other.content), text) if other is not None else (),
        references=[
            (each, sight.may_see(followed.stream_of(each.subject))) for each in version.content.references
        ],
        referrers=referrers,
        elsewhere=_elsewhere(directory, sight, cluster, name),
    )


def _chosen(versions: Sequence[SchemaVersion], number: int, unknown: NotFound) -> SchemaVersion:
    found = next((each for each in versions if each.version == number), None)
    if found is None:
        raise NotFound(f"{versions[0].subject[:300]!a} has no version {number}")
    return found


def _elsewhere(directory: Directory, sight: Sight, cluster: str, name: str) -> list[Elsewhere]:
    found = []
    for other, called in sight.translated(cluster, name).items():
        if other == cluster:
            continue
        registry = directory.find(other)
        versions = None
        if registry is not None and registry.mirror.ready:
            with registry.mirror.lock:
                versions = len(registry.mirror.catalog.versions(called))
        found.append(Elsewhere(other, called, versions))
    return found


def pretty(content: Content) -> str:
    """A schema for people: JSON in lines; what is no JSON as it was registered."""
    if content.kind not in (AVRO, JSON):
        return content.text
    try:
        return json.dumps(json.loads(content.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return content.text
