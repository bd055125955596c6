"""`/clusters/{name}/replication/-policy`: the form for placement when brokers join or leave."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from backend.changes.placement_policies import set_policy
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.base.limits import refuse
from backend.domain.placement.placement_policy import PlacementPolicy, Policy
from backend.domain.placement.placement_runs import RunLimits, wrong_limits
from backend.queries.placement.placement_policies import PolicyRow, find_policy
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import Command, FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.placement.placement_policy_view import POLICY_TEXT
from backend.web.placement.placement_run_view import NO_THROTTLE
from backend.web.replication.replication_page import REPLICATION, cluster_trail, existing_cluster
from backend.web.words.figures import counted
from backend.web.words.units import size_bytes, size_shown, whole_number

router = APIRouter(include_in_schema=False, route_class=PageRoute)

FORM = REPLICATION + "/-policy"


def _wanted(given: Fields) -> PlacementPolicy:
    """Read the form. Raises ValueInvalid."""
    try:
        policy = Policy(given.get("policy", ""))
    except ValueError as error:
        detail = f"must be one of {', '.join(Policy)}"
        raise ValueInvalid(f"policy {detail}", (FieldError("/policy", detail),)) from error
    rate = given.get("bytes_per_second", "").strip()
    limits = RunLimits(
        bytes_per_second=None if rate in ("", NO_THROTTLE) else size_bytes(rate, "/bytes_per_second"),
        moves_per_broker=whole_number(given.get("moves_per_broker", ""), "/moves_per_broker"),
        partitions_at_once=whole_number(given.get("partitions_at_once", ""), "/partitions_at_once"),
    )
    refuse(wrong_limits(limits))
    return PlacementPolicy(
        policy=policy, away_minutes=whole_number(given.get("away_minutes", ""), "/away_minutes"), limits=limits
    )


def _rate(limits: RunLimits) -> str:
    return NO_THROTTLE if limits.bytes_per_second is None else size_shown(limits.bytes_per_second)


def _usual(row: PolicyRow) -> Fields:
    policy, limits = row.policy, row.policy.limits
    return {
        "policy": str(policy.policy),
        "away_minutes": str(policy.away_minutes),
        "bytes_per_second": "" if limits.bytes_per_second is None else size_shown(limits.bytes_per_second),
        "moves_per_broker": str(limits.moves_per_broker),
        "partitions_at_once": str(limits.partitions_at_once),
        "version": str(row.version),
    }


def _shown(policy: PlacementPolicy) -> dict[str, str]:
    return {
        "Policy": POLICY_TEXT[policy.policy],
        "Broker has left after": counted(policy.away_minutes, "minute"),
        "Throttle per broker, bytes/s": _rate(policy.limits),
        "Concurrent moves per broker": f"{policy.limits.moves_per_broker:,}",
        "Concurrent partitions": f"{policy.limits.partitions_at_once:,}",
    }


def _same(cluster: str, policy: PlacementPolicy) -> SameChange:
    limits = policy.limits
    words = [
        f"--set {policy.policy}",
        f"--away-minutes {policy.away_minutes}",
        # An option that is not named keeps its value, so the absence of a limit must be named.
        f"--bytes-per-second {limits.bytes_per_second or 'none'}",
        f"--moves-per-broker {limits.moves_per_broker}",
        f"--partitions-at-once {limits.partitions_at_once}",
    ]
    body = {"policy": str(policy.policy), "away_minutes": policy.away_minutes, "limits": dict(vars(limits))}
    command = f"treeline placement policy {cluster} {' '.join(words)}"
    return SameChange(None, command, curl("PUT", f"/api/v1/clusters/{cluster}/placement-policy", body))


def _page(services: ConsoleServices, cluster: str) -> FormPage:
    """Return the form's page. Raises NotFound."""
    with services.reading() as connection:
        existing_cluster(connection, cluster)
        before = find_policy(connection, cluster).policy
    here = REPLICATION.format(cluster=cluster)

    def effect(connection: Connection, outcome: Outcome, _: Fields) -> Effect:
        policy = find_policy(connection, cluster).policy
        notes = [
            "Plans proposed earlier are not applied automatically: the policy at the time of the proposal counts."
        ]
        if policy.policy is Policy.APPLY and policy.limits.bytes_per_second is None:
            notes.append("Replicas are copied without a throttle, which may slow down client traffic.")
        return Effect(
            sentence=f"When brokers of {cluster} join or leave, {POLICY_TEXT[policy.policy]}."
            if outcome.events
            else "Nothing would change: this is the present policy.",
            same=_same(cluster, policy),
            fields=fields_of(_shown(policy), _shown(before)),
            notes=tuple(notes) if policy.policy is Policy.APPLY else (),
            nothing=not outcome.events,
        )

    return FormPage(
        template="placement_policy_form.html",
        address=f"{here}/-policy",
        heading=f"Placement policy of {cluster}",
        trail=[*cluster_trail(cluster), ("Replication", here)],
        verb="Set policy",
        act=Command(
            lambda given: set_policy(cluster, _wanted(given), version_seen(given)), effect, lambda _: here
        ),
        usual=lambda connection: _usual(find_policy(connection, cluster)),
        empty="Choose a policy to see its effect.",
        choices={"policies": [(str(each), said) for each, said in POLICY_TEXT.items()]},
    )


@router.get(FORM)
def policy_form(cluster: str, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _page(services, cluster))


@router.post(FORM)
def set_the_policy(cluster: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the policy, or set it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _page(services, cluster), fields)
