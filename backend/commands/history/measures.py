"""`treeline history`: a measure over time, as a table with bars."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, listed
from backend.commands.shell.rest import answer, fail, pages, rest_client

if TYPE_CHECKING:
    import httpx2

COLUMNS = ("time", "value", "bar")
SUBJECT_COLUMNS = ("metric", "subject", "unit")
BAR_CHARACTERS = 30
_EIGHTHS = "▏▎▍▌▋▊▉█"
HOUR_MS = 3_600_000


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(history)


def history(
    metric: Annotated[str, typer.Argument(help="Name of the metric, such as edge.lag_records.")],
    subject: Annotated[
        str | None, typer.Argument(help="Such as cluster-1:3; without it, the subjects are listed.")
    ] = None,
    hours: Annotated[float | None, typer.Option(min=0.1, max=10_000, help="The last N hours; default: 1.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="First time: ISO 8601, or milliseconds since 1970.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Time after the last; default: now.")] = None,
    step_ms: Annotated[int | None, typer.Option(help="Milliseconds of a point: whole minutes.")] = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show a measure over time; without a subject, list the subjects that have a history."""
    if hours is not None and (since is not None or until is not None):
        fail("--hours excludes --from and --to; give --hours alone, or the others.", Code.BAD_INPUT)
    with rest_client() as client:
        if subject is None:
            shown = _subjects(client, metric)
        else:
            now_ms = round(time.time() * 1000)
            asked: dict[str, Any] = {"metric": metric, "subject": subject, "from": since, "to": until}
            if hours is not None:
                asked |= {"from": now_ms - round(hours * HOUR_MS), "to": now_ms}
            if step_ms is not None:
                asked["step_ms"] = step_ms
            params = {name: value for name, value in asked.items() if value is not None}
            shown = _series(answer(client.get("/history", params=params)))
    shown.write(Form.JSON if as_json else form)


def _subjects(client: httpx2.Client, metric: str) -> Shown:
    items = pages(client, "/history/subjects", {"metric": metric})
    told = [] if items else ["No subject has a history yet; it begins with the first full minute."]
    return Shown(answer=listed(items), columns=SUBJECT_COLUMNS, rows=items, told=told)


def _series(found: dict[str, Any]) -> Shown:
    bars = bars_of([value for _, value in found["points"]])
    rows = [
        {"time": _time(at), "value": value, "bar": bar}
        for (at, value), bar in zip(found["points"], bars, strict=True)
    ]
    told = [f"{each['time'][:19]}  {each['text']} (position {each['position']})" for each in found["marks"]]
    return Shown(answer=found, columns=COLUMNS, rows=rows, told=told)


def bars_of(values: Sequence[float | None]) -> list[str]:
    """Return a bar of block characters for each value, the longest for the largest; empty for None and 0."""
    largest = max((value for value in values if value is not None), default=0)
    bars = []
    for value in values:
        eighths = round(8 * BAR_CHARACTERS * value / largest) if value and largest > 0 else 0
        whole, part = divmod(eighths, 8)
        bars.append(_EIGHTHS[-1] * whole + (_EIGHTHS[part - 1] if part else ""))
    return bars


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M")
