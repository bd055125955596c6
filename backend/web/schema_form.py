"""`/schemas/-new`: check a schema, and register it as a version on the primary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from backend.domain.access import Action, Caller
from backend.domain.errors import ClusterSilent, DomainError, FieldError, NotFound, StateConflict, ValueInvalid
from backend.registry import registering
from backend.registry.calls import Call, subject_name
from backend.registry.catalog import Catalog
from backend.registry.directory import Directory, Registry
from backend.registry.parsing import Parser, not_registered
from backend.registry.records import SchemaVersion, dump_json
from backend.registry.refusals import Refusal
from backend.registry.registering import Decision, Wanted
from backend.registry.schema_types import KINDS
from backend.web.asked import Asked
from backend.web.differences import hunks
from backend.web.effect import Effect, NameOn, fields_of
from backend.web.form_page import FormPage, answer_form, show_form
from backend.web.forms import Fields, Form
from backend.web.pages import PageRoute, enter_somewhere
from backend.web.same_change import SameChange, curl
from backend.web.schema_view import Sight, level_of, mirror_of, pretty
from backend.web.schemas_page import sight_of
from backend.web.services import Registries, Shared, Viewer

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ADDRESS = "/schemas/-new"
_REFERENCE = (
    "a reference is a line: name, subject, version; such as com.acme.Address acme-retail-prod-address-value 1"
)


@dataclass(frozen=True)
class Registering:
    """The act of this form, by the rules of the registry's API."""

    directory: Directory
    sight: Sight

    def try_out(self, asked: Asked, given: Fields) -> Effect:
        """Check, and say what would be registered."""
        subject, body = _sent(given)
        self.sight.check_writing(subject)
        primary = self.sight.wanted.primary
        mirror = mirror_of(self.directory, primary)
        try:
            wanted = self._wanted(body)
            with mirror.lock:
                catalog, parser = mirror.catalog, mirror.parser
                self._check_compatible(catalog, parser, subject, wanted)
                decision = self._decide(catalog, parser, subject, wanted)
                return self._effect(catalog, subject, body, decision)
        except Refusal as refusal:
            raise _refused(refusal) from refusal

    def _check_compatible(self, catalog: Catalog, parser: Parser, subject: str, wanted: Wanted) -> None:
        """Raise StateConflict with each thing that does not fit at its own; `_decide` says them in one."""
        self._check_references(wanted)
        versions = catalog.versions(subject)
        if not versions or registering.find(catalog, parser, subject, wanted) is not None:
            return
        problems = registering.compatible(catalog, parser, subject, wanted, versions)
        if problems:
            level = level_of(catalog, subject)
            detail = f"this schema is not compatible, by {level}, with what {subject[:300]} has"
            raise StateConflict(detail, tuple(FieldError("/schema", problem) for problem in problems))

    def carry_out(self, asked: Asked, given: Fields, once: str) -> Response:
        """Register. What is registered already is not registered again, so `once` says nothing."""
        subject, body = _sent(given)
        self.sight.check_writing(subject)
        primary = self.sight.wanted.primary
        mirror_of(self.directory, primary)
        registry = self._registry(primary)
        try:
            wanted = self._wanted(body)
            registry.writer.write(
                lambda catalog, parser: self._decide(catalog, parser, subject, wanted), lambda cluster: cluster
            )
        except Refusal as refusal:
            raise _refused(refusal) from refusal
        return RedirectResponse(f"/schemas/{primary}/{quote(subject, safe='')}", 303)

    def _registry(self, cluster: str) -> Registry:
        registry = self.directory.find(cluster)
        assert registry is not None  # `mirror_of` has found it
        return registry

    def _wanted(self, body: dict[str, Any]) -> Wanted:
        return Call(self._registry(self.sight.wanted.primary), "", {}, dump_json(body)).wanted()

    def _decide(self, catalog: Catalog, parser: Parser, subject: str, wanted: Wanted) -> Decision:
        self._check_references(wanted)
        return registering.register(catalog, parser, subject, wanted)

    def _check_references(self, wanted: Wanted) -> None:
        """What its sender may not know of is not there."""
        followed = self.sight.subjects(self.sight.wanted.primary)
        for reference in wanted.content.references:
            if not self.sight.may_see(followed.stream_of(reference.subject)):
                raise not_registered(reference)

    def _effect(self, catalog: Catalog, subject: str, body: dict[str, Any], decision: Decision) -> Effect:
        primary = self.sight.wanted.primary
        new = next((each for each in decision.records if isinstance(each, SchemaVersion)), None)
        versions = catalog.versions(subject)
        level = level_of(catalog, subject)
        path = f"/registries/{primary}/subjects/{quote(subject, safe='')}/versions"
        same = SameChange(None, None, curl("POST", path, body))
        if new is None:
            there = [each.version for each in versions if each.id == decision.answer["id"]]
            sentence = f"It is registered already, as version {there[-1]} with id {decision.answer['id']}."
            return Effect(sentence=sentence, same=same, nothing=True)
        latest = versions[-1] if versions else None
        compared = f"compatible by {level} with what is there" if latest else "the first of its subject"
        names = self.sight.translated(primary, subject)
        return Effect(
            sentence=f"It can be registered as version {new.version} with id {new.id}: it is {compared}.",
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
            notes=(f"{primary} is the primary; the schema follows on all other clusters by itself.",),
            hunks=(hunks(pretty(latest.content), pretty(new.content)) or ()) if latest else (),
        )


