"""`/overview`: the verdict on the estate, or on the caller's tenants, with the problems in order."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from backend.api.frame.access import Asking, needs
from backend.api.frame.requests import Reading
from backend.domain.access.access import Action, may
from backend.domain.overview.estate_health import estate_health
from backend.domain.overview.problems import Problem
from backend.domain.overview.tenant_health import tenant_health
from backend.queries.overview.estate_state import read_estate
from backend.queries.overview.tenant_state import read_tenants

router = APIRouter(tags=["overview"])


@router.get("/overview", openapi_extra=needs(Action.READ_TENANT))
def get_overview(connection: Reading, caller: Asking) -> dict[str, Any]:
    """Return one verdict, the problems in order of importance, and the figures behind them.

    `state` is `fine`, `warning` or `critical`; problems of the kind `information` do not change it. `way_out`
    names the page of the console on which a problem is solved. Members of tenants get the verdict on their own
    streams, groups and switches, without figures of the estate.
    """
    if may(caller, Action.READ_ESTATE):
        scope, health = "estate", estate_health(read_estate(connection).facts)
    else:
        tenants = caller.tenants_for(Action.READ_TENANT) or frozenset()
        scope, health = "tenants", tenant_health(read_tenants(connection, tenants))
    return {
        "scope": scope,
        "state": "fine" if health.is_fine else str(health.severity),
        "verdict": health.verdict,
        "counts": dict(health.counts),
        "problems": list(map(_shown, health.problems)),
    }


def _shown(problem: Problem) -> dict[str, Any]:
    return {
        "code": problem.code,
        "kind": str(problem.kind),
        "severity": str(problem.severity),
        "subject": problem.subject,
        "text": problem.text,
        "advice": problem.advice,
        "since": None if problem.since is None else problem.since.isoformat(timespec="milliseconds"),
        "way_out": {"label": problem.way_out.label, "address": problem.way_out.address},
    }
