"""`treeline drill search`: search all orders of steps in a small configuration for the shortest violation.

Exit codes: 0 searched, whatever was found; 2 invalid input.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import fail

DEEPEST = 60
MOST_REPLICAS = 4


def search(
    mode: Annotated[str, typer.Option(help="Rules: fixed, faithful, kip-101 or kip-279.")] = "fixed",
    replicas: Annotated[int, typer.Option(min=1, max=MOST_REPLICAS, help="Number of replicas and brokers.")] = 2,
    min_isr: Annotated[int, typer.Option(min=1, max=MOST_REPLICAS, help="Value of min.insync.replicas.")] = 1,
    depth: Annotated[int, typer.Option(min=1, max=DEEPEST, help="Number of steps in the longest stories.")] = 8,
    records: Annotated[int, typer.Option(min=0, max=3, help="Records sent after two initial ones.")] = 1,
    attempts: Annotated[int, typer.Option(min=1, max=3, help="Attempts at sending each record.")] = 2,
    crashes: Annotated[int, typer.Option(min=0, max=3, help="Crashes in one story.")] = 1,
    power_losses: Annotated[int, typer.Option(min=0, max=3, help="Crashes that lose what was not flushed.")] = 0,
    expiries: Annotated[
        int, typer.Option(min=0, max=3, help="Sessions that expire although their brokers are alive.")
    ] = 1,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="Make flushes separate steps.")] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Try every order of steps and faults, breadth first; report the number of states at each depth.
    Three replicas to depth 10 take some minutes and gigabytes.
    """
    from backend.replication_lab.model.configuration import Configuration, InvalidDrill
    from backend.replication_lab.model.rules import MODES
    from backend.replication_lab.model.start_states import established
    from backend.replication_lab.runs.search import Bounds
    from backend.replication_lab.runs.search import search as run_search
    from backend.replication_lab.stories.story import moments

    if mode not in MODES:
        fail(f"there is no mode {mode!r}; use one of {', '.join(MODES)}.", 2)
    try:
        configuration = Configuration(
            brokers=replicas,
            replication_factor=replicas,
            min_isr=min_isr,
            producers=min(records, 1),
            records=records,
        )
        start = established(configuration, MODES[mode], records=2, direct=True, prompt=True)
    except InvalidDrill as invalid:
        fail(str(invalid), 2)
    bounds = Bounds(
        crashes=crashes, power_losses=power_losses, expiries=expiries, attempts=attempts, checkpoints=checkpoints
    )
    found = run_search(start, bounds, depth, report=_progress)
    story = [each.text for each in moments(start, found.story)] if found.story else []
    result: dict[str, Any] = {
        "mode": mode,
        "bounds": asdict(bounds),
        "depth": found.depth,
        "states": found.states,
        "steps": found.steps,
        "states_by_depth": list(found.by_depth),
        "is_whole": found.is_whole,
        "violated": found.violated and found.violated.value,
        "what": found.what or None,
        "story": story,
    }
    rows = [{"depth": at, "new_states": number} for at, number in enumerate(found.by_depth)]
    show(result, Form.JSON if as_json else form, ("depth", "new_states"), rows)
    if not as_json and form is Form.TABLE:
        for number, text in enumerate(story):
            typer.echo(f"{number:>4}  {text}")
        whole = "; there are no longer stories" if found.is_whole else ""
        verdict = f"{found.violated} violated: {found.what}" if found.violated else f"every invariant holds{whole}"
        typer.echo(f"{found.states:,} states, {found.steps:,} steps, to depth {found.depth}: {verdict}.")


def _progress(depth: int, states: int, steps: int) -> None:
    typer.echo(f"depth {depth}: {states:,} states, {steps:,} steps", err=True)
