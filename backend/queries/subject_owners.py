"""Whose the subjects of a cluster's registry are, and which tenants may use subjects by record name there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from backend.domain.formats import technical_name
from backend.domain.names import StreamName
from backend.domain.subjects import SubjectOwners
from backend.projections.clusters import clusters
from backend.projections.streams import STREAM, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import environments
from backend.projections.trees import tree_leaves

_TABLES = (clusters, environments, streams, tree_leaves)
_POSITION = sa.select(
    sa.func.greatest(
        *(
            sa.select(
                sa.func.coalesce(sa.func.max(sa.func.greatest(table.c.valid_from, table.c.valid_to)), 0)
            ).scalar_subquery()
            for table in _TABLES
        )
    )
)


@dataclass(frozen=True)
class RegistryTenants:
    """What a registry has to know of tenants; `position`: of the newest event that it depends on."""

    position: int
    owners: Mapping[str, SubjectOwners]
    """By cluster, of those that are leaves of a tree: tenants have nothing to do with others."""
    record_names: frozenset[str]
    """Tenants that have an environment which allows subjects by record name."""


def position(connection: Connection) -> int:
    """Of the newest event that `registry_tenants` depends on; one statement."""
    found: int = connection.execute(_POSITION).scalar_one()
    return found


def registry_tenants(connection: Connection) -> RegistryTenants:
    """As of now, from one snapshot."""
    of = clusters.c
    newest = sa.func.max(of.valid_from)
    formats: dict[str, list[str]] = {}
    every = sa.select(of.name, of.subject_format).group_by(of.name, of.subject_format).order_by(newest)
    for cluster, subject_format in connection.execute(every):
        formats.setdefault(cluster, []).append(subject_format)
    columns = tuple(streams.c[part] for part in STREAM)
    is_there = sa.func.bool_or(streams.c.valid_to.is_(None)).label("is_there")
    rows = connection.execute(
        sa.select(*columns, is_there).group_by(*columns).order_by(sa.func.max(streams.c.valid_from))
    )
    present: list[StreamName] = []
    former: list[StreamName] = []
    for row in rows:
        name = StreamName(row.tenant, row.instance, row.environment, row.stream)
        (present if row.is_there else former).append(name)
    leaves = connection.execute(sa.select(tree_leaves.c.cluster).where(as_of(tree_leaves, None)).distinct())
    named = _Named(present, former)
    by_leaf = {leaf: named.on_cluster(formats[leaf]) for leaf in leaves.scalars()}
    elsewhere: dict[str, StreamName] = {}
    for _, old in by_leaf.values():
        elsewhere |= old
    for now, _ in by_leaf.values():
        elsewhere |= now
    owners = {leaf: SubjectOwners(now, old, elsewhere) for leaf, (now, old) in by_leaf.items()}
    allowed = sa.select(environments.c.tenant).where(
        as_of(environments, None), environments.c.record_name_subjects.is_(True)
    )
    return RegistryTenants(position(connection), owners, frozenset(connection.execute(allowed).scalars()))


class _Named:
    """Streams by their names; clusters that share a format share them."""

    def __init__(self, present: Iterable[StreamName], former: Iterable[StreamName]) -> None:
        self._present, self._former = tuple(present), tuple(former)
        self._known: dict[str, tuple[dict[str, StreamName], dict[str, StreamName]]] = {}

    def on_cluster(self, formats: Sequence[str]) -> tuple[dict[str, StreamName], dict[str, StreamName]]:
        """Names of streams that are there, and that were. `formats`: all that the cluster had, in order."""
        *before, now = map(self._by, formats)
        old: dict[str, StreamName] = {}
        for present, former in before:
            old |= former | present
        return now[0], old | now[1]

    def _by(self, subject_format: str) -> tuple[dict[str, StreamName], dict[str, StreamName]]:
        if subject_format not in self._known:
            self._known[subject_format] = (
                {technical_name(subject_format, stream): stream for stream in self._present},
                {technical_name(subject_format, stream): stream for stream in self._former},
            )
        return self._known[subject_format]
