"""What commands say of a placement that is carried out: how far it is, and what came of it."""

from __future__ import annotations

from typing import Any

import typer

from backend.commands.placement.placement_limits import say_limits
from backend.placement.errors import few

_OTHERS = ("gone", "changed_by_others", "grown", "not_led")


def say_run(row: dict[str, Any]) -> None:
    """Whether replicas have been moved for it, how far that is, and what came of it; on stderr."""
    if not row["run"]:
        typer.echo(f"{row['state']}; nothing was moved" + _why(row), err=True)
        return
    typer.echo(progress_of(row) + _why(row), err=True)
    say_limits(row)
    report = row["report"]
    if report is not None:
        typer.echo(
            f"{report['arrived']:,} of {report['partitions']:,} partitions that change are as they are to be; "
            f"{report['elected']:,} leaders elected",
            err=True,
        )
        say_what_others_did(report)


def _why(row: dict[str, Any]) -> str:
    return f": {row['reason']}" if row["reason"] else ""


def progress_of(row: dict[str, Any]) -> str:
    """Its state, and how far a worker is that moves its replicas."""
    now = row.get("now") or {}
    words = [row["state"]]
    if "moves_done" in now:
        whole = now["moves_done"] + now["moves_in_flight"] + now["moves_left"]
        words.append(f"{now['moves_done']:,} of {whole:,} moves ({now['fraction']:.0%} of bytes)")
        words.append(f"{now['moves_in_flight']:,} under way")
        if now["seconds_left"]:
            words.append(f"about {now['seconds_left']:,.0f} s left")
        held = now["held_up"]
        if held:
            place, why = next(iter(held.items()))
            words.append(f"{place} waits: {why}" + (f", and {len(held) - 1} more" if len(held) > 1 else ""))
    if now.get("failing"):
        words.append(str(now["failing"]))
    return ", ".join(words)


def say_what_others_did(report: dict[str, Any]) -> None:
    """Partitions that came out otherwise than planned, on stderr."""
    for what in _OTHERS:
        told = report.get(what)
        if told and told["count"]:
            names = few(told["examples"], told["count"])
            typer.echo(f"{what.replace('_', ' ')}: {told['count']:,} partitions ({names})", err=True)
