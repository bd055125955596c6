"""`--dry-run`: a change is checked, and its answer shown; nothing changes."""

from __future__ import annotations

from typing import Annotated

import typer

DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]


def preview(dry_run: bool) -> dict[str, str]:
    """Return the query parameters that make a request a dry run, if it is one."""
    return {"dry_run": "true"} if dry_run else {}


def say(done: str, dry_run: bool) -> None:
    """Print to stderr what was done; after a dry run, that it was not."""
    typer.echo("This was a dry run: nothing changed." if dry_run else done, err=True)


def say_if_dry(dry_run: bool) -> None:
    """Print to stderr that nothing changed, if this was a dry run and the answer itself tells the rest."""
    if dry_run:
        say("", dry_run)
