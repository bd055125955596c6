"""The path of every form that changes something: form -> preview -> done.

    GET                 the form
    POST step=check     a block of it: the change's effect, while the user types (needs JavaScript)
    POST step=preview   a page with the change's effect, and the same change by other means
    POST step=edit      back from there to the form, as it was filled in
    POST step=confirm   the change is carried out, and the browser is redirected

The effect comes from the dispatcher by a dry run of the very command, so nothing is decided here. A refusal is
shown on the form, which keeps the user's input.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy import Connection

from backend.callers import STATUS
from backend.changes.change import Change
from backend.dispatch import Outcome
from backend.domain.access.access import Caller
from backend.domain.base.errors import DomainError, StaleVersion, ValueInvalid
from backend.eventlog.recorded import RecordedEvent
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, NameOn
from backend.web.frame import templates
from backend.web.frame.forms import Fields
from backend.web.frame.services import ConsoleServices, frame
from backend.web.words.field_words import QUOTAS

CHECK, PREVIEW, EDIT, CONFIRM = "check", "preview", "edit", "confirm"
ONCE = re.compile(r"[A-Za-z0-9_-]{16,64}")
"""Token that identifies one rendered form."""
_OF_THE_FORM = ("step", "once")


class Act(Protocol):
    """The action of a form. Both methods raise the domain's errors."""

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Return the effect, without carrying it out."""

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Carry it out, once for each `once`; return the page or redirect that follows."""


@dataclass(frozen=True)
class Command:
    """An action that is one command on an event stream."""

    change: Callable[[Fields], Change[Any, Any]]
    effect: Callable[[Connection, Outcome, Fields], Effect]
    """Computes the effect with the change applied."""
    place: Callable[[Fields], str]
    operation: Callable[[RecordedEvent], str | None] | None = None
    """Returns the id of the operation that the first event starts, if any: its page is shown next."""

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Return the effect by a dry run."""
        return change_request.dry_run(
            self.change(given), lambda connection, outcome: self.effect(connection, outcome, given)
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Carry it out as the REST API does."""
        begun = None
        if self.operation is None:
            change_request.carry_out_once(self.change(given), once, given)
        else:
            begun = change_request.begin_once(self.change(given), once, given, self.operation)
        return RedirectResponse(self.place(given) if begun is None else f"/operations/{begun}", 303)


@dataclass(frozen=True, kw_only=True)
class FormPage:
    """One form. Its fields have the names that the REST API gives them."""

    template: str
    address: str
    """Address that shows the form and takes its submission."""
    heading: str
    trail: Sequence[tuple[str, str]]
    """(name, address) of the pages above; Cancel leads to the last one."""
    verb: str
    """Label of the button that confirms."""
    act: Act
    back: str = "Cancel"
    """Label of the link back, where Cancel could be mistaken for the form's action."""
    usual: Callable[[Connection], Fields] = field(default=lambda connection: {})
    """Reads the initial values of the form, with the version that they belong to."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Further values for the template."""
    names: Callable[[Connection, Fields], tuple[NameOn, ...]] = field(default=lambda connection, given: ())
    """Computes technical names, also for input that would be refused."""
    while_typing: Callable[[ChangeRequest, Fields], Effect] | None = None
    """Computes the effect while the user types, if the act itself queries clusters; None: the act does."""
    asks_nothing: bool = False
    """True if there is nothing to fill in: the form opens with its preview."""
    within: str = ""
    """Field of the REST API that contains this form's fields; empty: they are at the top level."""
    empty: str = ""
    """Text in place of the effect before anything is typed."""


def show_form(request: Request, services: ConsoleServices, viewer: Caller, page: FormPage) -> Response:
    """Show the form as it is opened."""
    with services.reading() as connection:
        given = page.usual(connection)
    if page.asks_nothing:
        return answer_form(request, services, viewer, page, {**given, "step": PREVIEW})
    return _form(request, viewer, page, given)


def answer_form(
    request: Request, services: ConsoleServices, viewer: Caller, page: FormPage, fields: Fields
) -> Response:
    """Answer one step of the form's path."""
    step = fields.get("step", PREVIEW)
    given = _typed(fields)
    if step == EDIT:
        return _form(request, viewer, page, given)
    change_request = ChangeRequest(services, request, viewer)
    try:
        _check_texts(given)
        once = fields.get("once", "")
        if step == CONFIRM and ONCE.fullmatch(once):
            return page.act.carry_out(change_request, given, once)
        preview = page.while_typing if step == CHECK and page.while_typing else page.act.preview
        effect = preview(change_request, given)
    except DomainError as error:
        again = _seen_again(page, change_request, given) if step == CONFIRM and page.asks_nothing else None
        if again is not None:
            return _preview(request, viewer, page, given, again, error)
        return _refused(request, services, viewer, page, step, given, error)
    if step == CHECK:
        return _block(page, effect=effect, names=effect.names)
    return _preview(request, viewer, page, given, effect)


