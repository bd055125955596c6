"""`treeline user`, `token`, `member` and `whoami`: who may do what. Users are made by `treeline apply`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from backend.commands.output import Form, FormOption, JsonOption, show
from backend.commands.rest import answer, pages, rest_client

if TYPE_CHECKING:
    import httpx2

TOKEN_COLUMNS = ("name", "issued_at", "expires_at")
MEMBER_COLUMNS = ("user", "membership", "disabled")

user = typer.Typer(no_args_is_help=True, help="What `get`, `apply` and `diff` do not do with users.")
token = typer.Typer(no_args_is_help=True, help="Tokens of users, for programs.")
member = typer.Typer(no_args_is_help=True, help="Who belongs to a tenant.")

User = Annotated[str, typer.Argument(help="Its name.")]
Whose = Annotated[str, typer.Option("--user", help="Whose; left out: one's own.")]
TokenName = Annotated[str, typer.Argument(help="The token's name.")]
Tenant = Annotated[str, typer.Argument(help="The tenant.")]
NewPassword = Annotated[
    str,
    typer.Option(
        prompt=True,
        hide_input=True,
        confirmation_prompt=True,
        envvar="TREELINE_NEW_PASSWORD",
        help="Asked for; given as an option it would stand in the shell's history.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(user, name="user")
    app.add_typer(token, name="token")
    app.add_typer(member, name="member")
    app.command()(whoami)


def whoami(form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Show who one is to the control plane, and what one may do."""
    with rest_client() as client:
        me = answer(client.get("/me"))
    show(me, Form.JSON if as_json else form, ("name", "role", "tenants", "token"), [me])


@user.command()
def disable(name: User) -> None:
    """Let a user do nothing any more, by no token and no password."""
    _set_disabled(name, True)


@user.command()
def enable(name: User) -> None:
    """Let a disabled user do again what it may."""
    _set_disabled(name, False)


@user.command()
def password(name: User, new: NewPassword) -> None:
    """Set a user's password for the console; its sessions are over."""
    with rest_client() as client:
        _done(client.put(f"{_user(name)}/password", json={"password": new}))
    typer.echo(f"{name} has a new password.", err=True)


@token.command("list")
def list_tokens(whose: Whose = "", form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """List a user's tokens."""
    with rest_client() as client:
        items = pages(client, _tokens(client, whose), {})
    show({"items": items, "next_cursor": None}, Form.JSON if as_json else form, TOKEN_COLUMNS, items)


@token.command()
def issue(
    name: TokenName,
    whose: Whose = "",
    days: Annotated[int | None, typer.Option(min=1, help="How long it lasts; left out: until revoked.")] = None,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Give a user a token and print it, this once. For oneself: on the console's Account page."""
    with rest_client() as client:
        issued = answer(client.post(_tokens(client, whose), json={"name": name, "expires_in_days": days}))
    form = Form.JSON if as_json else form
    if form is Form.TABLE:
        typer.echo(issued["secret"])
        typer.echo("This is the token; it is not shown again.", err=True)
    else:
        show(issued, form, (), [])


@token.command()
def revoke(name: TokenName, whose: Whose = "") -> None:
    """Take a token away; it opens nothing from then on."""
    with rest_client() as client:
        _done(client.delete(f"{_tokens(client, whose)}/{quote(name, safe='')}"))
    typer.echo(f"Token {name} revoked.", err=True)


@member.command("list")
def list_members(tenant: Tenant, form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """List who belongs to a tenant."""
    with rest_client() as client:
        items = pages(client, _members(tenant), {})
    show({"items": items, "next_cursor": None}, Form.JSON if as_json else form, MEMBER_COLUMNS, items)


@member.command("set")
def set_member(
    tenant: Tenant, name: User, membership: Annotated[str, typer.Argument(help="member or owner.")]
) -> None:
    """Let a user belong to a tenant, or belong otherwise than before."""
    with rest_client() as client:
        _done(client.put(f"{_members(tenant)}/{quote(name, safe='')}", json={"membership": membership}))
    typer.echo(f"{name} is {membership} of {tenant}.", err=True)


@member.command()
def remove(tenant: Tenant, name: User) -> None:
    """Take a user out of a tenant."""
    with rest_client() as client:
        _done(client.delete(f"{_members(tenant)}/{quote(name, safe='')}"))
    typer.echo(f"{name} no longer belongs to {tenant}.", err=True)


def _set_disabled(name: str, disabled: bool) -> None:
    with rest_client() as client:
        _done(client.patch(_user(name), json={"disabled": disabled}))
    typer.echo(f"{name} is {'disabled' if disabled else 'enabled'}.", err=True)


def _done(response: httpx2.Response) -> None:
    """End the program with what a refusal says."""
    if not response.is_success:
        answer(response)


def _user(name: str) -> str:
    return f"/users/{quote(name, safe='')}"


def _tokens(client: httpx2.Client, whose: str) -> str:
    me: dict[str, Any] = {} if whose else answer(client.get("/me"))
    return f"{_user(whose or me['name'])}/tokens"


def _members(tenant: str) -> str:
    return f"/tenants/{quote(tenant, safe='')}/members"
