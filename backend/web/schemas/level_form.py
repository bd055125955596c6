"""`/schemas/-level`: set the compatibility level of a subject on the primary, or take its own level back.

By what the registry's `PUT` and `DELETE /config/{subject}` do: tried out for the preview, then carried out.
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
from backend.registry.refusals import Refusal
from backend.registry.registering import Decision
from backend.registry.writing import Decide
from backend.web.forms.asked import Asked
from backend.web.forms.effect import Effect, NameOn, fields_of
from backend.web.forms.form_page import FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter_somewhere
from backend.web.frame.services import ConsoleServices, Registries, Shared, SharedRegistries, Viewer
from backend.web.schemas.schemas_page import SCHEMAS, Text, address_of
from backend.web.schemas.schemas_seen import Schemas, as_said, level_of, schemas_of

Config = Mapping[str, Any] | None

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ADDRESS = "/schemas/-level"
OF_ALL = "that of all subjects"
_MEANS = {
    "NONE": "nothing is compared",
    "BACKWARD": "a new version can read what the latest one wrote",
    "BACKWARD_TRANSITIVE": "a new version can read what all earlier ones wrote",
    "FORWARD": "the latest version can read what a new one writes",
    "FORWARD_TRANSITIVE": "all earlier versions can read what a new one writes",
    "FULL": "a new version and the latest one can read each other's data",
    "FULL_TRANSITIVE": "a new version and all earlier ones can read each other's data",
}


@dataclass(frozen=True)
class Settling:
    """The act of this form; an empty level: the subject is to have none of its own."""

    schemas: Schemas
    subject: str

    def try_out(self, asked: Asked, given: Fields) -> Effect:
        """By the rules, over what has been read."""
        call = self.schemas.call(self.schemas.primary)
        try:
            decide = self._decide(given)
            return call.try_out(decide, lambda catalog, decision: self._effect(catalog, given, decision))
        except Refusal as refusal:
            raise as_said(refusal, "level") from refusal

    def carry_out(self, asked: Asked, given: Fields, once: str) -> Response:
        """As the registry does it. What is so already is not written, so `once` says nothing."""
        try:
            self.schemas.call(self.schemas.primary).write(self._decide(given))
        except Refusal as refusal:
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
                # There is nothing to take back, which the registry would refuse, or to set.
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
            sentence=f"From now on {subject} has {level}: {_MEANS[level]}."
            if decision.records
            else "Nothing would change: it is so already.",
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
        notes = ["Versions that are there stay; it holds for what is registered from now on, on all clusters."]
        for kind in sorted({each.content.kind for each in catalog.versions(self.subject)}):
            checked = compatibility.levels_of(kind)
            if level not in checked:
                notes.append(
                    f"{level} cannot be checked for schemas of type {kind}: no further one could be registered. "
                    f"There is: {', '.join(checked)}."
                )
        return tuple(notes)


def _own(catalog: Catalog, subject: str) -> str:
    """The subject's own level; empty: none."""
    return str((catalog.configs.get(subject) or {}).get("compatibilityLevel", "")).upper()


def _holding(catalog: Catalog, own: Config) -> Mapping[str, Any]:
    """What holds for a subject with this configuration of its own: that alone, or that of all without one."""
    found = catalog.configs.get(None, {}) if own is None else own
    return {"compatibilityLevel": DEFAULT_COMPATIBILITY, **found}


def _shown(catalog: Catalog, own: Config) -> dict[str, str]:
    holding = _holding(catalog, own)
    return {
        "Compatibility": holding["compatibilityLevel"].upper(),
        "Whose": "its own" if "compatibilityLevel" in (own or {}) else OF_ALL,
        # It comes and goes with the level: a subject's configuration stands in the place of that of all.
        "Schemas are normalized": "yes" if holding.get("normalize") is True else "no",
    }


def _page(services: ConsoleServices, registries: Registries, caller: Caller, named: str) -> FormPage:
    """Raises the domain's errors, also if the caller may not set the subject's level."""
    schemas = schemas_of(services, registries, caller)
    if schemas is None:
        raise NotFound("there is no tree yet, so nobody keeps schemas")
    primary = schemas.primary
    call = schemas.call(primary)
    try:
        subject = subject_name(named.strip())
        permitted.check_settings(call, subject)
    except Refusal as refusal:
        if refusal.status == 404:
            raise NotFound(f"there is no subject {named[:300]!r} on {primary}") from refusal
        raise as_said(refusal, "level") from refusal
    with call.registry.mirror.lock.looking():
        own, of_all = _own(call.catalog, subject), level_of(call.catalog, None)
    levels = [("", f"none of its own: {OF_ALL}, {of_all}")]
    levels += [(level, f"{level}: {_MEANS[level]}") for level in LEVELS]
    return FormPage(
        template="level_form.html",
        address=ADDRESS,
        heading="Set the compatibility level",
        trail=[SCHEMAS, (subject, address_of(primary, subject))],
        verb="Set the level",
        act=Settling(schemas, subject),
        usual=lambda _: {"subject": subject, "level": own, "version": own},
        choices={"levels": levels},
    )


@router.get(ADDRESS)
def level_form(
    request: Request, services: Shared, registries: SharedRegistries, viewer: Viewer, subject: Text = ""
) -> Response:
    """The form for one subject."""
    caller = enter_somewhere(viewer, Action.DECLARE_STREAMS)
    return show_form(request, services, caller, _page(services, registries, caller, subject))


@router.post(ADDRESS)
def set_level(
    request: Request, services: Shared, registries: SharedRegistries, viewer: Viewer, fields: Form
) -> Response:
    """Try it out, or set the level."""
    caller = enter_somewhere(viewer, Action.DECLARE_STREAMS)
    page = _page(services, registries, caller, fields.get("subject", ""))
    return answer_form(request, services, caller, page, fields)
