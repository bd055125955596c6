"""The program `treeline`."""

from __future__ import annotations

import logging
import sys

import structlog
import typer

from backend.commands import (
    adopt,
    applications,
    applying,
    audit,
    distributor,
    drill,
    edge_losses,
    estate,
    events,
    exporting,
    login,
    offsets,
    placement,
    replication,
    resources,
    schemas,
    switch,
    trace,
    undo,
    users,
    verify,
    webhooks,
    zones,
)

app = typer.Typer(no_args_is_help=True, help="Treeline: the control plane that makes several Kafka clusters one.")
estate.register(app)
verify.register(app)
resources.register(app)
applying.register(app)
exporting.register(app)
adopt.register(app)
events.register(app)
distributor.register(app)
login.register(app)
trace.register(app)
undo.register(app)
edge_losses.register(app)
offsets.register(app)
schemas.register(app)
switch.register(app)
placement.register(app)
replication.register(app)
drill.register(app)
users.register(app)
audit.register(app)
applications.register(app)
zones.register(app)
webhooks.register(app)


def main() -> None:
    # Data goes to stdout; structlog's own default would put messages there as well, into the JSON.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    app()


if __name__ == "__main__":
    main()
