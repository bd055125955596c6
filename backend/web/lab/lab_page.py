"""`/drills`: scenarios of the replication lab, and the player that shows a run step by step.

  GET /drills                                 all scenarios, with the expected result in each mode
  GET /drills/replication/{scenario}          a scenario's run, at a step of its story
  GET /drills/schedule                        the user's own faults: the form and, if there are any, their run

The pages change nothing, so each moment has an address.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from backend.domain.access.access import Action, Caller
from backend.domain.base.errors import NotFound
from backend.replication_lab.model.configuration import InvalidDrill
from backend.replication_lab.model.history import IN_WORDS
from backend.replication_lab.model.rules import FAITHFUL, FIXED
from backend.replication_lab.runs.drills import Drill, drill, drill_schedule
from backend.replication_lab.scenarios import SCENARIOS
from backend.web.frame import templates
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import Viewer, frame
from backend.web.lab.lab_faults import FIRST, KINDS, OwnFaults, parse_faults
from backend.web.lab.lab_subject import DRILLS, OWN, REPLICATION, OfFaults, OfScenario
from backend.web.lab.lab_view import (
    CONSEQUENCES,
    MODE_DESCRIPTIONS,
    PlayerView,
    list_modes,
    list_scenarios,
    sentence,
)

router = APIRouter(include_in_schema=False, route_class=PageRoute)

LAB = ("Drills", DRILLS)
_LONGEST = 40
Text = Annotated[str | None, Query(max_length=_LONGEST)]


@router.get(DRILLS)
def drills_page(request: Request, viewer: Viewer) -> Response:
    """Show all scenarios, with the expected result in each mode."""
    return _list(request, enter(viewer, Action.READ_ESTATE))


@router.get(REPLICATION + "/{scenario}")
def player_page(
    scenario: str, request: Request, viewer: Viewer, mode: Text = None, seed: Text = None, step: Text = None
) -> Response:
    """Show a scenario's run at a step of its story; if it cannot be played, show the list with the reason."""
    caller = enter(viewer, Action.READ_ESTATE)
    if scenario not in SCENARIOS:
        raise NotFound(f"there is no scenario {scenario[:60]!r}")
    try:
        played = _played(scenario, mode or FAITHFUL.mode, _number("seed", seed, 1))
        asked = _number("step", step, 0)
    except InvalidDrill as why:
        return _list(request, caller, sentence(str(why)))
    view = PlayerView(OfScenario(SCENARIOS[scenario]), played, min(asked, len(played.moments) - 1))
    return templates.page("drill.html", {**frame(request, caller), "view": view, "trail": [LAB]})


@router.get(OWN)
def schedule_page(
    request: Request, viewer: Viewer, mode: Text = None, seed: Text = None, step: Text = None
) -> Response:
    """Show the form for faults and, if there are any, their run; show the reason if they cannot be played."""
    caller = enter(viewer, Action.READ_ESTATE)
    shown, error, view = FIRST, None, None
    try:
        asked = parse_faults(request.query_params)
        if asked is not None:
            shown = asked
            played = _played_faults(json.dumps(asked.document), mode or FIXED.mode, _number("seed", seed, 1))
            view = PlayerView(OfFaults(asked), played, min(_number("step", step, 0), len(played.moments) - 1))
    except InvalidDrill as why:
        error = sentence(str(why))
    return _schedule(request, caller, shown, {"mode": mode or FIXED.mode, "seed": seed or "1"}, view, error)


def _schedule(
    request: Request,
    caller: Caller,
    shown: OwnFaults,
    run: dict[str, str],
    view: PlayerView | None,
    error: str | None,
) -> Response:
    context = {
        "asked": shown,
        "run": run,
        "kinds": KINDS,
        "modes": list(MODE_DESCRIPTIONS.items()),
        "view": view,
        "error": error,
        "trail": [LAB],
    }
    return templates.page("drill_schedule.html", {**frame(request, caller), **context}, 422 if error else 200)


def _list(request: Request, caller: Caller, error: str | None = None) -> Response:
    shown = list_scenarios()
    context = {
        "scenarios": shown,
        "modes": [(mode, MODE_DESCRIPTIONS.get(mode, mode)) for mode in list_modes(shown)],
        "invariants": [(CONSEQUENCES[each], sentence(words)) for each, words in IN_WORDS.items()],
        "own": OWN,
        "error": error,
    }
    return templates.page("drills.html", {**frame(request, caller), **context}, 422 if error else 200)


def _number(name: str, given: str | None, usual: int) -> int:
    text = (given or "").strip()
    if not text:
        return usual
    if not (text.isascii() and text.isdigit()):
        raise InvalidDrill(f"the {name} is {text!r}: it must be a whole number.")
    return int(text)


# Each step of the page is a request; a viewer requests the same run again and again.
@lru_cache(maxsize=16)
def _played(scenario: str, mode: str, seed: int) -> Drill:
    return drill(scenario, mode, seed, with_frames=True)


@lru_cache(maxsize=8)
def _played_faults(document: str, mode: str, seed: int) -> Drill:
    return drill_schedule(json.loads(document), mode, seed, with_frames=True)
