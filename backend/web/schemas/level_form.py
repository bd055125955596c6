"""`/schemas/-level`: set the compatibility level of a subject on the primary, or delete the subject's own level.

Works as `PUT` and `DELETE /config/{subject}` of the registry: tried out for the preview, then carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import NotFound
from backend.registry import compatibility, permitted
from backend.registry.calls import subject_name
from backend.registry.catalog import Catalog
from backend.registry.known_settings import DEFAULT_COMPATIBILITY, LEVELS
from backend.registry.parsing import Parser
from backend.registry.records import ConfigSet
from backend.registry.refusals import RegistryError
from backend.registry.registering import Decision
from backend.registry.writing import Decide
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, NameOn, fields_of
from backend.web.forms.form_page import FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter_in_some_tenant
from backend.web.frame.services import ConsoleServices, Registries, Shared, SharedRegistries, Viewer
from backend.web.schemas.caller_schemas import Schemas, as_said, schemas_of
from backend.web.schemas.schemas_page import SCHEMAS, Text, address_of
from backend.web.schemas.subject_index import level_of

Config = Mapping[str, Any] | None

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ADDRESS = "/schemas/-level"
OF_ALL = "global default"
_MEANS = {
    "NONE": "schemas are not compared",
    "BACKWARD": "consumers with the new schema can read data of the latest version",
    "BACKWARD_TRANSITIVE": "consumers with the new schema can read data of all earlier versions",
    "FORWARD": "consumers with the latest version can read data of the new schema",
    "FORWARD_TRANSITIVE": "consumers with any earlier version can read data of the new schema",
    "FULL": "the new schema and the latest version can read each other's data",
    "FULL_TRANSITIVE": "the new schema and all earlier versions can read each other's data",
}


@dataclass(frozen=True)
class Settling:
    """Act of this form; an empty level removes the subject's own level."""

    schemas: Schemas
    subject: str

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview by the registry's rules, over the schemas that have been read."""
        call = self.schemas.call(self.schemas.primary)
        try:
            decide = self._decide(given)
            return call.try_out(decide, lambda catalog, decision: self._effect(catalog, given, decision))
        except RegistryError as refusal:
            raise as_said(refusal, "level") from refusal

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Set the level as the registry does. A present level is not written again, so `once` is not used."""
        try:
            self.schemas.call(self.schemas.primary).write(self._decide(given))
        except RegistryError as refusal:
            raise as_said(refusal, "level") from refusal
        return RedirectResponse(address_of(self.schemas.primary, self.subject), 303)

    def _decide(self, given: Fields) -> Decide:
        call, subject, level = self.schemas.call(self.schemas.primary), self.subject, given.get("level", "")
        if level:
            change = permitted.set_config(call, subject, {"compatibility": level})
        else:
            change = permitted.delete_config(call, subject)
        match = version_seen(given)

        def decide(catalog: Catalog, parser: Parser) -> Decision:
            own = _own(catalog, subject)
            if level.upper() == own:
                # There is nothing to delete, which the registry would refuse, or to set.
                return Decision((), None)
            match(own)
            return change(catalog, parser)

        return decide

    def _effect(self, catalog: Catalog, given: Fields, decision: Decision) -> Effect:
        primary, subject = self.schemas.primary, self.subject
        path = f"/registries/{primary}/config/{quote(subject, safe='')}"
        before = after = catalog.configs.get(subject)
        for each in decision.records:
            if isinstance(each, ConfigSet):
                after = each.fields
        level = _holding(catalog, after)["compatibilityLevel"].upper()
        call = curl("PUT", path, {"compatibility": level}) if given.get("level") else curl("DELETE", path)
        return Effect(
            sentence=f"{subject} will have compatibility level {level}: {_MEANS[level]}."
            if decision.records
            else "Nothing would change: this is the present level.",
            same=SameChange(None, None, call),
            fields=fields_of(_shown(catalog, after), _shown(catalog, before)),
            names=tuple(NameOn(*each) for each in self._called()),
            notes=self._notes(catalog, level),
            nothing=not decision.records,
        )

    def _called(self) -> list[tuple[str, str, str]]:
        names = self.schemas.translated(self.schemas.primary, self.subject)
        return [(cluster, "", name) for cluster, name in names.items()]

    def _notes(self, catalog: Catalog, level: str) -> tuple[str, ...]:
        notes = ["Registered versions stay; the level applies to new versions, on all clusters."]
        for kind in sorted({each.content.kind for each in catalog.versions(self.subject)}):
            checked = compatibility.levels_of(kind)
            if level not in checked:
                notes.append(
                    f"{level} cannot be checked for schemas of type {kind}: no new version could be registered. "
                    f"Supported: {', '.join(checked)}."
                )
        return tuple(notes)


def _own(catalog: Catalog, subject: str) -> str:
    """Return the subject's own level; empty if it has none."""
    return str((catalog.configs.get(subject) or {}).get("compatibilityLevel", "")).upper()


