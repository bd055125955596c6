"""`treeline drill`: play the replication lab on this machine, or ask what a live cluster would lose.

Exit codes: 0 played, whatever the result; 2 invalid input.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.lab.drill_search import search
from backend.commands.shell.completion import clusters_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import answer, fail, rest_client

if TYPE_CHECKING:
    from backend.replication_lab.runs.drills import Drill

_SCENARIOS = ("name", "faithful", "fixed", "document")
_WHAT_IF = ("what", "count", "examples", "meaning")

drill = typer.Typer(no_args_is_help=True, help="Simulate failures before they happen.")


def register(app: typer.Typer) -> None:
    """Add `treeline drill`."""
    drill.command("replication")(replication)
    drill.command("broker")(broker_dies)
    drill.command("search")(search)
    app.add_typer(drill, name="drill")


def replication(
    list_: Annotated[bool, typer.Option("--list", help="List scenarios with expected results.")] = False,
    scenario: Annotated[str | None, typer.Option(help="Scenario to play.")] = None,
    schedule: Annotated[
        Path | None,
        typer.Option(help="File with a schedule of faults, YAML or JSON; - is stdin (docs/replication-lab.md)."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="faithful (the documents), fixed (all fixes), kip-101 or kip-279 (some of them). Default: "
            "faithful for a scenario, fixed for a schedule.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the run; the same seed gives the same run.")] = 1,
    frames: Annotated[
        bool, typer.Option("--frames", help="Include all brokers after each step, in JSON or YAML.")
    ] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Play a failure of the replication protocol step by step, and name the invariant that it violates."""
    from backend.replication_lab.model.configuration import InvalidDrill
    from backend.replication_lab.model.rules import FAITHFUL, FIXED
    from backend.replication_lab.runs.drills import drill as play
    from backend.replication_lab.runs.drills import drill_schedule

    wanted = Form.JSON if as_json else form
    if sum((list_, scenario is not None, schedule is not None)) != 1:
        fail("Use exactly one of --list, --scenario NAME and --schedule FILE.", 2)
    if list_:
        _list(wanted)
        return
    try:
        if scenario is not None:
            played = play(scenario, FAITHFUL.mode if mode is None else mode, seed, with_frames=frames)
        else:
            played = drill_schedule(
                _read(schedule), FIXED.mode if mode is None else mode, seed, with_frames=frames
            )
    except InvalidDrill as invalid:
        fail(str(invalid), 2)
    if wanted is Form.TABLE:
        _print_story(played)
    else:
        show(played.document(), wanted, (), ())


def _list(form: Form) -> None:
    from backend.replication_lab.runs.drills import summary
    from backend.replication_lab.scenarios import SCENARIOS

    found = [summary(each) for each in SCENARIOS.values()]
    show(found, form, _SCENARIOS, [{**each, **each["expected"]} for each in found])


def _read(path: Path | None) -> Any:
    from backend.yaml_files import YamlInvalid, load_yaml

    try:
        text = sys.stdin.read() if str(path) == "-" else Path(str(path)).read_text(encoding="utf-8")
        return load_yaml(text)
    except (OSError, UnicodeDecodeError) as unreadable:
        fail(f"{path} cannot be read: {unreadable}", 2)
    except YamlInvalid as wrong:
        fail(f"{path}: {wrong}", 2)


def _print_story(played: Drill) -> None:
    """Print a run as sentences."""
    from backend.replication_lab.runs.drills import UNEXPLAINED_WAIT

    typer.echo(f"{played.scenario}, {played.mode}, seed {played.seed}: {played.steps_taken:,} steps")
    if played.begins_after:
        typer.echo(f"The story begins after {played.begins_after:,} of them, when nothing was wrong.")
    for moment in played.moments:
        typer.echo(f"{moment.step:>6}  {moment.text}")
    if played.violated is None:
        typer.echo(f"{played.verdict}.")
    else:
        typer.echo(f"Violated at step {played.moments[-1].step}: {played.verdict}.")
        typer.echo(f"{played.what[:1].upper()}{played.what[1:]}.")
        if not played.is_fewest:
            typer.echo("The story is not shrunk to its fewest steps, which would take too long.")
        if not played.waits_have_reasons:
            typer.echo(f"{UNEXPLAINED_WAIT}.")
    if played.expected_losses:
        lost = ", ".join(played.expected_losses)
        typer.echo(f"Lost, as expected when no in-sync replica is alive for a moment: {lost}.")
    if played.acknowledged_losses:
        gone = ", ".join(played.acknowledged_losses)
        typer.echo(f"Acknowledged, but lost at the end: {gone}.")
    if played.longest_gap_ms is not None:
        typer.echo(f"Longest time without an acknowledgement: {played.longest_gap_ms:,} ms (simulated)")


def broker_dies(
    cluster: Annotated[str, typer.Argument(help="Name of the cluster.", autocompletion=clusters_beginning)],
    broker: Annotated[int, typer.Argument(help="Id of the broker.")],
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show what would be lost if a broker of a cluster died now, given its current leaders and ISRs."""
    path = f"/clusters/{quote(cluster, safe='')}/replication/what-if"
    with rest_client() as client:
        found = answer(client.get(path, params={"broker": broker}))
    for sentence in (found["sentence"], *found["assumed"]):
        typer.echo(sentence, err=True)
    show(found, Form.JSON if as_json else form, _WHAT_IF, found["outcomes"])
