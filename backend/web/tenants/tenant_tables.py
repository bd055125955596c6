"""The tables of tenants, of their members, and of an environment's streams and applications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Connection

from backend.domain.switch.switch_facts import Place
from backend.queries.access.users import MemberRow
from backend.queries.tenants.stream_lines import PENDING, WORST_FIRST, StreamLine, stream_states
from backend.web.tables.table import Column, Table
from backend.web.tenants.application_view import ApplicationView
from backend.web.words.units import duration_shown

_STATES = {state: rank for rank, state in enumerate(WORST_FIRST)}


@dataclass(frozen=True)
class TenantView:
    """A tenant in the list of tenants."""

    name: str
    environments: int
    streams: int
    membership: str | None


TENANTS = Table[TenantView](
    "tenants",
    "tenants",
    (
        Column("name", "Name", lambda each: each.name),
        Column("environments", "Environments with streams", lambda each: each.environments, number=True),
        Column("streams", "Streams", lambda each: each.streams, number=True),
        Column("membership", "Your membership", lambda each: each.membership),
    ),
    sort="name",
    within="tenants-part",
)
MEMBERS = Table[MemberRow](
    "member-table",
    "members",
    (
        Column("user", "User", lambda each: each.user),
        Column("membership", "Membership", lambda each: each.membership),
        Column("state", "State", lambda each: "disabled" if each.disabled else "active"),
    ),
    prefix="members",
    sort="user",
    within="members",
)
APPLICATIONS = Table[ApplicationView](
    "applications",
    "applications",
    (
        Column("name", "Application", lambda each: each.row.name),
        Column("streams", "Streams", lambda each: each.access),
        Column("password", "Password", lambda each: each.row.credentials or None, lambda each: _password(each)),
        Column("state", "State", lambda each: _STATES.get(each.state), lambda each: each.state),
    ),
    prefix="applications",
    sort="name",
    within="applications-part",
)


def streams_table(connection: Connection, place: Place, at: int | None) -> Table[StreamLine]:
    """Return the table of an environment's streams, which reads their states only to sort or search by them."""

    @cache
    def states() -> Mapping[str, str]:
        return stream_states(connection, place, at)

    def state(each: StreamLine) -> str:
        return states().get(each.name, PENDING)

    return Table[StreamLine](
        "stream-table",
        "streams",
        (
            Column("name", "Stream", lambda each: each.name),
            Column("partitions", "Partitions", lambda each: each.partitions, number=True),
            Column(
                "retention",
                "Retention",
                lambda each: each.retention_ms if each.retention_ms >= 0 else float("inf"),
                lambda each: duration_shown(each.retention_ms),
                number=True,
                hidden=True,
            ),
            Column("cleanup", "Cleanup policy", lambda each: each.cleanup_policy, hidden=True),
            Column("distributed", "Distributed", lambda each: "yes" if each.distributed else "no", hidden=True),
            Column("state", "State", lambda each: _STATES[state(each)], state),
            Column("where", "Where"),
        ),
        sort="name",
        within="streams",
    )


def _password(each: ApplicationView) -> str:
    return f"number {each.row.credentials}" if each.row.credentials else "none"
