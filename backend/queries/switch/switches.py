"""Queries of switches and their phases, now or as of a position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row

from backend.domain.base.errors import NotFound
from backend.domain.switch.cluster_switch import BEFORE_MOVE, CLOSED, EMERGENCY, PLANNED, Moving, Phase, Retarget
from backend.domain.switch.switch_report import PhaseTimes
from backend.projections.switches import switch_phases, switches
from backend.projections.temporal import as_of
from backend.projections.trees import tree_leaves
from backend.queries.base.names_of_events import name_switches


@dataclass(frozen=True, kw_only=True)
class SwitchRow:
    """A switch as projected from its events."""

    id: str
    source: str
    target: str
    mode: str
    state: Phase
    generation: int
    moves: tuple[Moving, ...]
    drain: str
    retargets: tuple[Retarget, ...]
    plan_digest: str | None
    reverses: str | None
    forced: tuple[str, ...]
    """Clients that the switch does not wait for."""
    reason: str | None
    report: dict[str, Any] | None
    arrived: dict[str, Any] | None
    """Records that arrived once the old cluster of an emergency switch was back."""
    started: int
    version: int
    position: int

    @property
    def is_moving(self) -> bool:
        """Return whether the move is still ahead."""
        return self.state in BEFORE_MOVE

    @property
    def tenants(self) -> frozenset[str]:
        """Return the tenants whose clients the switch moves."""
        return frozenset(moving.tenant for moving in self.moves)


def list_switches(
    connection: Connection, at: int | None = None, *, before: int | None = None, most: int | None = None
) -> list[SwitchRow]:
    """Return switches, the newest first; `before`: only those started before that position; `most`: a limit."""
    query = sa.select(switches).where(as_of(switches, at)).order_by(switches.c.started.desc()).limit(most)
    if before is not None:
        # The cursor comes from the caller and may be any number.
        query = query.where(switches.c.started < sa.literal(before, sa.Numeric))
    return [_switch(row) for row in connection.execute(query)]


def moving_switches(connection: Connection) -> list[SwitchRow]:
    """Return the switches whose move is still ahead."""
    return _in_states(connection, BEFORE_MOVE)


def busy_tenants(connection: Connection) -> Mapping[str, str]:
    """Return tenant -> the switch that is about to move it, such as `12 (c1 → c2)`."""
    found = moving_switches(connection)
    names = name_switches(connection, [row.id for row in found])
    return {tenant: names[row.id].in_sentence for row in found for tenant in row.tenants}


def held_environments(connection: Connection, *, numbered: bool = False) -> dict[tuple[str, str], str]:
    """Return (cluster, `tenant/instance/environment`) -> the switch that closes the environment's consumers there.

    While only producers hold, consumers read on. A switch of one zone leaves those of the others where they are.
    `numbered`: the switch's number in place of its id, for readers of the estate: others would learn how many
    switches there were.
    """
    found = _in_states(connection, CLOSED)
    names = name_switches(connection, [row.id for row in found]) if numbered else {}
    return {
        (row.source, "/".join(moving.place)): str(names[row.id].number) if row.id in names else row.id
        for row in found
        for moving in row.moves
        if moving.zone is None
    }


def unended_switches(connection: Connection) -> list[SwitchRow]:
    """Return the switches that are not completed, aborted or failed."""
    return _in_states(connection, (*BEFORE_MOVE, Phase.VERIFYING))


def running_switches(connection: Connection) -> list[SwitchRow]:
    """Return the switches that a worker must carry on, the oldest first.

    They include emergency switches whose unreplicated records have not arrived yet, while the old cluster is still
    a leaf.
    """
    leaf = sa.exists().where(tree_leaves.c.cluster == switches.c.source, as_of(tree_leaves, None))
    t = switches.c
    stranded = sa.and_(t.mode == EMERGENCY, t.state == str(Phase.COMPLETED), t.arrived.is_(None), leaf)
    return _in_states(connection, (*BEFORE_MOVE, Phase.VERIFYING), stranded)


def _in_states(
    connection: Connection, states: tuple[Phase, ...], or_these: ColumnElement[bool] | None = None
) -> list[SwitchRow]:
    wanted = switches.c.state.in_([str(each) for each in states])
    query = sa.select(switches).where(
        as_of(switches, None), wanted if or_these is None else sa.or_(wanted, or_these)
    )
    return [_switch(row) for row in connection.execute(query.order_by(switches.c.started))]


def find_switch(connection: Connection, switch: str, at: int | None = None) -> SwitchRow:
    """Return the switch; raise NotFound if there is none."""
    row = connection.execute(sa.select(switches).where(switches.c.id == switch, as_of(switches, at))).one_or_none()
    if row is None:
        raise NotFound(f"there is no switch {switch[:60]!r}")
    return _switch(row)


def recent_holds(connection: Connection, source: str, most: int) -> list[int]:
    """Return for how many milliseconds the latest completed planned switches from a cluster held producers."""
    t = switches.c
    held = t.report["producers_held_ms"].as_float()
    query = (
        sa.select(held)
        .where(as_of(switches, None), t.source == source, t.mode == PLANNED, t.state == str(Phase.COMPLETED))
        .where(held.is_not(None))
        .order_by(t.started.desc())
        .limit(most)
    )
    return [round(each) for each in connection.scalars(query)]


def list_phases(connection: Connection, ids: list[str], at: int | None = None) -> Mapping[str, list[PhaseTimes]]:
    """Return the phases of each of these switches, in their order."""
    t = switch_phases.c
    query = sa.select(switch_phases).where(t.switch.in_(ids), as_of(switch_phases, at))
    found: dict[str, list[PhaseTimes]] = {switch: [] for switch in ids}
    for row in connection.execute(query.order_by(t.switch, t.number)):
        phase = PhaseTimes(name=row.name, started_at=row.started_at, ended_at=row.ended_at, measured=row.measured)
        found[row.switch].append(phase)
    return found


def _switch(row: Row[Any]) -> SwitchRow:
    return SwitchRow(
        id=row.id,
        source=row.source,
        target=row.target,
        mode=row.mode,
        state=Phase(row.state),
        generation=row.generation,
        moves=tuple(Moving(**each) for each in row.moves),
        drain=row.drain,
        retargets=tuple(Retarget(**each) for each in row.retargets),
        plan_digest=row.plan_digest,
        reverses=row.reverses,
        forced=tuple(row.forced),
        reason=row.reason,
        report=row.report,
        arrived=row.arrived,
        started=row.started,
        version=row.version,
        position=row.valid_from,
    )
