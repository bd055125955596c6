"""`treeline placement plan` and `initial`: placements computed here, without a cluster and without Spark.

`plan --cluster` lets a worker compute the plan for a cluster that the control plane knows.

Exit codes: 0 computed (rules that cannot be satisfied are in `violations`), 2 bad input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.placement import placement_of_clusters, placement_policy, placement_running
from backend.commands.shell.completion import clusters_beginning
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.rest import fail

if TYPE_CHECKING:
    from backend.placement.plan import Plan

COLUMNS = ("broker", "rack", "replicas", "after", "leaders", "leaders_after")

placement = typer.Typer(no_args_is_help=True, help="Plan and execute replica placements.")


def register(app: typer.Typer) -> None:
    """Add `treeline placement`."""
    placement.command()(plan)
    placement.command()(initial)
    placement.command("show")(placement_of_clusters.show_one)
    placement.command()(placement_policy.policy)
    placement_running.register(placement)
    app.add_typer(placement, name="placement")


def plan(
    question: Annotated[
        Path | None,
        typer.Option("--input", help="JSON file with brokers, target_brokers and partitions; - is stdin."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Plan for a cluster of the control plane.", autocompletion=clusters_beginning),
    ] = None,
    target_brokers: Annotated[
        str | None, typer.Option(help="With --cluster: ids of the brokers that may hold replicas, such as 1,2,3.")
    ] = None,
    replication_factor: Annotated[
        str | None,
        typer.Option(
            help="With --cluster: replication factor of all topics, or declared for that of each stream."
        ),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(
            "--from-reassignment",
            help="Use this reassignment (kafka-reassign-partitions format) as the plan; - is stdin.",
        ),
    ] = None,
    reassignment: placement_of_clusters.Reassignment = None,
    rounds: Annotated[
        Path | None,
        typer.Option(
            help="With --input: write the plan to this folder in rounds that move one replica per partition."
        ),
    ] = None,
    moves_per_broker: Annotated[
        int, typer.Option(min=1, help="With --rounds: concurrent moves that a broker takes part in.")
    ] = 5,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Compute a placement that balances replicas over brokers and racks with the fewest moves."""
    shape = Form.JSON if as_json else form
    if (question is None) == (cluster is None):
        fail("use either --input or --cluster", 2)
    if question is None:
        if rounds is not None:
            fail("--rounds can only be used with --input", 2)
        wish: dict[str, Any] = {"cluster": cluster}
        if target_brokers is not None:
            wish["target_brokers"] = _ids(target_brokers)
        if replication_factor is not None:
            wish["replication_factor"] = _factor(replication_factor)
        if given is not None:
            wish["reassignment"] = _read_reassignment(given)
        placement_of_clusters.create_plan(wish, reassignment, shape)
        return
    if (target_brokers, replication_factor) != (None, None):
        fail(
            "--target-brokers and --replication-factor need --cluster; with --input, set them in the file",
            2,
        )
    found = _plan_file(question, given, reassignment)
    document = found.document()
    placement_of_clusters.print_plan(document)
    if rounds is not None:
        _write_rounds(found, rounds, moves_per_broker)
    show(document, shape, COLUMNS, _rows(found))


