"""Schemas as pages show them: read from the registries' catalogs, limited to what the viewer may see."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from backend.domain.access.access import Action, may
from backend.domain.base.errors import ClusterSilent, NotFound
from backend.domain.names.names import StreamName
from backend.domain.schemas import schema_conflicts
from backend.queries.schemas.schemas import SchemaTargetRow
from backend.registry.formats.schema_model import AVRO, JSON
from backend.registry.records import Content, Reference, SchemaVersion
from backend.web.schemas.caller_schemas import Schemas
from backend.web.schemas.subject_index import SubjectRow, has_level, index_of, level_of
from backend.web.tables.table import Table
from backend.web.tables.table_query import TableQuery
from backend.web.tables.table_view import TableView
from backend.web.words.differences import Line, hunks

CONFLICTED = "degraded"


# --- lists


def list_subjects(
    schemas: Schemas, cluster: str, table: Table[SubjectRow], query: TableQuery
) -> TableView[SubjectRow]:
    """Return the page of the subjects that the viewer may see which the address asks for.

    Raises NotFound, ClusterSilent.
    """
    call, scope = schemas.call(cluster), schemas.scope(cluster)
    mirror = call.registry.mirror
    with mirror.lock.reading():
        index, is_now = index_of(mirror.catalog), schemas.until_ms == inf
        rows = index.rows(scope, table.order(query)) if is_now else index.rows_at(scope, schemas.until_ms)
    view = table.view(rows, query, is_sorted=is_now)
    return replace(view, rows=[replace(each, declared=each.stream in schemas.declared) for each in view.rows])


@dataclass(frozen=True)
class TargetView:
    """State of a target; some parts are only for viewers who may read the estate."""

    row: SchemaTargetRow
    conflicts: list[Mapping[str, Any]]
    detailed: bool

    @property
    def state(self) -> str:
        """Return the state; running if all of the target's conflicts are hidden from the viewer."""
        if self.row.state == CONFLICTED and not self.conflicts and not self.detailed:
            return "running"
        return self.row.state


# For viewers who must not learn the other side's owner, whom a detail names.
_IN_GENERAL = {
    schema_conflicts.ID_TAKEN: "its schema id belongs to another schema there",
    schema_conflicts.VERSION_TAKEN: "this version of the subject was registered by others there",
    schema_conflicts.NAME_TAKEN: "another subject of the primary already has its name there",
    schema_conflicts.REFERS_TO_CONFLICT: "it references a schema that another conflict keeps from being there",
    schema_conflicts.ONLY_THERE: "it has versions there that the primary does not have",
    schema_conflicts.TOO_LARGE: "its record is too large for the topic there",
    schema_conflicts.RECORD_NAME: "no environment of the tree allows subjects by record name",
}


def targets_seen(rows: Sequence[SchemaTargetRow], schemas: Schemas) -> list[TargetView]:
    """Return the targets with the conflicts that the viewer may see."""
    detailed = may(schemas.caller, Action.READ_ESTATE)
    found = []
    for row in rows:
        if row.cluster not in schemas.wanted.leaves:
            continue
        # By both clusters' names: a conflict about a taken name has the primary's name.
        scopes = [schemas.scope(cluster) for cluster in (row.cluster, schemas.primary)]
        conflicts: list[Mapping[str, Any]] = [
            each if detailed else {**each, "detail": _IN_GENERAL.get(each["kind"], "it is in conflict there")}
            for each in row.conflicts
            if all(scope.sees(each["subject"]) for scope in scopes)
        ]
        found.append(TargetView(row, conflicts, detailed))
    return found


# --- one subject


@dataclass(frozen=True)
class Elsewhere:
    """A subject on another cluster: its name there, and its versions; None if they are not read yet."""

    cluster: str
    name: str
    versions: int | None


@dataclass(frozen=True, kw_only=True)
class SubjectView:
    """A subject and one of its versions, with the differences from an earlier one."""

    cluster: str
    name: str
    stream: StreamName | None
    declared: bool
    """True if the stream that it follows still exists."""
    level: str
    own_level: bool
    mode: str
    versions: list[SchemaVersion]
    version: SchemaVersion
    against: SchemaVersion | None
    text: str
    hunks: tuple[tuple[Line, ...], ...] | None
    """None if the texts are too long to compare."""
    references: list[tuple[Reference, bool]]
    """References, each with whether the viewer may see the referenced subject."""
    referrers: list[SchemaVersion]
    elsewhere: list[Elsewhere]


def subject_view(
    schemas: Schemas, cluster: str, name: str, number: int | None, against: int | None
) -> SubjectView:
    """Return a version of a subject, the latest one without `number`. Raises NotFound, ClusterSilent."""
    call = schemas.call(cluster)
    with call.registry.mirror.lock.reading():
        catalog = call.catalog
        versions = schemas.versions(catalog, name)
        if not versions:
            raise NotFound(f"there is no subject {name[:300]!r} on {cluster}")
        version = _chosen(versions, number) if number is not None else versions[-1]
        earlier = [each for each in versions if each.version < version.version]
        other = _chosen(versions, against) if against is not None else (earlier[-1] if earlier else None)
        referrers = [
            each
            for each in catalog.referrers((name, version.version), deleted=True)
            if each.was_there(schemas.until_ms)
        ]
        level, own_level, mode = level_of(catalog, name), has_level(catalog, name), catalog.mode(name)
    text = pretty(version.content)
    scope = schemas.scope(cluster)
    stream, declared = schemas.stream_of(cluster, name)
    return SubjectView(
        cluster=cluster,
        name=name,
        stream=stream,
        declared=declared,
        level=level,
        own_level=own_level,
        mode=mode,
        versions=versions,
        version=version,
        against=other,
        text=text,
        hunks=hunks(pretty(other.content), text) if other is not None else (),
        references=[(each, scope.sees(each.subject)) for each in version.content.references],
        referrers=referrers,
        elsewhere=_elsewhere(schemas, cluster, name),
    )


def _chosen(versions: Sequence[SchemaVersion], number: int) -> SchemaVersion:
    found = next((each for each in versions if each.version == number), None)
    if found is None:
        raise NotFound(f"{versions[0].subject[:300]!r} has no version {number}")
    return found


def _elsewhere(schemas: Schemas, cluster: str, name: str) -> list[Elsewhere]:
    found = []
    for other, called in schemas.translated(cluster, name).items():
        if other == cluster:
            continue
        try:
            call = schemas.call(other)
        except (ClusterSilent, NotFound):
            # Not found: at this earlier position it was in the tree, and it has left since.
            found.append(Elsewhere(other, called, None))
            continue
        with call.registry.mirror.lock.reading():
            found.append(Elsewhere(other, called, len(schemas.versions(call.catalog, called))))
    return found


def pretty(content: Content) -> str:
    """Format a schema: JSON with line breaks, anything else as it was registered."""
    if content.kind not in (AVRO, JSON):
        return content.text
    try:
        return json.dumps(json.loads(content.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return content.text
