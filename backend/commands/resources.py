"""`treeline get`, `describe`, `apply`, `diff`, `delete`: what the control plane has, and changing it.

Exit codes: 0 ok (`diff`: no difference), 1 refused or not there (`diff`: there are differences), 2 bad input.
Data goes to stdout, messages to stderr.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands import kinds, offsets
from backend.commands.kinds import DISTRIBUTOR_COLUMNS, DISTRIBUTORS, KNOWN, OFFSETS, Kind, kind_of
from backend.commands.output import Form, FormOption, JsonOption, show
from backend.commands.rest import answer, fail, pages, rest_client

if TYPE_CHECKING:
    import httpx2

    from backend.commands.declared import Difference

KindWord = Annotated[str, typer.Argument(metavar="KIND", help=f"One of {KNOWN}.")]
At = Annotated[int | None, typer.Option("--at", min=0, help="As of this position of the event log.")]
File = Annotated[Path, typer.Option("--filename", "-f", help='YAML file; "-" is standard input.')]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]


def register(app: typer.Typer) -> None:
    """Mount the commands on the program."""
    for command in (get, describe, apply, diff, delete):
        app.command()(command)


def get(
    kind: KindWord,
    place: Annotated[str, typer.Argument(help="cluster-1, acme, acme/retail, acme/retail/prod/orders ...")] = "",
    at: At = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List things (`get streams acme/retail/prod`) or show one (`get stream acme/retail/prod/orders`).

    `get grants acme` lists what applications, of whatever tenant, may do with acme's streams, and ask to do.

    `get offsets` lists what groups have committed and where they go on elsewhere; its place is a group's name.
    """
    form = Form.JSON if as_json else form
    params: dict[str, Any] = {} if at is None else {"at": at}
    with rest_client() as client:
        if kind == DISTRIBUTORS:
            rows = answer(client.get("/trees/main/distributors", params=params))
            show(rows, form, DISTRIBUTOR_COLUMNS, rows)
            return
        if kind == OFFSETS:
            if at is not None:
                fail("What groups commit is observed, and not kept: leave --at out.", 2)
            offsets.show_offsets(client, place, form)
            return
        of = kind_of(kind)
        if kind == of.name and of is not kinds.GRANT:
            place = place or ("main" if of is kinds.TREE else "")
            found = answer(client.get(of.path(place), params=params))
            show(found, form, of.columns, [found])
            return
        items = _list(client, of, place, params)
        show({"items": items, "next_cursor": None}, form, of.columns, items)


def describe(
    kind: KindWord,
    place: Annotated[str, typer.Argument(help="Which one.")] = "",
    at: At = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show everything about one thing."""
    of = kind_of(kind)
    params: dict[str, Any] = {} if at is None else {"at": at}
    with rest_client() as client:
        found = answer(client.get(of.path(place or ("main" if of is kinds.TREE else "")), params=params))
    rows = [{"field": name, "value": value} for name, value in found.items()]
    show(found, Form.JSON if as_json else form, ("field", "value"), rows)


def apply(file: File, dry_run: DryRun = False, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Create and change what a file declares; what it does not name stays."""
    from backend.commands.declared import carry_out, compare, read_file

    done: list[dict[str, Any]] = []
    missing: set[tuple[str, str]] = set()
    with rest_client() as client:
        for declared in read_file(file):
            difference = compare(client, declared)
            # In a dry run the API cannot be asked about what builds on a thing that is only about to be made.
            if difference.action != "keep" and not (dry_run and _builds_on(difference, missing)):
                carry_out(client, difference, dry_run=dry_run)
            if dry_run and not difference.exists:
                missing.add((declared.kind.name, declared.place))
            done.append(_row(difference))
    if dry_run:
        typer.echo("This was a dry run: nothing changed.", err=True)
    show(done, Form.JSON if as_json else form, ("kind", "place", "action"), done)


def diff(file: File, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Say how what a file declares differs from what the control plane has; exit code 1 if it does."""
    from backend.commands.declared import compare, read_file

    with rest_client() as client:
        found = [compare(client, declared) for declared in read_file(file)]
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


def delete(
    kind: KindWord,
    place: Annotated[str, typer.Argument(help="Which one.")],
    confirm: Annotated[str | None, typer.Option(help="STREAM in full: delete it with its records.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Remove a cluster that is in no tree, a stream with its topics, or an application with its access."""
    of = kind_of(kind)
    if of is kinds.USER:
        fail(f"A user is not deleted, since events name it: `treeline user disable {place}`.", 2)
    if of not in (kinds.CLUSTER, kinds.STREAM, kinds.APPLICATION):
        fail(f"A {of.name} cannot be deleted (yet); clusters, streams and applications can.", 2)
    params = {"dry_run": "true"} if dry_run else {}
    if confirm is not None:
        params["confirm"] = confirm
    with rest_client() as client:
        response = client.delete(of.path(place), params=params)
        if not response.is_success:
            answer(response)
    typer.echo(f"{of.name} {place} {'would be deleted' if dry_run else 'deleted'}.", err=True)


def _list(client: httpx2.Client, kind: Kind, place: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything of a kind; without a place, below every place there is."""
    if place or len(kind.collections) == 1:
        return pages(client, kind.collection(place), params)
    parents = next(
        k for k in (kinds.TENANT, kinds.INSTANCE, kinds.ENVIRONMENT) if k.plural == kind.collections[-2]
    )
    found = []
    for parent in _list(client, parents, "", params):
        names = [parent[part] for part in ("tenant", "instance") if part in parent]
        found += pages(client, kind.collection("/".join([*names, parent["name"]])), params)
    return found


def _builds_on(difference: Difference, missing: set[tuple[str, str]]) -> bool:
    """Whether a thing lies within a missing one, is a tree while clusters are missing, a member of a tenant, or an
    application that names missing streams."""
    from backend.commands.declared import streams_of

    declared = difference.declared
    if declared.kind is kinds.TREE:
        return any(kind == kinds.CLUSTER.name for kind, _ in missing)
    if declared.kind is kinds.USER:
        return any(("tenant", tenant) in missing for tenant in declared.body.get("tenants") or {})
    if declared.kind is kinds.APPLICATION and any(("stream", name) in missing for name in streams_of(declared)):
        return True
    parent = declared.place.rpartition("/")[0]
    return any(place == parent for _, place in missing)


def _row(difference: Difference) -> dict[str, Any]:
    declared = difference.declared
    return {"kind": declared.kind.name, "place": declared.place, "action": difference.action}


def _fields(difference: Difference) -> dict[str, tuple[Any, Any]]:
    if difference.exists:
        return difference.changes
    return {name: (None, wanted) for name, wanted in difference.declared.body.items()}