def _sent(given: Fields) -> tuple[str, dict[str, Any]]:
    """Subject and body as the registry's API takes them. Raises ValueInvalid."""
    try:
        subject = subject_name(given.get("subject", "").strip())
    except Refusal as refusal:
        raise ValueInvalid(refusal.message, (FieldError("/subject", refusal.message),)) from refusal
    body: dict[str, Any] = {"schemaType": given.get("kind", ""), "schema": given.get("schema", "")}
    references = [_reference(line.split()) for line in given.get("references", "").splitlines() if line.strip()]
    return subject, {**body, "references": references} if references else body


def _reference(parts: list[str]) -> dict[str, Any]:
    if len(parts) != 3 or not (parts[2].isascii() and parts[2].isdigit() and len(parts[2]) < 11):
        raise ValueInvalid(_REFERENCE, (FieldError("/references", _REFERENCE),))
    return {"name": parts[0], "subject": parts[1], "version": int(parts[2])}


def _refused(refusal: Refusal) -> DomainError:
    """What a registry refuses, as pages say it."""
    if refusal.status >= 500:
        return ClusterSilent(refusal.message)
    at = (FieldError("/schema", refusal.message),)
    return (
        StateConflict(refusal.message, at) if refusal.status in (403, 409) else ValueInvalid(refusal.message, at)
    )


def _page(services: Shared, registries: Directory, caller: Caller, subject: str = "") -> FormPage:
    with services.reading() as connection:
        sight = sight_of(connection, caller)
    if sight is None:
        raise NotFound("there is no tree yet, so nobody keeps schemas")
    visible = bool(subject) and sight.may_see(sight.subjects(sight.wanted.primary).stream_of(subject))
    usual = {"subject": subject, "kind": KINDS[0]}
    registry = registries.find(sight.wanted.primary)
    if visible and registry is not None:
        with registry.mirror.lock:
            versions = registry.mirror.catalog.versions(subject)
        if versions:
            latest = versions[-1].content
            lines = [f"{each.name} {each.subject} {each.version}" for each in latest.references]
            usual |= {"kind": latest.kind, "schema": pretty(latest), "references": "\n".join(lines)}
    return FormPage(
        template="schema_form.html",
        address=ADDRESS,
        heading="Register a version",
        trail=[("Schemas", "/schemas")],
        verb="Register the version",
        act=Registering(registries, sight),
        usual=lambda _: usual,
        choices={"kinds": KINDS, "primary": sight.wanted.primary},
        empty="Give a subject and a schema: here stands whether it can be registered, and if not, why.",
    )


@router.get(ADDRESS)
def new_version(
    request: Request, services: Shared, registries: Registries, viewer: Viewer, subject: str = ""
) -> Response:
    """The form; with a subject, begun with its latest version."""
    caller = enter_somewhere(viewer, Action.DECLARE_STREAMS)
    return show_form(request, services, caller, _page(services, registries, caller, subject))


@router.post(ADDRESS)
def register_version(
    request: Request, services: Shared, registries: Registries, viewer: Viewer, fields: Form
) -> Response:
    """Check, or register."""
    caller = enter_somewhere(viewer, Action.DECLARE_STREAMS)
    return answer_form(request, services, caller, _page(services, registries, caller), fields)
