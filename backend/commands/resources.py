"""`treeline get`, `describe`, `delete`: resources of the control plane.

Exit codes: those of `exit_codes`. Data goes to stdout, messages to stderr.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.offsets import offsets
from backend.commands.shell import kinds
from backend.commands.shell.completion import deletable_beginning, kinds_beginning, places_beginning
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.kinds import DISTRIBUTOR_COLUMNS, DISTRIBUTORS, KNOWN, OFFSETS, Kind, kind_of
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, fields_of, listed
from backend.commands.shell.rest import answer, done, fail, pages, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present

if TYPE_CHECKING:
    import httpx2


KindWord = Annotated[str, typer.Argument(metavar="KIND", help=f"One of {KNOWN}.", autocompletion=kinds_beginning)]
Place = Annotated[
    str,
    typer.Argument(
        help="cluster-1, acme, acme/retail, acme/retail/prod/orders ...", autocompletion=places_beginning
    ),
]
At = Annotated[int | None, typer.Option("--at", min=0, help="As of this position of the event log.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]


def register(app: typer.Typer) -> None:
    """Mount the commands on the program."""
    for command in (get, describe):
        app.command(cls=WatchCommand)(command)
    app.command()(delete)


def get(
    kind: KindWord,
    place: Place = "",
    at: At = None,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List resources (`get streams acme/retail/prod`) or show one (`get stream acme/retail/prod/orders`).

    `get grants acme` lists the grants and requests of all applications, of whatever tenant, for acme's streams.

    `get offsets` lists the offsets that groups have committed and their translations on other clusters; its place
    is a group's name.
    """
    if kind == OFFSETS and at is not None:
        fail("Committed offsets are observed, not versioned: leave out --at.", Code.BAD_INPUT)
    params = _as_of(at, every)
    present(lambda client: _got(client, kind, place, params), Form.JSON if as_json else form, every)


def _got(client: httpx2.Client, kind: str, place: str, params: dict[str, Any]) -> Shown:
    if kind == DISTRIBUTORS:
        rows = answer(client.get("/trees/main/distributors", params=params))
        return Shown(answer=rows, columns=DISTRIBUTOR_COLUMNS, rows=rows)
    if kind == OFFSETS:
        return offsets.committed(client, place)
    of = kind_of(kind)
    if kind == of.name and of is not kinds.GRANT:
        found = answer(client.get(of.path(_place(of, place)), params=params))
        return Shown(answer=found, columns=of.columns, rows=[found])
    items = _list(client, of, place, params)
    return Shown(answer=listed(items), columns=of.columns, rows=items)


def describe(
    kind: KindWord,
    place: Place = "",
    at: At = None,
    every: WatchOption = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show all fields of one resource."""
    params = _as_of(at, every)
    of = kind_of(kind)
    path = of.path(_place(of, place))
    present(
        lambda client: fields_of(answer(client.get(path, params=params))), Form.JSON if as_json else form, every
    )


def _place(of: Kind, place: str) -> str:
    """Return the place; there is only one tree, which need not be named."""
    return place or ("main" if of is kinds.TREE else "")


def _as_of(at: int | None, every: float | None) -> dict[str, Any]:
    if at is None:
        return {}
    if every is not None:
        fail("The state at a past position does not change: use either --at or --watch.", Code.BAD_INPUT)
    return {"at": at}


def delete(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=f"One of {', '.join(each.name for each in kinds.DELETABLE)}.",
            autocompletion=deletable_beginning,
        ),
    ],
    place: Annotated[str, typer.Argument(help="Place of the resource.", autocompletion=places_beginning)],
    confirm: Annotated[
        str | None, typer.Option(help="Full name of the STREAM, to delete it with its records.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Delete an unused cluster, a stream with its topics, an application with its access, or a webhook.

    A cluster must not be in the tree.
    """
    of = kind_of(kind)
    if of is kinds.USER:
        fail(f"Users cannot be deleted, since events name them; use `treeline user disable {place}`.", 2)
    if of not in kinds.DELETABLE:
        fail(f"A {of.name} cannot be deleted; only clusters, streams, applications and webhooks can.", 2)
    params = {"dry_run": "true"} if dry_run else {}
    if confirm is not None:
        params["confirm"] = confirm
    with rest_client() as client:
        done(client.delete(of.path(place), params=params))
    typer.echo(f"{of.name} {place} {'would be deleted' if dry_run else 'deleted'}.", err=True)


def _list(client: httpx2.Client, kind: Kind, place: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all resources of a kind; without a place, those below every place."""
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
