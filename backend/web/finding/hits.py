"""Results of a search, by kind: exact matches first, then actions, then the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from sqlalchemy import Connection

from backend.domain.access.access import Action, Caller, may, may_somewhere
from backend.queries.base import events
from backend.queries.base.finding import Found
from backend.queries.base.group_finding import FoundGroup
from backend.queries.base.names_of_events import name_placements, name_switches
from backend.queries.base.topic_finding import FoundTopic
from backend.web.finding.actions import ActionKind, Subject, meant
from backend.web.finding.lookup import Lookup
from backend.web.finding.schema_names import schema_names
from backend.web.frame.navigation import pages_for
from backend.web.frame.services import ConsoleServices, Registries
from backend.web.words.figures import counted, plain
from backend.web.words.names import placement_name, switch_name

_MOST_SUBJECTS = 3
_MOST_ACTIONS = 6
_MOST_NAMED_CLUSTERS = 3
_HEADINGS: Mapping[str, str] = {
    "page": "Pages",
    "cluster": "Clusters",
    "switch": "Switches",
    "placement": "Placements",
    "user": "Users",
    "webhook": "Webhooks",
    "tenant": "Tenants",
    "instance": "Instances",
    "environment": "Environments",
    "stream": "Streams",
    "application": "Applications",
    "topic": "Topics",
    "group": "Consumer groups",
    "subject": "Subjects",
    "event": "Events",
}
_ADDRESSES: Mapping[str, str] = {
    "cluster": "/clusters/{}",
    "switch": "/switches/{}",
    "placement": "/placements/{}",
    "user": "/users/{}",
    "webhook": "/webhooks/{}",
    "tenant": "/tenants/{}",
    "instance": "/tenants/{}",
    "environment": "/tenants/{}",
    "stream": "/tenants/{}",
}


@dataclass(frozen=True)
class Hit:
    """Search result: a link to a page. `detail` tells results of the same name apart."""

    kind: str
    name: str
    address: str
    detail: str = ""


@dataclass(frozen=True)
class Section:
    """Results of one kind."""

    heading: str
    hits: Sequence[Hit]


def found_for(
    services: ConsoleServices, registries: Registries, caller: Caller, text: str, most: int
) -> list[Section]:
    """Return the results that a caller may see, at most `most` of each kind; without words, all pages."""
    words = [part for word in text.split() if (part := plain(word))]
    pages = _pages(caller, words)
    if not words:
        return _sections(pages, [], words)
    schemas = schema_names(services, registries, caller)
    with services.reading() as connection:
        lookup = Lookup(connection, schemas, caller)
        hits = [*pages, *_resources(connection, lookup.resources(words, most))]
        hits += [_topic(each) for each in lookup.topics(words, most)]
        hits += [_group(each) for each in lookup.groups(words, most)]
        hits += [Hit("subject", each.name, each.given["page"]) for each in lookup.schema_subjects(words, most)]
        if position := _position(words):
            seen = None if may(caller, Action.READ_ESTATE) else caller.tenants_for(Action.READ_TENANT)
            event = events.event_at(connection, position, seen)
            hits += [Hit("event", f"position {position:,}", f"/timeline/{position}")] if event else []
        return _sections(hits, _actions(lookup, words), words)


def _pages(caller: Caller, words: Sequence[str]) -> list[Hit]:
    offered = [(page.name, page.address) for group in pages_for(caller) for page in group.pages]
    return [
        Hit("page", name, address)
        for name, address in (*offered, ("Account", "/account"))
        if all(word.lower() in name.lower() for word in words)
    ]


def _actions(lookup: Lookup, words: Sequence[str]) -> list[Hit]:
    """Return the actions that the words mean and the caller may take, each for the first subjects named."""
    found: list[Hit] = []
    known: dict[tuple[str, tuple[str, ...], Action], list[Subject]] = {}
    for each in meant(words):
        kind = each.kind
        if len(found) >= _MOST_ACTIONS:
            break
        if not may_somewhere(lookup.caller, kind.needs):
            continue
        key = kind.of, each.rest, kind.needs
        if kind.of and key not in known:
            known[key] = lookup.subjects(kind.of, each.rest, _MOST_SUBJECTS, kind.needs)
        found += [_action(kind, subject) for subject in (known[key] if kind.of else [Subject("")])]
    return found[:_MOST_ACTIONS]


def _action(kind: ActionKind, subject: Subject) -> Hit:
    return Hit("action", kind.label_for(subject), kind.address_for(subject), subject.detail)


def _sections(hits: Sequence[Hit], actions: Sequence[Hit], words: Sequence[str]) -> list[Section]:
    by_kind: dict[str, list[Hit]] = {}
    for hit in hits:
        by_kind.setdefault(hit.kind, []).append(hit)
    sections = [(_HEADINGS[kind], of_kind) for kind, of_kind in by_kind.items()]
    exact = [Section(*each) for each in sections if any(_is_exact(hit, words) for hit in each[1])]
    others = [Section(*each) for each in sections if not any(_is_exact(hit, words) for hit in each[1])]
    return [*exact, *([Section("Actions", actions)] if actions else []), *others]


def _is_exact(hit: Hit, words: Sequence[str]) -> bool:
    """Return whether the words are the whole name, or whole parts of it that include the last one."""
    typed, parts = {word.lower() for word in words}, hit.name.lower().split("/")
    return typed == {hit.name.lower()} or (parts[-1] in typed and typed <= set(parts))


def _position(words: Sequence[str]) -> int:
    """Return the position of the event log that is searched for; 0 if the words are not one."""
    text = words[0].lstrip("#")
    return int(text) if len(words) == 1 and text.isascii() and text.isdigit() and len(text) <= 18 else 0


def _resources(connection: Connection, found: Sequence[Found]) -> list[Hit]:
    """Return links to resources, to switches and placements by their numbers."""
    named = name_switches(connection, [each.name for each in found if each.kind == "switch"])
    placed = name_placements(connection, [each.name for each in found if each.kind == "placement"])
    names = {
        **{("switch", key): switch_name(value, key) for key, value in named.items()},
        **{("placement", key): placement_name(value, key) for key, value in placed.items()},
    }
    return [
        replace(hit, name=names.get((hit.kind, each.name), hit.name))
        for each, hit in zip(found, map(_hit, found), strict=True)
    ]


def _hit(found: Found) -> Hit:
    if found.kind == "application":
        environment, _, application = found.name.rpartition("/")
        return Hit(found.kind, found.name, f"/tenants/{environment}/-applications/{application}")
    return Hit(found.kind, found.name, _ADDRESSES[found.kind].format(found.name))


def _topic(found: FoundTopic) -> Hit:
    named = ", ".join(found.clusters[:_MOST_NAMED_CLUSTERS])
    more = len(found.clusters) - _MOST_NAMED_CLUSTERS
    where = f"{named} and {counted(more, 'more cluster')}" if more > 0 else named
    return Hit("topic", found.topic, f"/tenants/{found.stream}", f"{found.stream} on {where}")


def _group(found: FoundGroup) -> Hit:
    if found.cluster is None:
        return Hit("group", found.name, f"/offsets?{urlencode({'group': found.name})}", "committed offsets")
    query = urlencode({"cluster": found.cluster, "group": found.technical_group})
    return Hit("group", found.name, f"/groups/-of?{query}", found.place or f"on {found.cluster}")
