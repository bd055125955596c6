"""Owners of the subjects in a cluster's registry, and tenants that may use subjects by record name there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by

from backend.domain.clusters.cluster import ClusterCameOnline, ClusterWentOffline
from backend.domain.names.formats import technical_name
from backend.domain.names.names import StreamName
from backend.domain.schemas.subjects import SubjectOwners
from backend.eventlog.tables import events
from backend.projections import clusters as clusters_model
from backend.projections import streams as streams_model
from backend.projections import tenants as tenants_model
from backend.projections import trees as trees_model
from backend.projections import users as users_model
from backend.projections.clusters import clusters
from backend.projections.framework import checkpoints
from backend.projections.streams import STREAM, streams
from backend.projections.temporal import as_of
from backend.projections.tenants import environments
from backend.projections.trees import tree_leaves

_OF_STREAMS = (
    clusters_model.PROJECTION,
    trees_model.PROJECTION,
    tenants_model.PROJECTION,
    streams_model.PROJECTION,
)
_NOT_ABOUT_NAMES = frozenset({ClusterCameOnline, ClusterWentOffline})
_EVENTS = sorted({cls.stored_name for each in _OF_STREAMS for cls in each.events - _NOT_ABOUT_NAMES})
_PROJECTIONS = sorted(each.name for each in (*_OF_STREAMS, users_model.PROJECTION))
_is_asked = checkpoints.c.name == sa.any_(sa.literal(_PROJECTIONS, ARRAY(sa.Text)))
_PLACES = sa.select(sa.func.array_agg(aggregate_order_by(checkpoints.c.position, checkpoints.c.name))).where(
    _is_asked
)
_IS_CHANGED = sa.select(
    sa.exists().where(
        events.c.position > sa.bindparam("after"), events.c.name == sa.any_(sa.literal(_EVENTS, ARRAY(sa.Text)))
    )
)
Places = tuple[int, ...]
"""Positions of the projections of users, and of what `registry_tenants` depends on. Their rows are written in the
transaction that moves the position: while it is the same, so are they."""


@dataclass(frozen=True)
class RegistryTenants:
    """Facts about tenants that a registry needs, as of `places`."""

    places: Places
    owners: Mapping[str, SubjectOwners]
    """Owners by cluster, for leaves of a tree: tenants have nothing to do with other clusters."""
    record_names: frozenset[str]
    """Tenants that have an environment which allows subjects by record name."""


def places(connection: Connection) -> Places:
    """Return the present positions; one statement over a handful of rows, however long the history is."""
    return tuple(connection.execute(_PLACES).scalar_one() or ())


def is_changed(connection: Connection, since: Places) -> bool:
    """Tell whether there are events since then that `registry_tenants` may depend on; reads only newer events."""
    return bool(connection.execute(_IS_CHANGED, {"after": min(since, default=0)}).scalar_one())


def registry_tenants(connection: Connection) -> RegistryTenants:
    """Return the present facts, from one snapshot."""
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
    return RegistryTenants(places(connection), owners, frozenset(connection.execute(allowed).scalars()))


class _Named:
    """Index of streams by their names; clusters that share a format share it."""

    def __init__(self, present: Iterable[StreamName], former: Iterable[StreamName]) -> None:
        self._present, self._former = tuple(present), tuple(former)
        self._known: dict[str, tuple[dict[str, StreamName], dict[str, StreamName]]] = {}

    def on_cluster(self, formats: Sequence[str]) -> tuple[dict[str, StreamName], dict[str, StreamName]]:
        """Return the names of present and of former streams.

        `formats`: all that the cluster ever had, in order.
        """
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
