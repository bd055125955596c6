"""`treeline apply` and `diff`: apply a declared file resource by resource, and wait until every cluster has it.

Progress goes to stderr. Exit codes: 0 ok, 1 refused, or not on all clusters in time, 2 bad input; of `diff`: 0 no
difference, 1 differences.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shell import kinds
from backend.commands.shell.output import Form, FormOption, JsonOption, show
from backend.commands.shell.progress import Progress
from backend.commands.shell.rest import pages, rest_client

if TYPE_CHECKING:
    import httpx2

    from backend.commands.shell.declared import Declared
    from backend.commands.shell.differences import Difference, Terms

File = Annotated[Path, typer.Option("--filename", "-f", help='YAML file; "-" is standard input.')]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]
Wait = Annotated[
    float | None,
    typer.Option(min=0, help="Maximum seconds to wait until every cluster has what the file declares."),
]

Confirm = Annotated[
    list[str] | None,
    typer.Option(help="Full name of a STREAM to change although Kafka then removes records; may be repeated."),
]

_APPLIED = "applied"
_LOOK_SECONDS = 1.0
_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Mount the commands on the program."""
    for command in (apply, diff):
        app.command()(command)


def apply(
    file: File,
    dry_run: DryRun = False,
    wait: Wait = None,
    confirm: Confirm = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Create and change the resources that a file declares; resources that it does not name stay as they are.

    Topics and access on clusters follow asynchronously; `--wait 60` returns when every cluster has them, and exits
    with 1 if that takes longer.
    """
    from backend.commands.shell.declared import read_file
    from backend.commands.shell.differences import Terms

    declared = read_file(file)
    with rest_client() as client:
        terms = Terms(dry_run, frozenset(confirm or ()))
        done = [_row(difference) for difference in _carried_out(client, declared, terms)]
        left = [] if wait is None or dry_run else _wait(client, declared, wait)
    if dry_run:
        typer.echo("This was a dry run: nothing changed.", err=True)
    show(done, Form.JSON if as_json else form, ("kind", "place", "action"), done)
    if left:
        listed = "".join(f"\n  {each}" for each in left[:_SHOWN])
        more = f"\n  and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        typer.echo(f"Declared, but not on all clusters after {wait:g} s:{listed}{more}", err=True)
        raise typer.Exit(1)


def _carried_out(client: httpx2.Client, declared: Sequence[Declared], terms: Terms) -> Iterator[Difference]:
    from backend.commands.shell.differences import Present, carry_out, declare_streams

    present = Present(client, declared)
    missing: set[tuple[str, str]] = set()
    with Progress("declared", len(declared)) as progress:
        done = 0
        for batch in _batches(declared):
            found = [present.compare(each) for each in batch]
            # In a dry run, what depends on a resource that does not exist yet cannot be checked by the API.
            due = [
                one for one in found if one.action != "keep" and not (terms.dry_run and _builds_on(one, missing))
            ]
            if batch[0].kind is kinds.STREAM:
                declare_streams(client, [one.declared for one in due if not one.exists], dry_run=terms.dry_run)
                due = [one for one in due if one.exists]
            for one in due:
                carry_out(client, one, terms)
            if terms.dry_run:
                missing |= {(one.declared.kind.name, one.declared.place) for one in found if not one.exists}
            done += len(batch)
            progress.reached(done)
            yield from found


def _batches(declared: Iterable[Declared]) -> Iterator[list[Declared]]:
    """Group consecutive streams of one environment into batches, one for each request; yield the rest singly."""
    from backend.commands.shell.differences import AT_ONCE

    for (kind, _), group in groupby(declared, key=lambda each: (each.kind, each.within)):
        rows = list(group)
        size = AT_ONCE if kind is kinds.STREAM else 1
        yield from (rows[first : first + size] for first in range(0, len(rows), size))


def _wait(client: httpx2.Client, declared: Iterable[Declared], seconds: float) -> list[str]:
    """Wait until all clusters have the file's streams and applications; describe what is missing in the end."""
    places: dict[tuple[kinds.Kind, str], set[str]] = {}
    for each in declared:
        if each.kind in (kinds.STREAM, kinds.APPLICATION):
            places.setdefault((each.kind, each.within), set()).add(each.name)
    deadline = time.monotonic() + seconds
    with Progress("on the clusters", 0) as progress:
        while True:
            found = [
                (f"{kind.name} {environment}/{row['name']} on {cluster}", state, row["failures"].get(cluster))
                for (kind, environment), names in places.items()
                for row in pages(client, kind.collection(environment), {})
                if row["name"] in names
                for cluster, state in row["applied"].items()
            ]
            waiting = [(what, reason or state) for what, state, reason in found if state != _APPLIED]
            progress.reached(len(found) - len(waiting), len(found))
            if not waiting or time.monotonic() > deadline:
                return [f"{what}: {why}" for what, why in waiting]
            time.sleep(_LOOK_SECONDS)


def diff(file: File, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Show how the file differs from the control plane; exit code 1 if it does."""
    from backend.commands.shell.declared import read_file
    from backend.commands.shell.differences import Present

    declared = read_file(file)
    with rest_client() as client:
        present = Present(client, declared)
        found = [present.compare(each) for each in declared]
    rows = [
        {**_row(difference), "field": name, "present": present, "wanted": wanted}
        for difference in found
        if difference.action != "keep"
        for name, (present, wanted) in (_fields(difference) or {"": (None, None)}).items()
    ]
    columns = ("kind", "place", "action", "field", "present", "wanted")
    show(rows, Form.JSON if as_json else form, columns, rows)
    if rows:
        raise typer.Exit(1)


def _builds_on(difference: Difference, missing: set[tuple[str, str]]) -> bool:
    """Return whether a resource depends on a missing one.

    That is a resource within a missing one, the tree while clusters are missing, a member of a missing tenant, or
    an application that names missing streams.
    """
    from backend.commands.shell.declared import streams_of

    declared = difference.declared
    if declared.kind is kinds.TREE:
        return any(kind == kinds.CLUSTER.name for kind, _ in missing)
    if declared.kind is kinds.USER:
        return any(("tenant", tenant) in missing for tenant in declared.body.get("tenants") or {})
    if declared.kind is kinds.APPLICATION and any(("stream", name) in missing for name in streams_of(declared)):
        return True
    return any(place == declared.within for _, place in missing)


def _row(difference: Difference) -> dict[str, Any]:
    declared = difference.declared
    return {"kind": declared.kind.name, "place": declared.place, "action": difference.action}


def _fields(difference: Difference) -> dict[str, tuple[Any, Any]]:
    if difference.exists:
        return difference.changes
    return {name: (None, wanted) for name, wanted in difference.declared.body.items()}
