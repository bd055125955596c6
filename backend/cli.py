"""Entry point of the command line program `treeline`."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Any

import structlog
import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from backend.commands import resources
from backend.commands.access import audit, users
from backend.commands.clusters import adopt
from backend.commands.distribution import distributor, edge_losses, trace, verify
from backend.commands.estate import estate
from backend.commands.history import events, measures, undo
from backend.commands.lab import drill
from backend.commands.messages import messages, produce
from backend.commands.offsets import groups, offsets
from backend.commands.overview import overview
from backend.commands.placement import placement
from backend.commands.replication import replication
from backend.commands.schemas import schemas
from backend.commands.shell import applying, completion, config_check, context, examples, exporting, login
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.local import given_context
from backend.commands.switch import discovery, switch
from backend.commands.tenants import applications, stream_figures
from backend.commands.webhooks import webhooks
from backend.commands.zones import zones
from backend.program_version import VERSION

_CONTEXT = "--context"


class _Program(TyperGroup):
    """Command group that accepts `--context NAME` anywhere on the command line, also after the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words, rest = (args[: args.index("--")], args[args.index("--") :]) if "--" in args else (args, [])
        front: list[str] = []
        for number, each in enumerate(words):
            if each.startswith(f"{_CONTEXT}="):
                front, words = [each], [*words[:number], *words[number + 1 :]]
                break
            if each == _CONTEXT and number + 1 < len(words):
                front, words = words[number : number + 2], [*words[:number], *words[number + 2 :]]
                break
        return super().parse_args(ctx, [*front, *words, *rest])


app = typer.Typer(
    cls=_Program,
    no_args_is_help=True,
    help="Treeline: the control plane that makes several Kafka clusters one.",
)
for commands in (
    estate,
    overview,
    verify,
    resources,
    applying,
    exporting,
    adopt,
    events,
    distributor,
    login,
    trace,
    messages,
    measures,
    produce,
    undo,
    edge_losses,
    offsets,
    groups,
    schemas,
    switch,
    placement,
    replication,
    drill,
    users,
    audit,
    applications,
    stream_figures,
    zones,
    webhooks,
    discovery,
    context,
    config_check,
    completion,
):
    commands.register(app)
examples.attach(app)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"treeline {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    context: Annotated[
        str | None,
        typer.Option(
            _CONTEXT,
            metavar="NAME",
            help=(
                "Use the control plane of this context (see `treeline context list`); takes precedence over "
                "all other settings. May also follow the command."
            ),
            autocompletion=completion.contexts_beginning,
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Treeline: the control plane that makes several Kafka clusters one."""
    ctx.with_resource(given_context(context))


def main() -> None:
    # Data goes to stdout; structlog's default would write messages there, too, into the middle of the JSON.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        app()
    except ValidationError as wrong:
        for error in wrong.errors(include_input=False, include_url=False):
            name = ".".join(str(part) for part in error["loc"])
            sys.stderr.write(f"Setting {name} (TREELINE_{name.upper()}, or treeline.toml): {error['msg']}.\n")
        sys.exit(Code.BAD_INPUT)
    except SystemExit as ended:
        # Typer turns Ctrl-C at a prompt into exit code 1, which would be indistinguishable from the answer "no".
        if isinstance(ended.__context__, typer.Abort) and isinstance(
            ended.__context__.__context__, KeyboardInterrupt
        ):
            sys.exit(Code.INTERRUPTED)
        raise


if __name__ == "__main__":
    main()
