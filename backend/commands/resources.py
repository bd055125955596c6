"""`treeline get`, `describe`, `delete`: what the control plane has.

Exit codes: 0 ok, 1 refused or not there, 2 bad input. Data goes to stdout, messages to stderr.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands import kinds, offsets
from backend.commands.kinds import DISTRIBUTOR_COLUMNS, DISTRIBUTORS, KNOWN, OFFSETS, Kind, kind_of
from backend.commands.output import Form, FormOption, JsonOption, show
from backend.commands.rest import answer, fail, pages, rest_client

if TYPE_CHECKING:
    import httpx2


KindWord = Annotated[str, typer.Argument(metavar="KIND", help=f"One of {KNOWN}.")]
At = Annotated[int | None, typer.Option("--at", min=0, help="As of this position of the event log.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]


def register(app: typer.Typer) -> None:
    """Mount the commands on the program."""
    for command in (get, describe, delete):
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


def delete(
    kind: KindWord,
    place: Annotated[str, typer.Argument(help="Which one.")],
    confirm: Annotated[str | None, typer.Option(help="STREAM in full: delete it with its records.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Remove a cluster that is in no tree, a stream with its topics, an application with its access, or a
    webhook."""
    of = kind_of(kind)
    if of is kinds.USER:
        fail(f"A user is not deleted, since events name it: `treeline user disable {place}`.", 2)
    if of not in (kinds.CLUSTER, kinds.STREAM, kinds.APPLICATION, kinds.WEBHOOK):
        fail(f"A {of.name} cannot be deleted (yet); clusters, streams, applications and webhooks can.", 2)
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
