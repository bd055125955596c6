"""`--dry-run`: a change is checked, and what it would answer shown; nothing changes."""

from __future__ import annotations

from typing import Annotated

import typer

DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]


def preview(dry_run: bool) -> dict[str, str]:
    """The parameters by which a request only checks, if that is wanted."""
    return {"dry_run": "true"} if dry_run else {}


def say(done: str, dry_run: bool) -> None:
    """On stderr, what was done; after a dry run, that it was not."""
    typer.echo("This was a dry run: nothing changed." if dry_run else done, err=True)


def say_if_dry(dry_run: bool) -> None:
    """On stderr, that nothing changed, where the answer itself tells what was done."""
    if dry_run:
        say("", dry_run)
