"""`treeline verify`: prove that a record produced on any cluster is on every cluster exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from backend.commands.shell.exit_codes import Code, code_of
from backend.commands.shell.output import Form, FormOption, JsonOption, console, show
from backend.commands.shell.rest import fail

if TYPE_CHECKING:
    from backend.verification.run import Verdict

MOST_RECORDS = 1_000_000


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(verify)


def verify(
    stream: Annotated[
        str | None, typer.Option(help="tenant/instance/environment/stream; default: an internal stream.")
    ] = None,
    records: Annotated[
        int, typer.Option(min=1, max=MOST_RECORDS, help="Records to produce on each cluster.")
    ] = 1000,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Produce marked records on every cluster and check that every cluster has each of them exactly once.

    Exit 1: records are missing, duplicated or out of order, or the stream does not exist; exit 2: the stream's
    name is invalid, or it is not distributed; exit 4: the control plane does not answer.
    """
    from backend.commands.shell.local import NoEstateRuns, control_plane, kafka_secret, say_where
    from backend.settings import settings
    from backend.verification.fleet import FleetAway, FleetReader, FleetUnknown
    from backend.verification.run import verify as run

    config = settings()
    try:
        place = control_plane()
        say_where(place)
        reader = FleetReader(place.url, place.token, kafka_secret)
        verdict = run(
            reader,
            stream,
            records,
            config.verify_stream,
            config.verify_partitions,
            config.copy_flags_header,
            lambda text: typer.echo(text, err=True),
        )
    except NoEstateRuns as error:
        fail(str(error), Code.BAD_INPUT)
    except FleetAway as error:
        fail(f"{error} ({place.origin})", Code.AWAY)
    except FleetUnknown as error:
        fail(str(error), Code.BAD_INPUT if error.status is None else code_of(error.status))
    form = Form.JSON if as_json else form
    if form is Form.TABLE:
        _show(verdict)
        for problem in verdict.problems:
            typer.echo(problem, err=True)
    else:
        show(verdict.document(), form, (), [])
    if not verdict.ok:
        raise typer.Exit(Code.NOT_SO)


def _show(verdict: Verdict) -> None:
    from rich.table import Table

    table = Table(
        title=f"{verdict.records} records of {verdict.stream} from each cluster, {verdict.seconds:.1f} s"
    )
    for heading in ("cluster", "expected", "distinct", "missing", "doubled", "out of order", "flags"):
        table.add_column(heading, justify="left" if heading in ("cluster", "flags") else "right")
    for name, report in verdict.reports.items():
        flags = "  ".join(f"{text} {count}" for text, count in sorted(report.flags.items()))
        numbers = (report.expected, report.distinct, report.missing, report.duplicates, report.out_of_order)
        table.add_row(name, *map(str, numbers), flags)
    console().print(table)
    typer.echo("every record is on every cluster exactly once" if verdict.ok else "verification failed")
