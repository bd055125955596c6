"""`/schemas/-new`: check a schema, and register it as a version of a subject on the primary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import ClusterSilent, FieldError, NotFound, StateConflict, ValueInvalid
from backend.registry import permitted, refusals, registering
from backend.registry.calls import Call, subject_name
from backend.registry.catalog import Catalog
from backend.registry.formats.schema_types import KINDS
from backend.registry.parsing import Parser
from backend.registry.records import SchemaVersion
from backend.registry.refusals import RegistryError
from backend.registry.registering import Decision, Wanted
from backend.registry.writing import Decide
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, NameOn, fields_of
from backend.web.forms.form_page import FormPage, answer_form, show_form
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.services import ConsoleServices, Registries, Shared, SharedRegistries, Viewer
from backend.web.schemas.caller_schemas import Schemas, as_said, schemas_of
from backend.web.schemas.schema_view import pretty
from backend.web.schemas.schemas_page import SCHEMAS, address_of
from backend.web.schemas.subject_index import level_of
from backend.web.words.differences import hunks

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ADDRESS = "/schemas/-new"
_REFERENCE = (
    "write a reference per line: name, subject, version; such as com.acme.Address acme-retail-prod-address-value 1"
)


@dataclass(frozen=True)
class Registering:
    """Act of this form, by the rules of the registry's API."""

    schemas: Schemas

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Check the schema, and preview what would be registered."""
        subject, body = _sent(given)
        call = self.schemas.call(self.schemas.primary, body)
        decide, wanted = self._permitted(call, subject)

        def judge(catalog: Catalog, parser: Parser) -> Decision:
            try:
                return decide(catalog, parser)
            except RegistryError as refusal:
                if refusal.status == refusals.INCOMPATIBLE:
                    raise _incompatible(catalog, parser, subject, wanted) from refusal
                raise

        try:
            return call.try_out(judge, lambda catalog, decision: self._effect(catalog, subject, body, decision))
        except RegistryError as refusal:
            raise as_said(refusal, "schema") from refusal

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Register the schema. A registered schema is not registered again, so `once` is not used."""
        subject, body = _sent(given)
        call = self.schemas.call(self.schemas.primary, body)
        decide, _ = self._permitted(call, subject)
        try:
            call.write(decide)
        except RegistryError as refusal:
            raise as_said(refusal, "schema") from refusal
        return RedirectResponse(address_of(self.schemas.primary, subject), 303)

    def _permitted(self, call: Call, subject: str) -> tuple[Decide, Wanted]:
        """Return the registration and its schema.

        Raises the domain's errors: no schema, or not for this caller.
        """
        try:
            wanted = call.wanted()
        except RegistryError as refusal:
            raise as_said(refusal, "schema") from refusal
        try:
            return permitted.register(call, subject, wanted), wanted
        except RegistryError as refusal:
            if refusal.status != 404:
                raise as_said(refusal, "subject") from refusal
            raise as_said(_not_theirs(subject, self.schemas.primary), "subject") from refusal

    def _effect(self, catalog: Catalog, subject: str, body: dict[str, Any], decision: Decision) -> Effect:
        primary = self.schemas.primary
        new = next((each for each in decision.records if isinstance(each, SchemaVersion)), None)
        versions = catalog.versions(subject)
        level = level_of(catalog, subject)
        path = f"/registries/{primary}/subjects/{quote(subject, safe='')}/versions"
        same = SameChange(None, None, curl("POST", path, body))
        if new is None:
            there = [each.version for each in versions if each.id == decision.answer["id"]]
            sentence = f"The schema is already registered, as version {there[-1]} with id {decision.answer['id']}."
            return Effect(sentence=sentence, same=same, nothing=True)
        latest = versions[-1] if versions else None
        compared = f"{level}-compatible with the registered versions" if latest else "the first of its subject"
        names = self.schemas.translated(primary, subject)
        return Effect(
            sentence=f"The schema can be registered as version {new.version} with id {new.id}: it is {compared}.",
            same=same,
            fields=fields_of(
                {
                    "Subject": subject,
                    "Version": new.version,
                    "Id": new.id,
                    "Type": new.content.kind,
                    "Compatibility": level,
                }
            ),
            names=tuple(NameOn(cluster, "", name) for cluster, name in names.items()),
            notes=(f"It is registered on {primary}, the primary, and then distributed to all other clusters.",),
            hunks=(hunks(pretty(latest.content), pretty(new.content)) or ()) if latest else (),
        )


