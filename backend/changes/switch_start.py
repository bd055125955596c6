"""Start of a switch as planned, provided that the plan is still current."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.changes.change import Change
from backend.changes.switches import event_stream
from backend.deciders import SWITCH
from backend.dispatch import Outcome
from backend.domain.base.errors import FieldError, PlanStale, StateConflict, SwitchBlocked
from backend.domain.switch.cluster_switch import Switch
from backend.domain.switch.switch_checks import TENANT_MOVING
from backend.domain.switch.switch_commands import StartSwitch, SwitchCommand
from backend.domain.switch.switch_plan import Plan, generation_of, moves_of
from backend.queries.distribution.leaf_routes import list_leaves
from backend.queries.switch import discovery_clients
from backend.queries.switch.active_clusters import list_active
from backend.queries.switch.switches import busy_tenants


def check(plan: Plan, digest: str | None) -> None:
    """Check that nothing blocks the plan and that it matches the digest, if one is given.

    Raises SwitchBlocked, StateConflict (another switch moves one of its tenants), PlanStale.
    """
    if plan.blockers:
        moving = any(blocker.slug == TENANT_MOVING for blocker in plan.blockers)
        raise (StateConflict if moving else SwitchBlocked)(
            "; ".join(blocker.detail for blocker in plan.blockers[:5]),
            tuple(FieldError("", blocker.detail) for blocker in plan.blockers),
        )
    if digest is not None and digest != plan.digest:
        raise PlanStale(
            f"the plan has changed: it is {plan.digest[:12]} now, not {digest[:12]}; create a new plan",
            (FieldError("/plan_digest", "belongs to another plan"),),
        )


def starting(plan: Plan, switch: str, heard_ms: int) -> Change[Switch | None, SwitchCommand]:
    """Return the change that starts the switch.

    It is refused with PlanStale if clients were moved since the plan.

    After an emergency, the switch waits for clients seen within `heard_ms` as soon as the cluster is back.
    """
    request = plan.request

    def build(connection: Connection) -> StartSwitch:
        active = list_active(connection)
        moves = moves_of(active, request)
        if (moves, generation_of(active, moves)) != (plan.moves, plan.generation):
            raise PlanStale("clients were moved meanwhile; create a new plan")
        if request.target not in list_leaves(connection):
            raise PlanStale(f"{request.target} has left the tree; create a new plan")
        return StartSwitch(
            switch=switch,
            source=request.source,
            target=request.target,
            mode=request.mode,
            moves=plan.moves,
            generation=plan.generation,
            busy=busy_tenants(connection),
            drain=request.drain,
            retargets=plan.retargets,
            plan_digest=plan.digest,
            reverses=None if request.reverses is None else request.reverses.switch,
            records_at_risk=plan.records_at_risk,
        )

    def also(connection: Connection, _: Outcome) -> None:
        if request.is_emergency:
            # A planned switch does so when its hold begins.
            places = sorted({moving.place for moving in plan.moves})
            discovery_clients.await_all(connection, switch, places, heard_ms)

    return Change(SWITCH, event_stream(switch), build, also)
