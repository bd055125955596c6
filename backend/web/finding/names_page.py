"""`/find/-names`: suggestions for a field that takes the name of a resource, while the user types."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from backend.domain.access.access import Action, may, tenants_read
from backend.domain.base.errors import ValueInvalid
from backend.domain.history.metrics import metric_called
from backend.queries.history.measures import list_subjects
from backend.web.finding.find_page import FIND
from backend.web.finding.lookup import Lookup
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import Shared, Viewer
from backend.web.words.figures import plain

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST = 20
"""Number of suggestions in an answer."""
Text = Annotated[str, Query(max_length=600)]


@dataclass(frozen=True)
class Suggestion:
    """A name for the field. `detail` tells suggestions of the same name apart."""

    name: str
    detail: str = ""


def _resources(*kinds: str) -> Callable[[Lookup, Sequence[str], str], list[Suggestion]]:
    def found(lookup: Lookup, words: Sequence[str], of: str) -> list[Suggestion]:
        names = [each.name for each in lookup.resources(words, MOST, kinds)]
        return [Suggestion(name) for name in _best_first(names, words)]

    return found


def _groups(lookup: Lookup, words: Sequence[str], of: str) -> list[Suggestion]:
    rows = lookup.groups(words, MOST)
    return [Suggestion(row.name, row.place or (f"on {row.cluster}" if row.cluster else "")) for row in rows]


def _series(lookup: Lookup, words: Sequence[str], of: str) -> list[Suggestion]:
    """Return subjects with a history of the metric `of`."""
    info, typed = metric_called(plain(of)), [word.lower() for word in words]
    if info.action is not Action.READ_TENANT and not may(lookup.caller, info.action):
        return []
    subjects = list_subjects(lookup.connection, info.name, tenants_read(lookup.caller))
    matching = [each for each in subjects if all(word in each.lower() for word in typed)]
    return [Suggestion(name) for name in _best_first(matching, words)]


def _best_first(names: Sequence[str], words: Sequence[str]) -> list[str]:
    first = words[0].lower() if words else ""
    # Not all in order: a metric may have as many series as there are groups.
    return heapq.nsmallest(MOST, names, key=lambda name: (not name.lower().startswith(first), len(name), name))


_KINDS: Mapping[str, Callable[[Lookup, Sequence[str], str], list[Suggestion]]] = {
    "stream": _resources("stream"),
    "tenant": _resources("tenant"),
    "cluster": _resources("cluster"),
    "scope": _resources("tenant", "instance", "environment"),
    "group": _groups,
    "series": _series,
}


@router.get(FIND + "/-names")
def find_names(services: Shared, viewer: Viewer, kind: Text = "", q: Text = "", of: Text = "") -> Response:
    """Return names of a kind that have all words of `q`, as far as the viewer may see them: a JSON list.

    `kind`: stream, tenant, cluster, group, scope (a tenant, an instance or an environment), or series: a subject
    with a history of the metric `of`.
    """
    caller = enter(viewer, Action.OWN_ACCOUNT)
    if kind not in _KINDS:
        raise ValueInvalid(f"There are no suggestions of the kind {kind[:60]!r}: use one of {', '.join(_KINDS)}.")
    words = [part for word in q.split() if (part := plain(word))]
    with services.reading() as connection:
        found = _KINDS[kind](Lookup(connection, None, caller), words, of)
    return JSONResponse([asdict(each) for each in found])
