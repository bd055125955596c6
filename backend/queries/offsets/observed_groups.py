"""Queries of consumer groups as workers observe them on each cluster; `group_store.py` stores them.

Who sees what of a group: `seen_by`. Where tenants share a group, each sees only a part of it, and the sums and the
diagnosis are those of that part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row
from sqlalchemy.dialects.postgresql import ARRAY

from backend.domain.base.errors import NotFound
from backend.domain.offsets.group_diagnosis import PAUSED, Diagnosis, GroupFacts, diagnose, paused
from backend.domain.offsets.observed_group import GroupMember, GroupPartition, is_own, sums, visible_partitions
from backend.queries.offsets.group_tables import group_observations, observed_groups
from backend.queries.offsets.group_views import is_seen, lag_seen

Key = tuple[str, str]
"""(cluster, technical group): the key of a row."""
_AGE = sa.func.extract("epoch", sa.func.clock_timestamp() - group_observations.c.observed_at)
_KEY = (observed_groups.c.cluster, observed_groups.c.technical_group)
MANY = ("members", "partitions")
"""Columns that are large for large groups."""


@dataclass(frozen=True, kw_only=True)
class GroupSummary:
    """A group on a cluster, without its members and partitions."""

    cluster: str
    technical_group: str
    group: str | None
    """Logical name; None if the technical name does not match the cluster's group format."""
    place: str | None
    """`tenant/instance/environment` of the group; None like `group`."""
    state: str
    protocol: str
    """`classic`, `consumer` (KIP-848), `share` (KIP-932), or `none`: offsets without members of any protocol."""
    member_count: int
    partition_count: int
    lag_records: int | None
    records_per_second: float | None
    time_lag_ms: int | None
    time_lag_at_least_ms: int | None
    """Lower bound of the time lag where that is not known."""
    diagnosis: Diagnosis
    since_ms: int | None
    """Time since which the diagnosis holds."""
    observed_at: datetime

    @property
    def key(self) -> Key:
        """Return the row's key, which is also the usual order."""
        return self.cluster, self.technical_group


@dataclass(frozen=True, kw_only=True)
class GroupRow(GroupSummary):
    """A group on a cluster."""

    tenants: Sequence[str]
    state_since_ms: int | None
    reason: str | None
    """Reason for which its members or offsets could not be read."""
    members: Sequence[GroupMember]
    partitions: Sequence[GroupPartition]


AnyGroup = TypeVar("AnyGroup", bound=GroupSummary)


@dataclass(frozen=True, kw_only=True)
class ObservationRow:
    """Outcome of the last observation of a cluster's groups."""

    cluster: str
    age_seconds: float | None
    """Seconds since the last observation that succeeded, by the database's clock; None: none did."""
    observed_at: datetime | None
    """Time of that observation."""
    groups: int
    reason: str | None
    """Reason for which the last observation failed, or lacks a broker; None if it is complete."""
    truncated: bool
    """True if the cluster has more groups than are observed."""


@dataclass(frozen=True, kw_only=True)
class GroupsWanted:
    """Filter, order and page of a list of groups. `group`: logical or technical name; `text`: a part of either."""

    cluster: str | None = None
    group: str | None = None
    stream: str | None = None
    tenants: Collection[str] | None = None
    """Tenants whose view is listed; None: everything."""
    code: str | None = None
    """Code of the diagnosis."""
    only_shared: bool = False
    """Only groups of which some tenant sees a part."""
    text: str | None = None
    by_lag: bool = False
    """Largest lag first, of what these tenants see; else by cluster and technical name."""
    after: Key | None = None
    limit: int
    holding: Mapping[Key, str] = field(default_factory=dict)
    """(cluster, place) -> switch that closes the consumers of this environment there."""


def group_row(
    *,
    cluster: str,
    technical_group: str,
    group: str | None,
    place: str | None,
    state: str,
    protocol: str,
    members: Sequence[GroupMember],
    partitions: Sequence[GroupPartition],
    observed_at: datetime,
    state_since_ms: int | None = None,
    reason: str | None = None,
    before: tuple[str, int | None] | None = None,
) -> GroupRow:
    """Return a row with the sums and the diagnosis of these members and partitions.

    `before` is the code of the group's last diagnosis, and since when it held.
    """
    now_ms = round(observed_at.timestamp() * 1000)
    facts = GroupFacts(
        state=state,
        state_since_ms=state_since_ms,
        has_members=bool(members),
        members=members,
        partitions=partitions,
        reason=reason,
    )
    found = diagnose(facts, now_ms)
    total = sums(partitions)
    names = {each.stream.partition("/")[0] for each in partitions if each.stream is not None}
    return GroupRow(
        cluster=cluster,
        technical_group=technical_group,
        group=group,
        place=place,
        tenants=sorted(names if place is None else names | {place.partition("/")[0]}),
        state=state,
        state_since_ms=state_since_ms,
        reason=reason,
        protocol=protocol,
        member_count=len(members),
        partition_count=len(partitions),
        members=members,
        partitions=partitions,
        lag_records=total.lag_records,
        records_per_second=total.records_per_second,
        time_lag_ms=total.time_lag_ms,
        time_lag_at_least_ms=total.time_lag_at_least_ms,
        diagnosis=found,
        since_ms=before[1] if before is not None and before[0] == found.code else now_ms,
        observed_at=observed_at,
    )


