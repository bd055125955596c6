"""Switches that an overview mentions: those in progress, and those that failed in the last day."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import Connection

from backend.domain.overview.estate_facts import SwitchFact
from backend.domain.switch.cluster_switch import HELD, Phase
from backend.queries.base.events import times_of
from backend.queries.base.names_of_events import SwitchNamed, name_switches
from backend.queries.switch.switches import SwitchRow, list_phases, list_switches, unended_switches

FAILED_WITHIN = timedelta(days=1)
_MOST_READ = 50
"""Newest switches among which failed ones are looked for."""


def switches_of_note(
    connection: Connection, now: datetime, tenants: Collection[str] | None = None
) -> list[SwitchFact]:
    """Return switches in progress, and failed ones that no later switch has replaced.

    `tenants`: only switches that move clients of these tenants, with their environments only.
    """
    running = [row for row in unended_switches(connection) if _concerns(row, tenants)]
    failed = [row for row in _failed(connection) if _concerns(row, tenants)]
    times = times_of(connection, [row.position for row in failed])
    phases = list_phases(connection, [row.id for row in running]) if running else {}
    names = name_switches(connection, [row.id for row in (*running, *failed)]) if tenants is None else {}
    found = []
    for row in running:
        began = next((each.started_at for each in phases[row.id] if each.name == row.state), None)
        found.append(
            _fact(row, None if began is None else datetime.fromisoformat(began), tenants, names.get(row.id))
        )
    return found + [
        _fact(row, times.get(row.position), tenants, names.get(row.id))
        for row in failed
        if row.position in times and now - times[row.position] < FAILED_WITHIN
    ]


def _failed(connection: Connection) -> list[SwitchRow]:
    newest: dict[tuple[str, str], SwitchRow] = {}
    for row in list_switches(connection, most=_MOST_READ):
        newest.setdefault((row.source, row.target), row)
    return [row for row in newest.values() if row.state is Phase.FAILED]


def _concerns(row: SwitchRow, tenants: Collection[str] | None) -> bool:
    return tenants is None or not row.tenants.isdisjoint(tenants)


def _fact(
    row: SwitchRow, since: datetime | None, tenants: Collection[str] | None, named: SwitchNamed | None
) -> SwitchFact:
    moves = () if tenants is None else tuple(each for each in row.moves if each.tenant in tenants)
    return SwitchFact(
        id=row.id,
        source=row.source,
        target=row.target,
        phase=str(row.state),
        has_failed=row.state is Phase.FAILED,
        is_holding=row.state in HELD,
        # Its reason may name clients of other tenants.
        reason=row.reason if tenants is None else None,
        since=since,
        places=tuple(dict.fromkeys("/".join(each.place) for each in moves)),
        number=None if named is None else named.number,
    )
