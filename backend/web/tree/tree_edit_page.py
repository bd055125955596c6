"""`/tree/edit`: the tree is edited by mouse, keyboard or plain forms, and proven before it is set.

    GET                    the tree after the steps in the address, with the effect of setting it
    GET do=…               add a step: redirects to the address with it
    POST step=preview …    the usual steps of a form, see `form_page`

Every request for the page is a dry run of setting the tree, so that errors are shown at their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection

from backend.changes.trees import TreeChange, TreeMatch, existing_tree, replace_tree
from backend.dispatch import Outcome
from backend.domain.access.access import Action
from backend.domain.base.errors import DomainError, StaleVersion, ValueInvalid
from backend.queries.base import events
from backend.queries.topics.at_risk import records_at_risk
from backend.queries.tree.trees import TreeRow
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, fields_of
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl, yaml_document
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import ConsoleServices, Shared, Viewer
from backend.web.tree.tree_edit_effect import difference
from backend.web.tree.tree_edit_state import EDIT, EditState, state_of, step_of
from backend.web.tree.tree_edit_view import Editing, EditView, by_place, editing
from backend.web.words.figures import counted

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_STALE = (
    "the tree has changed since you opened this page. Nothing was saved: apply your steps to the current tree, "
    "and check the result"
)


def _whatever(version: int | None) -> None:
    """Accept any version, for a preview: the page shows separately that the tree has changed since."""


def _as_opened(edit: Editing) -> TreeMatch:
    def match(version: int | None) -> None:
        if (version or 0) != edit.version:
            raise StaleVersion(_STALE)

    return match


def _change(edit: Editing, match: TreeMatch) -> TreeChange:
    """Return the change. Raises ValueInvalid if there is nothing to set."""
    if edit.does_not_fit is not None:
        raise edit.does_not_fit
    if edit.draft.root is None:
        raise ValueInvalid("there is no tree yet: choose a first cluster")
    return replace_tree(edit.draft.root, edit.draft.primary, match)


def _text(root: Mapping[str, Any]) -> str:
    """Return a tree in short notation, such as `3(c1, 1(c2, c3))`."""
    if "cluster" in root:
        return str(root["cluster"])
    return f"{root['level']}({', '.join(map(_text, root['children']))})"


@dataclass(frozen=True)
class Saving:
    """Action of this page."""

    services: ConsoleServices

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview by a dry run."""
        edit = self._edit(given)
        change = _change(edit, _as_opened(edit))

        def look(connection: Connection, outcome: Outcome) -> Effect:
            return effect_of(connection, outcome, edit, existing_tree(connection))

        return change_request.dry_run(change, look)

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Set the tree, if it is still the one that was opened."""
        edit = self._edit(given)
        change_request.carry_out_once(_change(edit, _as_opened(edit)), once, given)
        return RedirectResponse("/tree", 303)

    def _edit(self, given: Fields) -> Editing:
        with self.services.reading() as connection:
            return editing(connection, state_of(given, events.head(connection).position))


def effect_of(connection: Connection, outcome: Outcome, edit: Editing, after: TreeRow) -> Effect:
    """Return the effect of setting the draft; `after` is the tree as if it were set."""
    before = edit.base
    told = difference(None if before is None else (before.shape, before.targets), (after.shape, after.targets))
    is_new = before is None or before.primary_cluster != after.primary_cluster
    query = f"?primary={after.primary_cluster}" if is_new else ""
    document = {"primary": after.primary_cluster, "tree": after.root} if is_new else {"tree": after.root}
    version = None if before is None else before.version
    nothing = not outcome.events
    return Effect(
        sentence="Nothing would change: this is the present tree." if nothing else told.sentence,
        same=SameChange(
            yaml_document(document),
            "treeline diff -f tree.yaml\ntreeline apply -f tree.yaml",
            curl("PUT", f"/api/v1/trees/main{query}", after.root, version=version),
        ),
        fields=fields_of(
            {"Tree": _text(after.root), "Primary": after.primary_cluster},
            {
                "Tree": _text(before.root) if before else "none",
                "Primary": before.primary_cluster if before else "none",
            },
        ),
        notes=() if nothing else _notes(connection, edit, after, told.leaving, told.barriers),
        lists=() if nothing else told.lists,
        nothing=nothing,
    )


def _notes(
    connection: Connection, edit: Editing, after: TreeRow, leaving: tuple[str, ...], barriers: tuple[str, ...]
) -> tuple[str, ...]:
    notes = []
    at_risk = records_at_risk(connection)
    for name in leaving:
        count = at_risk.get(name)
        if count is None:
            notes.append(f"It is unknown whether {name} has unreplicated records.")
        elif count:
            notes.append(f"{name} has at most {counted(count, 'unreplicated record')}, which stay behind on it.")
    if barriers:
        notes.append(
            f"Copying to {', '.join(barriers)} stops briefly while the former tasks are fenced, and continues "
            "on the new routes. No record is lost or duplicated."
        )
    ended = [key for key in (edit.base.settings if edit.base else {}) if key not in after.targets]
    if ended:
        names = ", ".join(f"{cluster}:{level}" for cluster, level in sorted(ended))
        notes.append(f"The settings of {names} (paused, limit, compression) are removed with the distributor.")
    return tuple(notes)


def _page(
    services: ConsoleServices, change_request: ChangeRequest, state: EditState, step_refused: str = ""
) -> FormPage:
    with services.reading() as connection:
        edit = editing(connection, state)
    verdict: Effect | None = None
    errors = {place: list(found) for place, found in edit.shape_errors.items()}
    refused, targets = "", None
    if edit.does_not_fit is not None:
        refused = edit.does_not_fit.detail
    elif edit.draft.root is not None and not errors:

        def look(connection: Connection, outcome: Outcome) -> tuple[Effect, Any]:
            after = existing_tree(connection)
            return effect_of(connection, outcome, edit, after), after.targets

        try:
            verdict, targets = change_request.dry_run(_change(edit, _whatever), look)
        except DomainError as error:
            refused = error.detail
            errors = by_place(error)
    return FormPage(
        template="tree_edit.html",
        address=EDIT,
        heading="Edit tree",
        trail=[("Tree", "/tree")],
        verb="Save tree",
        act=Saving(services),
        usual=lambda _: dict(state.fields),
        choices={
            "view": EditView(edit, errors, targets),
            "edit": edit,
            "verdict": verdict,
            "verdict_refused": refused,
            "step_refused": step_refused,
            "may_save": verdict is not None and not verdict.nothing and not edit.is_outdated,
        },
    )


def _opened(services: ConsoleServices, given: Mapping[str, str]) -> EditState:
    with services.reading() as connection:
        return state_of(given, events.head(connection).position)


@router.get(EDIT)
def edit_tree(request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the tree of the address, or add a step."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    given, refused = dict(request.query_params), ""
    if given.get("do"):
        try:
            address = _opened(services, given).stepping(step_of(given)).address
            return RedirectResponse(f"{address}#draft", 303)
        except ValueInvalid as error:
            refused = error.detail
    change_request = ChangeRequest(services, request, caller)
    return show_form(request, services, caller, _page(services, change_request, _opened(services, given), refused))


@router.post(EDIT)
def save_tree(request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the tree, or set it."""
    caller = enter(viewer, Action.CHANGE_ESTATE)
    page = _page(services, ChangeRequest(services, request, caller), _opened(services, fields))
    return answer_form(request, services, caller, page, fields)