def _sent(given: Fields) -> tuple[str, dict[str, Any]]:
    """Return subject and body as the registry's API takes them. Raises ValueInvalid."""
    try:
        subject = subject_name(given.get("subject", "").strip())
    except RegistryError as refusal:
        raise ValueInvalid(refusal.message, (FieldError("/subject", refusal.message),)) from refusal
    body: dict[str, Any] = {"schemaType": given.get("kind", ""), "schema": given.get("schema", "")}
    references = [_reference(line.split()) for line in given.get("references", "").splitlines() if line.strip()]
    return subject, {**body, "references": references} if references else body


def _reference(parts: list[str]) -> dict[str, Any]:
    if len(parts) != 3 or not (parts[2].isascii() and parts[2].isdigit() and len(parts[2]) < 11):
        raise ValueInvalid(_REFERENCE, (FieldError("/references", _REFERENCE),))
    return {"name": parts[0], "subject": parts[1], "version": int(parts[2])}


def _incompatible(catalog: Catalog, parser: Parser, subject: str, wanted: Wanted) -> StateConflict:
    """Return an error with one entry per incompatibility; the registry reports them in one text."""
    problems = registering.compatible(catalog, parser, subject, wanted, catalog.versions(subject))
    detail = f"this schema is not {level_of(catalog, subject)}-compatible with the versions of {subject[:300]}"
    return StateConflict(detail, tuple(FieldError("/schema", problem) for problem in problems))


def _not_theirs(subject: str, primary: str) -> RegistryError:
    return RegistryError(
        404,
        f"you may not register {subject[:300]!r}: on {primary} it does not begin with the name of a stream of "
        "yours. Use the subject that the stream's page shows, followed by -value or -key",
    )


def _page(services: ConsoleServices, registries: Registries, caller: Caller, subject: str = "") -> FormPage:
    schemas = schemas_of(services, registries, caller)
    if schemas is None:
        raise NotFound("there is no tree yet, so there is no schema registry")
    return FormPage(
        template="schema_form.html",
        address=ADDRESS,
        heading="Register schema version",
        trail=[SCHEMAS],
        verb="Register version",
        act=Registering(schemas),
        usual=lambda _: _latest(schemas, subject),
        choices={"kinds": KINDS, "primary": schemas.primary},
        empty="Enter a subject and a schema to check whether it can be registered.",
    )


def _latest(schemas: Schemas, subject: str) -> Fields:
    """Return the form filled in with the latest version, if there is one that the caller may see."""
    usual = {"subject": subject, "kind": KINDS[0]}
    try:
        call = schemas.call(schemas.primary)
    except ClusterSilent:
        return usual
    with call.registry.mirror.lock.reading():
        versions = call.catalog.versions(subject)
    if not versions:
        return usual
    latest = versions[-1].content
    scope = schemas.scope(schemas.primary)
    seen = [each for each in latest.references if scope.sees(each.subject)]
    lines = [f"{each.name} {each.subject} {each.version}" for each in seen]
    return {**usual, "kind": latest.kind, "schema": pretty(latest), "references": "\n".join(lines)}


@router.get(ADDRESS)
def new_version(
    request: Request, services: Shared, registries: SharedRegistries, viewer: Viewer, subject: str = ""
) -> Response:
    """Show the form; with a subject, filled in with its latest version."""
    caller = enter_in_some_tenant(viewer, Action.DECLARE_STREAMS)
    return show_form(request, services, caller, _page(services, registries, caller, subject))


@router.post(ADDRESS)
def register_version(
    request: Request, services: Shared, registries: SharedRegistries, viewer: Viewer, fields: Form
) -> Response:
    """Check a schema, or register it."""
    caller = enter_in_some_tenant(viewer, Action.DECLARE_STREAMS)
    return answer_form(request, services, caller, _page(services, registries, caller), fields)
