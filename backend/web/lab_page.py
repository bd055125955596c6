"""`/drills`: scenarios of the replication lab, and `/drills/replication/{scenario}`: one played step by step.

Nothing is asked of clusters or of the database: a run is simulated, and its seed gives it again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from backend.domain.access import Action, Caller
from backend.domain.errors import NotFound
from backend.replication_lab.configuration import ImpossibleDrill
from backend.replication_lab.drills import Drill, drill
from backend.replication_lab.history import IN_WORDS
from backend.replication_lab.rules import FAITHFUL
from backend.replication_lab.scenarios import SCENARIOS
from backend.web import templates
from backend.web.lab_view import (
    DRILLS,
    MODES_SAID,
    REPLICATION,
    SHORTLY,
    PlayerView,
    modes_listed,
    scenarios_listed,
    sentence,
)
from backend.web.pages import PageRoute, enter
from backend.web.services import Viewer, frame

router = APIRouter(include_in_schema=False, route_class=PageRoute)

LAB = ("Drills", DRILLS)
_LONGEST = 40
Text = Annotated[str | None, Query(max_length=_LONGEST)]


@router.get(DRILLS)
def drills_page(request: Request, viewer: Viewer) -> Response:
    """All scenarios, with what each mode is expected to give."""
    return _list(request, enter(viewer, Action.READ_ESTATE))


@router.get(REPLICATION + "/{scenario}")
def player_page(
    scenario: str, request: Request, viewer: Viewer, mode: Text = None, seed: Text = None, step: Text = None
) -> Response:
    """One of them, played, at a step of its story; the list with the reason where it cannot be."""
    caller = enter(viewer, Action.READ_ESTATE)
    if scenario not in SCENARIOS:
        raise NotFound(f"there is no scenario {scenario[:60]!a}")
    try:
        played = _played(scenario, mode or FAITHFUL.mode, _number("seed", seed, 1))
        asked = _number("step", step, 0)
    except ImpossibleDrill as why:
        return _list(request, caller, sentence(str(why)))
    view = PlayerView(played, min(asked, len(played.moments) - 1))
    return templates.page("drill.html", {**frame(request, caller), "view": view, "trail": [LAB]})


def _list(request: Request, caller: Caller, error: str | None = None) -> Response:
    shown = scenarios_listed()
    context = {
        "scenarios": shown,
        "modes": [(mode, MODES_SAID.get(mode, mode)) for mode in modes_listed(shown)],
        "invariants": [(SHORTLY[each], sentence(words)) for each, words in IN_WORDS.items()],
        "error": error,
    }
    return templates.page("drills.html", {**frame(request, caller), **context}, 422 if error else 200)


def _number(name: str, given: str | None, usual: int) -> int:
    text = (given or "").strip()
    if not text:
        return usual
    if not (text.isascii() and text.isdigit()):
        raise ImpossibleDrill(f"the {name} is {text!r}: it must be a whole number.")
    return int(text)


# Each step of the page is a request; whoever plays a drill looks at one run again and again.
@lru_cache(maxsize=16)
def _played(scenario: str, mode: str, seed: int) -> Drill:
    return drill(scenario, mode, seed, with_frames=True)
