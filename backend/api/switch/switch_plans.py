"""`POST /switches/plan`: makes the plan of a switch, with its blockers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field

from backend.api.frame.access import needs
from backend.api.frame.requests import Body, SharedServices
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, ValueInvalid
from backend.domain.switch.switch_facts import SwitchRequest, Without
from backend.queries.switch.switches import find_switch
from backend.switching import planning
from backend.switching.brokers import MOST_BROKERS

router = APIRouter(prefix="/switches", tags=["switches"])

Name = Annotated[str, Field(max_length=300)]


class BrokerOf(Body):
    """A broker of a cluster."""

    cluster: Name
    broker: int = Field(ge=0, lt=2**31, description="Broker id.")


class Gone(Body):
    """Clusters, zones and brokers that a what-if plan assumes to be gone."""

    clusters: list[Name] = Field(default_factory=list, max_length=1024)
    zones: list[Name] = Field(default_factory=list, max_length=1024)
    brokers: list[BrokerOf] = Field(
        default_factory=list,
        max_length=MOST_BROKERS,
        description="At most one broker per cluster; the cluster stays.",
    )

    def without(self) -> Without:
        """Return the what-if as the domain has it."""
        return Without(
            clusters=frozenset(self.clusters),
            zones=frozenset(self.zones),
            brokers=tuple((each.cluster, each.broker) for each in self.brokers),
        )


class SwitchWish(Body):
    """Clients to move, and their source and target cluster."""

    source: Name = Field(alias="from", description="Cluster that clients leave.")
    target: Name = Field(alias="to", description="Cluster that clients move to.")
    tenant: Name | None = Field(
        None, description="Only clients of this tenant; omitted: all clients on the cluster."
    )
    instance: Name | None = Field(None, description="Only this instance of the tenant.")
    environment: Name | None = Field(None, description="Only this environment of the instance.")
    zone: str | None = Field(
        None, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$", description="Only clients of this zone."
    )
    mode: Literal["planned", "emergency"] = Field(
        "planned", description="`planned` waits until records have arrived; `emergency` moves clients at once."
    )
    drain: Literal["target", "all_leaves"] = Field(
        "target", description="Clusters that must have the source's records before clients move."
    )

    def switch_request(self, without: Without) -> SwitchRequest:
        """Return the request; raise ValueInvalid if a name comes without the name that contains it."""
        for part, within in (("instance", "tenant"), ("environment", "instance")):
            if getattr(self, part) is not None and getattr(self, within) is None:
                detail = f"{part} requires {within}; add the {within}"
                raise ValueInvalid(detail, (FieldError(f"/{within}", detail),))
        return SwitchRequest(
            source=self.source,
            target=self.target,
            mode=self.mode,
            tenant=self.tenant,
            instance=self.instance,
            environment=self.environment,
            zone=self.zone,
            drain=self.drain,
            without=without,
        )


class PlanWish(SwitchWish):
    """Clients to move, with a what-if, or as the reverse of an earlier switch."""

    reverses: str | None = Field(None, max_length=100, description="Id of the switch that the plan reverses.")
    without: Gone = Field(default_factory=Gone, description="Clusters, zones and brokers assumed to be gone.")


@router.post("/plan", openapi_extra=needs(Action.CHANGE_ESTATE))
def plan_switch(body: PlanWish, services: SharedServices) -> dict[str, Any]:
    """Return what a switch would do: clients that move, re-read and late records, blockers and warnings.

    A plan changes nothing. `POST /switches` quotes its digest.
    """
    without = body.without.without()
    switch_request = body.switch_request(without)
    if body.reverses is not None:
        with services.reading() as connection:
            back = planning.reverse_request(find_switch(connection, body.reverses))
        if (back.source, back.target) != (switch_request.source, switch_request.target):
            detail = f"the reverse of {body.reverses} is from {back.source} to {back.target}"
            raise ValueInvalid(detail, (FieldError("/from", detail),))
        switch_request = replace(back, without=without)
    return planning.make(services.reading, services.config, switch_request, datetime.now(UTC)).document()
