"""`treeline verify`: prove that a record produced anywhere is on every cluster exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from backend.commands.exit_codes import Code
from backend.commands.output import Form, FormOption, JsonOption, console, show

if TYPE_CHECKING:
    from backend.verification.run import Verdict

MOST_RECORDS = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(verify)


def verify(
    stream: Annotated[
        str | None, typer.Option(help="tenant/instance/environment/stream; left out: an internal stream.")
    ] = None,
    records: Annotated[
        int, typer.Option(min=1, max=MOST_RECORDS, help="Records to produce on each cluster.")
    ] = 1000,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Produce marked records on every cluster and check that each is on every cluster exactly once.

    Exit 1 lists what is missing, doubled or out of order; exit 2: the control plane or STREAM is unknown.
    """
    from backend.commands.local import NoEstateRuns, control_plane, kafka_secret, say_where
    from backend.settings import settings
    from backend.verification.fleet import FleetReader, FleetUnknown
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
    except (FleetUnknown, NoEstateRuns) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(Code.BAD_INPUT) from None
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
