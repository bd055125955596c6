"""The program `treeline`."""

from __future__ import annotations

import typer

from backend.commands import estate, verify

app = typer.Typer(no_args_is_help=True, help="Treeline: the control plane that makes several Kafka clusters one.")
estate.register(app)
verify.register(app)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
