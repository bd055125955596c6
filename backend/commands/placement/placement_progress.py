"""Output about the execution of a placement: its progress and its report."""

from __future__ import annotations

from typing import Any

import typer

from backend.commands.placement.placement_limits import print_limits
from backend.placement.errors import few

_OTHERS = ("gone", "changed_by_others", "grown", "not_led")


def print_run(row: dict[str, Any]) -> None:
    """Print the state, progress and report of a placement to stderr."""
    if not row["run"]:
        typer.echo(f"{row['state']}; nothing was moved" + _why(row), err=True)
        return
    typer.echo(progress_of(row) + _why(row), err=True)
    print_limits(row)
    report = row["report"]
    if report is not None:
        typer.echo(
            f"{report['arrived']:,} of {report['partitions']:,} changed partitions are at their target; "
            f"{report['elected']:,} leaders elected",
            err=True,
        )
        print_deviations(report)


def _why(row: dict[str, Any]) -> str:
    return f": {row['reason']}" if row["reason"] else ""


def progress_of(row: dict[str, Any]) -> str:
    """Describe the state of a placement and the progress of its moves."""
    now = row.get("now") or {}
    words = [row["state"]]
    if "moves_done" in now:
        whole = now["moves_done"] + now["moves_in_flight"] + now["moves_left"]
        words.append(f"{now['moves_done']:,} of {whole:,} moves ({now['fraction']:.0%} of bytes)")
        words.append(f"{now['moves_in_flight']:,} in flight")
        if now["seconds_left"]:
            words.append(f"about {now['seconds_left']:,.0f} s left")
        held = now["held_up"]
        if held:
            place, why = next(iter(held.items()))
            words.append(f"{place} waits: {why}" + (f", and {len(held) - 1} more" if len(held) > 1 else ""))
    if now.get("failing"):
        words.append(str(now["failing"]))
    return ", ".join(words)


def print_deviations(report: dict[str, Any]) -> None:
    """Print the partitions that differ from the plan to stderr."""
    for what in _OTHERS:
        entry = report.get(what)
        if entry and entry["count"]:
            names = few(entry["examples"], entry["count"])
            typer.echo(f"{what.replace('_', ' ')}: {entry['count']:,} partitions ({names})", err=True)