def _seen_again(page: FormPage, change_request: ChangeRequest, given: Fields) -> Effect | None:
    """Return the effect of a form whose input below the preview was refused; None if the form is refused, too."""
    try:
        return page.act.preview(change_request, given)
    except DomainError:
        return None


def _preview(
    request: Request,
    viewer: Caller,
    page: FormPage,
    given: Fields,
    effect: Effect,
    refused: DomainError | None = None,
) -> Response:
    asked_for = {ask.name for ask in effect.asks}
    kept = {name: value for name, value in given.items() if name not in asked_for}
    shown = {
        "effect": effect,
        "given": {**kept, **effect.kept},
        "once": secrets.token_urlsafe(16),
        "refused": "" if refused is None else _in_labels(page, refused),
        "errors": {} if refused is None else _errors_at(page, refused),
    }
    status = 200 if refused is None else STATUS[refused.kind]
    return templates.page("preview.html", {**frame(request, viewer), **_about(page), **shown}, status)


def _errors_at(page: FormPage, error: DomainError) -> dict[str, list[str]]:
    """Return the errors of each field. An error within a list is shown at the list's field."""
    found: dict[str, list[str]] = {}
    for each in error.errors:
        found.setdefault(_in_form(page, each.pointer).partition("/")[0], []).append(each.detail)
    return found


def _in_form(page: FormPage, pointer: str) -> str:
    """Return where a value of the REST API stands in the form: `min_insync_replicas`, or `groups/0`."""
    return pointer.removeprefix("/").removeprefix(f"{page.within}/" if page.within else "")


def _in_labels(page: FormPage, error: DomainError) -> str:
    """Return the error's text with the form's labels in place of the REST API's field names."""
    text, known = error.detail, {**QUOTAS, **templates.labels(page.template)}
    for each in error.errors:
        name, field = each.pointer.removeprefix("/"), _in_form(page, each.pointer)
        if field in known:
            named = rf"(^|; ){re.escape(name)} (?={re.escape(each.detail)})"
            text = re.sub(named, rf"\g<1>{known[field]}: ", text)
    return text


def was_sent_before(change_request: ChangeRequest, fields: Fields) -> bool:
    """Return whether this confirmation was carried out already, if the form's page can no longer be made."""
    once = fields.get("once", "")
    return (
        fields.get("step") == CONFIRM
        and ONCE.fullmatch(once) is not None
        and change_request.was_carried_out(once, _typed(fields))
    )


def _typed(fields: Fields) -> dict[str, str]:
    return {name: value for name, value in fields.items() if name not in _OF_THE_FORM}


def version_seen(given: Fields) -> Callable[[int | str], None]:
    """Return a Match for the version at which the form was opened. It raises StaleVersion."""

    def match(version: int | str) -> None:
        if given.get("version") != str(version):
            raise StaleVersion(
                "somebody changed it since you opened this form.  Your input is below; continue to see what it "
                "would change now"
            )

    return match


def _refused(
    request: Request,
    services: ConsoleServices,
    viewer: Caller,
    page: FormPage,
    step: str,
    given: Fields,
    error: DomainError,
) -> Response:
    with services.reading() as connection:
        # Invalid text matches no name either, and the database does not even accept it as a parameter.
        names = page.names(connection, given) if all("\x00" not in value for value in given.values()) else ()
        if isinstance(error, StaleVersion):
            given = {**given, "version": page.usual(connection).get("version", "")}
    if step == CHECK:
        problems = [each.detail for each in error.errors if each.detail not in error.detail]
        return _block(page, refused=_in_labels(page, error), problems=problems, names=names)
    return _form(
        request,
        viewer,
        page,
        given,
        status=STATUS[error.kind],
        refused=_in_labels(page, error),
        errors=_errors_at(page, error),
        names=names,
    )


def _form(
    request: Request,
    viewer: Caller,
    page: FormPage,
    given: Fields,
    *,
    status: int = 200,
    refused: str = "",
    errors: Mapping[str, list[str]] | None = None,
    names: tuple[NameOn, ...] = (),
) -> Response:
    about = {"refused": refused, "errors": errors or {}, "problems": (), "names": names, "effect": None}
    shown = {"given": given, **about}
    return templates.page(page.template, {**frame(request, viewer), **_about(page), **shown}, status)


def _block(
    page: FormPage,
    *,
    effect: Effect | None = None,
    refused: str = "",
    problems: Sequence[str] = (),
    names: tuple[NameOn, ...] = (),
) -> Response:
    shown = {"effect": effect, "refused": refused, "problems": problems, "names": names}
    return HTMLResponse(templates.block("form.html", "effect", {**_about(page), **shown}))


def _about(page: FormPage) -> dict[str, Any]:
    return {
        "address": page.address,
        "heading": page.heading,
        "trail": page.trail,
        "verb": page.verb,
        "back": page.back,
        "empty": page.empty,
        "asks_nothing": page.asks_nothing,
        **page.choices,
    }


def _check_texts(given: Fields) -> None:
    for name, value in given.items():
        if "\x00" in value:
            raise ValueInvalid(f"{name[:60]!r} contains NUL, which no text can hold")
