"""`POST /switches/plan`: what a switch would do, and what stands against it."""

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
from backend.domain.switch.switch_facts import Wish, Without
from backend.queries.switch.switches import find_switch
from backend.switching import planning
from backend.switching.brokers import MOST_BROKERS

router = APIRouter(prefix="/switches", tags=["switches"])

Name = Annotated[str, Field(max_length=300)]


class BrokerOf(Body):
    """A broker of a cluster."""

    cluster: Name
    broker: int = Field(ge=0, lt=2**31, description="Its id.")


class Gone(Body):
    """What is supposed to be gone."""

    clusters: list[Name] = Field(default_factory=list, max_length=1024)
    zones: list[Name] = Field(default_factory=list, max_length=1024)
    brokers: list[BrokerOf] = Field(
        default_factory=list, max_length=MOST_BROKERS, description="One of a cluster at most; the cluster stays."
    )

    def without(self) -> Without:
        """What is meant."""
        return Without(
            clusters=frozenset(self.clusters),
            zones=frozenset(self.zones),
            brokers=tuple((each.cluster, each.broker) for each in self.brokers),
        )


class SwitchWish(Body):
    """Who is to leave which cluster, and where to."""

    source: Name = Field(alias="from", description="The cluster to leave.")
    target: Name = Field(alias="to", description="The cluster to go to.")
    tenant: Name | None = Field(None, description="Only its clients; left out: all that are active there.")
    instance: Name | None = Field(None, description="Only this instance of the tenant.")
    environment: Name | None = Field(None, description="Only this environment of the instance.")
    zone: str | None = Field(None, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$", description="Only its clients.")
    mode: Literal["planned", "emergency"] = Field("planned", description="Whether anything is waited for.")
    drain: Literal["target", "all_leaves"] = Field("target", description="Who must have what the source holds.")

    def wish(self, without: Without) -> Wish:
        """What is wished; raises ValueInvalid where a name lacks the one that it is within."""
        for part, within in (("instance", "tenant"), ("environment", "instance")):
            if getattr(self, part) is not None and getattr(self, within) is None:
                detail = f"name the {within} of the {part}, too"
                raise ValueInvalid(detail, (FieldError(f"/{within}", detail),))
        return Wish(
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
    """The same, as it would be if clusters or brokers were gone, or as the way back of a switch."""

    reverses: str | None = Field(None, max_length=100, description="Plan the way back of this switch.")
    without: Gone = Field(
        default_factory=Gone, description="Clusters, zones and brokers that are supposed to be gone."
    )


@router.post("/plan", openapi_extra=needs(Action.CHANGE_ESTATE))
def plan_switch(body: PlanWish, services: SharedServices) -> dict[str, Any]:
    """What a switch would do: whom it moves, what would be read again or come late, what stands against it.
    Changes nothing. `POST /switches` quotes the digest."""
    without = body.without.without()
    wish = body.wish(without)
    if body.reverses is not None:
        with services.reading() as connection:
            back = planning.way_back(find_switch(connection, body.reverses))
        if (back.source, back.target) != (wish.source, wish.target):
            detail = f"the way back of {body.reverses} is from {back.source} to {back.target}"
            raise ValueInvalid(detail, (FieldError("/from", detail),))
        wish = replace(back, without=without)
    return planning.make(services.reading, services.config, wish, datetime.now(UTC)).document()