def _ids(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        fail(f"--target-brokers: {text[:60]!r} is not a list of broker ids such as 1,2,3", 2)


def _factor(text: str) -> int | str:
    if text == "declared":
        return text
    try:
        return int(text)
    except ValueError:
        fail(f"--replication-factor: {text[:60]!r} is neither a number nor the word declared", 2)


def _plan_file(question: Path, given: Path | None, reassignment: Path | None) -> Plan:
    from backend.placement import documents
    from backend.placement.errors import PlacementInvalid
    from backend.placement.external_plan import plan_for_request

    if str(question) == str(given) == "-":
        fail("--input and --from-reassignment cannot both read stdin: use a file for one of them", 2)
    asked = _read(question)
    if given is not None:
        if not isinstance(asked, dict) or "reassignment" in asked:
            fail(f"{question}: must be an object without reassignment when --from-reassignment is used", 2)
        asked["reassignment"] = _read_reassignment(given)
    try:
        found = plan_for_request(asked)
    except PlacementInvalid as error:
        fail(f"{question}: {error}", 2)
    if reassignment is not None:
        placement_of_clusters.write(reassignment, documents.reassignment(found.problem, found.replicas))
    return found


def _read_reassignment(given: Path) -> Any:
    from backend.placement.errors import PlacementInvalid
    from backend.placement.reassignment import read_reassignment

    document = _read(given)
    try:
        read_reassignment(document)
    except PlacementInvalid as error:
        fail(f"{given}: {error}", 2)
    return document


def _write_rounds(found: Plan, folder: Path, moves_per_broker: int) -> None:
    """Write one file per round for `kafka-reassign-partitions.sh`; each needs the previous one to be complete."""
    from backend.placement.execution.rounds import NoWay, rounds
    from backend.placement.execution.steps import Limits

    limits = Limits(moves_per_broker=moves_per_broker, partitions_at_once=len(found.problem.now) or 1)
    count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        left = sorted(folder.glob("round-*.json"))
        if left:
            fail(f"{folder} already has rounds, such as {left[0].name}: use another folder", 2)
        for count, each in enumerate(rounds(found.problem, found.replicas, limits), 1):
            (folder / f"round-{count:04}.json").write_text(json.dumps(each.document(), indent=1) + "\n")
            done = each.progress
            typer.echo(
                f"round {count}: {len(each.partitions):,} partitions; {done.moves_done:,} moves and "
                f"{done.bytes_done:,} bytes done after it, {done.bytes_left:,} bytes left",
                err=True,
            )
    except OSError as error:
        fail(f"{folder}: {error.strerror}", 2)
    except NoWay as error:
        fail(f"wrote {count:,} rounds to {folder}, then the plan is blocked: {error}")
    typer.echo(f"wrote {count:,} rounds to {folder}", err=True)


def _rows(found: Plan) -> list[dict[str, Any]]:
    problem, counted = found.problem, found.counted
    before, led = problem.loads(problem.now), problem.leads(problem.now)
    return [
        {
            "broker": int(problem.broker_ids[at]),
            "rack": problem.racks[problem.rack_of[at]] if problem.rack_of[at] >= 0 else "gone",
            "replicas": int(before[at]),
            "after": int(counted.loads[at]),
            "leaders": int(led[at]),
            "leaders_after": int(counted.leads[at]),
        }
        for at in range(len(problem.broker_ids))
    ]


def initial(
    brokers: Annotated[Path, typer.Option(help="JSON file with [{id, rack}] or {brokers: [...]}; - is stdin.")],
    partitions: Annotated[int, typer.Option(min=1, max=10_000_000, help="Partitions of the new topic.")],
    replication_factor: Annotated[int, typer.Option(min=1, max=1000, help="Replicas of each partition.")],
    topic: Annotated[str, typer.Option(help="Name of the new topic.")] = "topic",
    literal: Annotated[
        bool,
        typer.Option(
            "--literal", help="Apply the formula of Kafka's replication design literally, including collisions."
        ),
    ] = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Place the replicas of a new topic so that all other brokers share the load of a lost one."""
    from backend.placement import initial as placing
    from backend.placement.errors import PlacementInvalid
    from backend.placement.request_document import read_brokers

    try:
        known = read_brokers(_read(brokers))
        rows = placing.rows(known, partitions, replication_factor, literal=literal)
    except PlacementInvalid as error:
        fail(f"{brokers}: {error}", 2)
    listed = [{"topic": topic, "partition": number, "replicas": row} for number, row in enumerate(rows)]
    show({"partitions": listed}, Form.JSON if as_json else form, ("partition", "replicas"), listed)


def _read(path: Path) -> Any:
    from backend.placement.errors import PlacementInvalid
    from backend.placement.reading import parse

    try:
        return parse(sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8"))
    except OSError as error:
        fail(f"{path}: {error.strerror}", 2)
    except UnicodeDecodeError as error:
        fail(f"{path}: invalid JSON: {error}", 2)
    except PlacementInvalid as error:
        fail(f"{path}: {error}", 2)