def _holding(catalog: Catalog, own: Config) -> Mapping[str, Any]:
    """Return the configuration in force for a subject: its own alone, or else the global one."""
    found = catalog.configs.get(None, {}) if own is None else own
    return {"compatibilityLevel": DEFAULT_COMPATIBILITY, **found}


def _shown(catalog: Catalog, own: Config) -> dict[str, str]:
    holding = _holding(catalog, own)
    return {
        "Compatibility": holding["compatibilityLevel"].upper(),
        "Source": "subject" if "compatibilityLevel" in (own or {}) else OF_ALL,
        # It comes and goes with the level: a subject's configuration replaces the global one.
        "Normalize schemas": "yes" if holding.get("normalize") is True else "no",
    }


def _page(services: ConsoleServices, registries: Registries, caller: Caller, named: str) -> FormPage:
    """Build the form. Raises the domain's errors, also if the caller may not set the subject's level."""
    schemas = schemas_of(services, registries, caller)
    if schemas is None:
        raise NotFound("there is no tree yet, so there is no schema registry")
    primary = schemas.primary
    call = schemas.call(primary)
    try:
        subject = subject_name(named.strip())
        permitted.check_settings(call, subject)
    except RegistryError as refusal:
        if refusal.status == 404:
            raise NotFound(f"there is no subject {named[:300]!r} on {primary}") from refusal
        raise as_said(refusal, "level") from refusal
    with call.registry.mirror.lock.reading():
        own, of_all = _own(call.catalog, subject), level_of(call.catalog, None)
    levels = [("", f"{OF_ALL}: {of_all}")]
    levels += [(level, f"{level}: {_MEANS[level]}") for level in LEVELS]
    return FormPage(
        template="level_form.html",
        address=ADDRESS,
        heading="Set compatibility level",
        trail=[SCHEMAS, (subject, address_of(primary, subject))],
        verb="Set level",
        empty="Choose another level to see its effect.",
        act=Settling(schemas, subject),
        usual=lambda _: {"subject": subject, "level": own, "version": own},
        choices={"levels": levels},
    )


@router.get(ADDRESS)
def level_form(
    request: Request, services: Shared, registries: SharedRegistries, viewer: Viewer, subject: Text = ""
) -> Response:
    """Show the form for one subject."""
    caller = enter_in_some_tenant(viewer, Action.DECLARE_STREAMS)
    return show_form(request, services, caller, _page(services, registries, caller, subject))


@router.post(ADDRESS)
def set_level(
    request: Request, services: Shared, registries: SharedRegistries, viewer: Viewer, fields: Form
) -> Response:
    """Preview a level, or set it."""
    caller = enter_in_some_tenant(viewer, Action.DECLARE_STREAMS)
    page = _page(services, registries, caller, fields.get("subject", ""))
    return answer_form(request, services, caller, page, fields)