def seen_by(row: GroupRow, tenants: Collection[str] | None) -> GroupRow | None:
    """Return what members of these tenants see of a group (None: everything); None if they see nothing.

    A group is known to the tenant of its place and to those whose streams it reads. Partitions:
    `visible_partitions`. Members, with their hosts, are shown to the tenant of the group's place only; the others
    learn how many there are. Sums and diagnosis are those of the visible partitions.
    """
    if tenants is None:
        return row
    if not set(tenants).intersection(row.tenants):
        return None
    shown = visible_partitions(row.place, row.partitions, tenants)
    names_members = is_own(row.place, tenants)
    facts = GroupFacts(
        state=row.state,
        state_since_ms=row.state_since_ms,
        has_members=row.member_count > 0,
        members=row.members if names_members else (),
        partitions=shown,
        reason=row.reason,
    )
    total = sums(shown)
    found = diagnose(facts, round(row.observed_at.timestamp() * 1000))
    return replace(
        row,
        tenants=[each for each in row.tenants if each in tenants],
        members=row.members if names_members else (),
        # Only now: a partition whose owner is not named is still an owned one for the diagnosis.
        partitions=shown if names_members else [replace(each, member=None) for each in shown],
        partition_count=len(shown),
        lag_records=total.lag_records,
        records_per_second=total.records_per_second,
        time_lag_ms=total.time_lag_ms,
        time_lag_at_least_ms=total.time_lag_at_least_ms,
        diagnosis=found,
        since_ms=row.since_ms if found.code == row.diagnosis.code else None,
    )


def with_switches(rows: Sequence[AnyGroup], holding: Mapping[Key, str]) -> list[AnyGroup]:
    """Return rows that `seen_by` gave; those whose consumers a switch closes get the diagnosis `paused-by-switch`.

    `holding` maps (cluster, place) to the switch. Of another tenant's group, the caller learns of no switch.
    """
    return [
        replace(row, diagnosis=paused(row.lag_records, switch), since_ms=None)
        if row.place is not None and (switch := holding.get((row.cluster, row.place))) and _is_own(row)
        else row
        for row in rows
    ]


def _is_own(row: GroupSummary) -> bool:
    # What a tenant sees of another's group is never only a summary, and leaves out the other's name.
    return not isinstance(row, GroupRow) or is_own(row.place, row.tenants)


def list_groups(connection: Connection, wanted: GroupsWanted) -> list[GroupRow]:
    """List groups with members and partitions, at most `wanted.limit`.

    Raises NotFound if the list is by lag and the group after which it goes on is not among those that they see.
    """
    found = (
        seen_by(_group(row), wanted.tenants) for row in _matching(connection, wanted, list(observed_groups.c))
    )
    return _page(found, wanted)


def list_summaries(connection: Connection, wanted: GroupsWanted) -> list[GroupSummary]:
    """List groups as `list_groups` does, without members and partitions, which is much faster for large groups."""
    t = observed_groups.c
    # What a tenant sees of a shared group is computed from its partitions; all else is stored.
    is_computed = t.is_shared if wanted.tenants is not None else sa.false()
    many = [sa.case((is_computed, t[name])).label(name) for name in MANY]
    columns = [*(column for column in t if column.name not in MANY), *many]
    return _page((_summary(row, wanted.tenants) for row in _matching(connection, wanted, columns)), wanted)


def get_group(
    connection: Connection, cluster: str, technical_group: str, tenants: Collection[str] | None
) -> GroupRow | None:
    """Return a group on a cluster as members of these tenants (None: everybody) see it; None if they do not."""
    t = observed_groups.c
    query = sa.select(observed_groups).where(t.cluster == cluster, t.technical_group == technical_group)
    row = connection.execute(query).one_or_none()
    return None if row is None else seen_by(_group(row), tenants)


def groups_called(
    connection: Connection, place: str, group: str, tenants: Collection[str] | None
) -> list[GroupRow]:
    """Return the same logical group on all clusters, by cluster. `place` is `tenant/instance/environment`."""
    t = observed_groups.c
    query = sa.select(observed_groups).where(t.place == place, t.group == group).order_by(t.cluster)
    found = (seen_by(_group(row), tenants) for row in connection.execute(query))
    return [row for row in found if row is not None]


