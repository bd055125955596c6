"""`/clusters/{name}/-adopt`: the plan for adopting a cluster's topics, and the form that begins it.

The plan is made from the clusters' answers, so opening the page queries them. Only the plan that was shown is
carried out: its digest is sent with the form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from backend.changes import adoptions as changes
from backend.domain.access.access import Action
from backend.domain.clusters.adoption_plan import (
    AMBIGUOUS,
    DECLARE,
    JOIN,
    KEPT,
    UNMANAGED,
    AdoptionPlan,
    TopicPlan,
)
from backend.queries.clusters.clusters import find_cluster
from backend.queries.history.operations import operation_id
from backend.web.clusters.clusters_page import CLUSTER, CLUSTERS
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.words.figures import counted

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ADOPT = CLUSTER + "/-adopt"
MOST_SHOWN = 300
_SAID = {
    DECLARE: "becomes a new stream",
    JOIN: "joins its stream",
    KEPT: "is its stream's topic already",
    AMBIGUOUS: "matches several streams",
    UNMANAGED: "stays as it is",
}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _plan(
    services: ConsoleServices, cluster: str, named: Sequence[str], *, take_settings: bool = False
) -> AdoptionPlan:
    return changes.plan_adoption(
        services.reading, services.config, cluster, list(named), take_settings=take_settings
    )


def _takes_settings(given: Fields) -> bool:
    return given.get("take_settings") == "yes"


@dataclass(frozen=True)
class Adopting:
    """Act of this page."""

    cluster: str

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview the present plan, with a dry run of its beginning."""
        named = _lines(given.get("as", ""))
        take_settings = _takes_settings(given)
        plan = _plan(change_request.services, self.cluster, named, take_settings=take_settings)
        topics = _lines(given.get("topics", "")) or None
        chosen = plan.topics_to_adopt(topics)
        if chosen:
            change_request.dry_run(changes.begin_adoption(self.cluster, chosen), lambda connection, outcome: None)
        taken = {each.topic for each in chosen}
        rows = [row for row in plan.topics if row.topic in taken]
        lists = (
            ("New streams", [_stream_in_words(row) for row in rows if row.action == DECLARE]),
            ("Topics that join a declared stream", [_stream_in_words(row) for row in rows if row.action == JOIN]),
        )
        return Effect(
            sentence=f"{counted(len(chosen), 'topic')} of {self.cluster} will be adopted in place: no "
            "record is rewritten, moved or deleted."
            if chosen
            else "Nothing would change: there is no topic to adopt.",
            same=self._same(plan.digest, topics, named, take_settings=take_settings),
            notes=tuple(dict.fromkeys((*plan.warnings, *(each for row in rows for each in row.warnings)))),
            lists=tuple((f"{heading} ({len(lines)})", tuple(lines)) for heading, lines in lists if lines),
            nothing=not chosen,
            kept={"digest": plan.digest},
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Begin the adoption, if the plan is still the one that was shown."""
        if before := change_request.begun_before(once, given):
            return RedirectResponse(f"/operations/{before}", 303)
        named, topics = _lines(given.get("as", "")), _lines(given.get("topics", "")) or None
        plan = _plan(change_request.services, self.cluster, named, take_settings=_takes_settings(given))
        plan = changes.check_reviewed(plan, given.get("digest", ""))
        chosen = plan.topics_to_adopt(topics)
        if not chosen:
            return RedirectResponse(f"{CLUSTERS}/{self.cluster}", 303)
        begun = change_request.begin_once(changes.begin_adoption(self.cluster, chosen), once, given, operation_id)
        return RedirectResponse(f"/operations/{begun}", 303)

    def _same(self, digest: str, topics: list[str] | None, named: list[str], *, take_settings: bool) -> SameChange:
        options = "".join(f" --topic {name}" for name in topics or ()) + "".join(f" --as {each}" for each in named)
        options += " --take-settings" if take_settings else ""
        body: dict[str, Any] = {"digest": digest}
        if take_settings:
            body["take_settings"] = True
        if topics is not None:
            body["topics"] = topics
        if named:
            body["as"] = named
        path = f"/api/v1/clusters/{self.cluster}/adoption"
        return SameChange(None, f"treeline adopt {self.cluster}{options}", curl("POST", path, body))


def _stream_in_words(row: TopicPlan) -> str:
    said = f"{row.topic} → {row.stream}: {counted(row.partitions, 'partition')}"
    if row.records is not None:
        said += f", {counted(row.records, 'record')}"
    changed = [f"{name}: {before} → {after}" for name, (before, after) in row.changes.items()]
    assert row.settings is not None
    declared = [f"declares {name}={value}" for name, value in row.settings.config.items() if row.action == DECLARE]
    return "; ".join([said, *declared, *changed])


def _shown(plan: AdoptionPlan) -> Mapping[str, Any]:
    order = (AMBIGUOUS, DECLARE, JOIN, UNMANAGED, KEPT)
    rows = sorted(plan.topics, key=lambda row: (order.index(row.action), row.topic))
    counts = {action: sum(row.action == action for row in rows) for action in order}
    return {
        "plan": plan,
        "rows": rows[:MOST_SHOWN],
        "more_rows": max(0, len(rows) - MOST_SHOWN),
        "said": _SAID,
        "counts": [(_SAID[action], number) for action, number in counts.items() if number],
    }


def _page(services: ConsoleServices, cluster: str, named: Sequence[str], *, with_plan: bool) -> FormPage:
    """Build the form. Raises NotFound, ClusterSilent, ValueInvalid, NameInvalid."""
    with services.reading() as connection:
        find_cluster(connection, cluster)
    shown = _shown(_plan(services, cluster, named)) if with_plan else {"plan": None}
    return FormPage(
        template="adoption.html",
        address=f"{CLUSTERS}/{cluster}/-adopt",
        heading=f"Adopt topics of {cluster}",
        trail=[("Clusters", CLUSTERS), (cluster, f"{CLUSTERS}/{cluster}")],
        verb="Adopt topics",
        act=Adopting(cluster),
        usual=lambda _: {"as": "\n".join(named), "take_settings": "no"},
        choices=shown,
    )


@router.get(ADOPT)
def adoption_plan_page(
    cluster: str,
    request: Request,
    services: Shared,
    viewer: Viewer,
    named: Annotated[str, Query(alias="as", max_length=40_000)] = "",
) -> Response:
    """Show the plan, and the form that begins it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return show_form(request, services, caller, _page(services, cluster, _lines(named), with_plan=True))


@router.post(ADOPT)
def adopt(cluster: str, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the adoption, or begin it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    return answer_form(request, services, caller, _page(services, cluster, (), with_plan=False), fields)