def list_observations(connection: Connection) -> list[ObservationRow]:
    """Return how the last observation of each cluster went, by cluster."""
    t = group_observations.c
    age = _AGE.label("age")
    query = sa.select(t.cluster, age, t.observed_at, t.groups, t.reason, t.truncated).order_by(t.cluster)
    return [
        ObservationRow(
            cluster=row.cluster,
            age_seconds=None if row.age is None else max(0.0, float(row.age)),
            observed_at=row.observed_at,
            groups=row.groups,
            reason=row.reason,
            truncated=row.truncated,
        )
        for row in connection.execute(query)
    ]


def _matching(
    connection: Connection, wanted: GroupsWanted, columns: Sequence[ColumnElement[Any]]
) -> Iterator[Row[Any]]:
    """Yield rows in the wanted order, in batches, until the caller has enough.

    Of shared groups more than those wanted are yielded: what a tenant sees of them decides.
    """
    order = (lag_seen(wanted.tenants).desc(), *_KEY) if wanted.by_lag else _KEY
    after = wanted.after
    while True:
        query = sa.select(*columns).where(*_conditions(wanted), *_after(connection, wanted, after))
        rows = connection.execute(query.order_by(*order).limit(wanted.limit)).all()
        yield from rows
        if len(rows) < wanted.limit:
            return
        after = rows[-1].cluster, rows[-1].technical_group


def _conditions(wanted: GroupsWanted) -> list[ColumnElement[bool]]:
    t = observed_groups.c
    found: list[ColumnElement[bool]] = []
    if wanted.cluster is not None:
        found.append(t.cluster == wanted.cluster)
    if wanted.group is not None:
        found.append(sa.or_(t.group == wanted.group, t.technical_group == wanted.group))
    if wanted.stream is not None:
        found.append(t.streams.contains([wanted.stream]))
    if wanted.tenants is not None:
        found.append(is_seen(wanted.tenants))
    if wanted.text:
        names = (t.technical_group, t.group)
        found.append(sa.or_(*(name.icontains(wanted.text, autoescape=True) for name in names)))
    if wanted.only_shared:
        found.append(t.is_shared)
    if wanted.code is not None:
        is_held = sa.func.coalesce(sa.tuple_(t.cluster, t.place).in_(_these(wanted.holding)), sa.false())
        is_so = sa.and_(t.diagnosis_code == wanted.code, sa.not_(is_held))
        if wanted.tenants is not None:
            is_so = sa.or_(is_so, t.is_shared)
        found.append(is_held if wanted.code == PAUSED else is_so)
    return found


def _these(keys: Collection[Key]) -> sa.Select[str, str]:
    # Two arrays, however many keys: one parameter for each part would soon exceed PostgreSQL's limit.
    parts = [sa.literal([key[part] for key in keys], ARRAY(sa.Text)) for part in (0, 1)]
    these = sa.func.unnest(*parts).table_valued("cluster", "place").render_derived("held")
    return sa.select(these.c.cluster, these.c.place)


def _after(connection: Connection, wanted: GroupsWanted, after: Key | None) -> list[ColumnElement[bool]]:
    if after is None:
        return []
    t = observed_groups.c
    key_is_above = sa.tuple_(*_KEY) > sa.tuple_(*map(sa.literal, after))
    if not wanted.by_lag:
        return [key_is_above]
    here = lag_seen(wanted.tenants)
    query = sa.select(here).where(t.cluster == after[0], t.technical_group == after[1])
    if wanted.tenants is not None:
        # What the caller does not see is gone, too: the answer must not tell that it exists.
        query = query.where(is_seen(wanted.tenants))
    lag = connection.execute(query).scalar_one_or_none()
    if lag is None:
        raise NotFound(f"group {after[1][:300]!r} on {after[0][:300]!r} is gone; begin again at the first page")
    return [sa.or_(here < lag, sa.and_(here == lag, key_is_above))]


def _page(found: Iterable[AnyGroup | None], wanted: GroupsWanted) -> list[AnyGroup]:
    page: list[AnyGroup] = []
    for row in found:
        if row is None:
            continue
        (shown,) = with_switches([row], wanted.holding)
        streams = {each.stream for each in row.partitions} if isinstance(row, GroupRow) else {wanted.stream}
        if (wanted.code in (None, shown.diagnosis.code)) and (wanted.stream is None or wanted.stream in streams):
            page.append(shown)
        if len(page) == wanted.limit:
            break
    return page


def _summary(row: Row[Any], tenants: Collection[str] | None) -> GroupSummary | None:
    if tenants is None or not row.is_shared:
        return GroupSummary(
            diagnosis=Diagnosis(row.diagnosis_code, row.diagnosis_text), **_stored(row, GroupSummary)
        )
    return seen_by(_group(row), tenants)


def _group(row: Row[Any]) -> GroupRow:
    return GroupRow(
        diagnosis=Diagnosis(row.diagnosis_code, row.diagnosis_text),
        members=[GroupMember(**each) for each in row.members],
        partitions=[GroupPartition(**each) for each in row.partitions],
        **_stored(row, GroupRow),
    )


def _stored(row: Row[Any], kind: type[GroupSummary]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)} - {"diagnosis", *MANY}
    return {name: row._mapping[name] for name in names}
