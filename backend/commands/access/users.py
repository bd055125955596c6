"""`treeline user`, `token`, `member` and `whoami`: users' access. Users are created by `treeline apply`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from backend.commands.shell.completion import tenants_beginning, users_beginning
from backend.commands.shell.dry_run import DryRun, preview, say, say_if_dry
from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, FormOption, JsonOption, Shown, listed, show
from backend.commands.shell.rest import answer, done, fail, pages, rest_client
from backend.commands.shell.watch import WatchCommand, WatchOption, present, present_list
from backend.domain.access.access import ADMIN_NAME

if TYPE_CHECKING:
    import httpx2

TOKEN_COLUMNS = ("name", "issued_at", "expires_at")
MEMBER_COLUMNS = ("user", "membership", "disabled")

user = typer.Typer(no_args_is_help=True, help="Disable and enable users, set passwords, link identities.")
token = typer.Typer(no_args_is_help=True, help="API tokens of users, for programs.")
member = typer.Typer(no_args_is_help=True, help="Members of tenants.")

User = Annotated[str, typer.Argument(help="The user's name.", autocompletion=users_beginning)]
Whose = Annotated[
    str, typer.Option("--user", help="The token's user; left out: yourself.", autocompletion=users_beginning)
]
TokenName = Annotated[str, typer.Argument(help="The token's name.")]
Tenant = Annotated[str, typer.Argument(help="The tenant.", autocompletion=tenants_beginning)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(user, name="user")
    app.add_typer(token, name="token")
    app.add_typer(member, name="member")
    app.command()(whoami)


def whoami(form: FormOption = Form.TABLE, as_json: JsonOption = False) -> None:
    """Show the user that you are to the control plane, and its permissions."""
    with rest_client() as client:
        me = answer(client.get("/me"))
    show(me, Form.JSON if as_json else form, ("name", "role", "tenants", "token"), [me])


@user.command()
def disable(name: User, dry_run: DryRun = False) -> None:
    """Disable a user: no token or password of the user is accepted any more."""
    _set_disabled(name, True, dry_run)


@user.command()
def enable(name: User, dry_run: DryRun = False) -> None:
    """Enable a disabled user again."""
    _set_disabled(name, False, dry_run)


@user.command()
def password(name: User, dry_run: DryRun = False) -> None:
    """Set a user's password for the console; the user's sessions end.

    The password is prompted for, or read from stdin or from TREELINE_NEW_PASSWORD: as an option it would be
    visible in the process list and the shell's history.
    """
    new = _new_password()
    with rest_client() as client:
        done(client.put(f"{_user(name)}/password", json={"password": new}, params=preview(dry_run)))
    say(f"{name} has a new password.", dry_run)


@user.command()
def link(
    name: User,
    subject: Annotated[str, typer.Argument(help="The provider's permanent identifier of the person (`sub`).")],
    dry_run: DryRun = False,
) -> None:
    """Link a user to an identity of the OpenID provider, by its subject."""
    with rest_client() as client:
        done(client.put(_identity(name), json={"subject": subject}, params=preview(dry_run)))
    say(f"{name} can log in through the provider.", dry_run)


@user.command()
def unlink(name: User, dry_run: DryRun = False) -> None:
    """Unlink a user from the OpenID provider; sessions that were opened through it end."""
    with rest_client() as client:
        done(client.delete(_identity(name), params=preview(dry_run)))
    say(f"{name} can no longer log in through the provider.", dry_run)


@token.command("list", cls=WatchCommand)
def list_tokens(
    whose: Whose = "", every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False
) -> None:
    """List a user's tokens."""

    def look(client: httpx2.Client) -> Shown:
        items = pages(client, _tokens(client, whose), {})
        return Shown(answer=listed(items), columns=TOKEN_COLUMNS, rows=items)

    present(look, Form.JSON if as_json else form, every)


@token.command()
def issue(
    name: TokenName,
    whose: Whose = "",
    days: Annotated[
        int | None, typer.Option(min=1, help="Days until it expires; left out: valid until revoked.")
    ] = None,
    dry_run: DryRun = False,
    form: FormOption = Form.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Issue a token to a user and print it, this once. For yourself, use the console's Account page."""
    with rest_client() as client:
        body = {"name": name, "expires_in_days": days}
        issued = answer(client.post(_tokens(client, whose), json=body, params=preview(dry_run)))
    form = Form.JSON if as_json else form
    if dry_run:
        show(issued, form, TOKEN_COLUMNS, [issued])
        say_if_dry(dry_run)
    elif form is Form.TABLE:
        typer.echo(issued["secret"])
        typer.echo("This is the token; it is not shown again.", err=True)
    else:
        show(issued, form, (), [])


@token.command()
def revoke(name: TokenName, whose: Whose = "", dry_run: DryRun = False) -> None:
    """Revoke a token; it is not accepted any more."""
    with rest_client() as client:
        done(client.delete(f"{_tokens(client, whose)}/{quote(name, safe='')}", params=preview(dry_run)))
    say(f"Token {name} revoked.", dry_run)


@member.command("list", cls=WatchCommand)
def list_members(
    tenant: Tenant, every: WatchOption = None, form: FormOption = Form.TABLE, as_json: JsonOption = False
) -> None:
    """List the members of a tenant."""
    present_list(_members(tenant), MEMBER_COLUMNS, Form.JSON if as_json else form, every)


@member.command("set")
def set_member(
    tenant: Tenant,
    name: User,
    membership: Annotated[str, typer.Argument(help="member or owner.")],
    dry_run: DryRun = False,
) -> None:
    """Add a user to a tenant, or change its membership."""
    with rest_client() as client:
        path = f"{_members(tenant)}/{quote(name, safe='')}"
        done(client.put(path, json={"membership": membership}, params=preview(dry_run)))
    say(f"{name} is {membership} of {tenant}.", dry_run)


@member.command()
def remove(tenant: Tenant, name: User, dry_run: DryRun = False) -> None:
    """Remove a user from a tenant."""
    with rest_client() as client:
        done(client.delete(f"{_members(tenant)}/{quote(name, safe='')}", params=preview(dry_run)))
    say(f"{name} is no longer a member of {tenant}.", dry_run)


def _new_password() -> str:
    new = os.environ.get("TREELINE_NEW_PASSWORD", "")
    if not new and sys.stdin.isatty():
        new = typer.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    elif not new:
        new = sys.stdin.readline().rstrip("\r\n")
    if not new:
        fail("There is no password on stdin, and none in TREELINE_NEW_PASSWORD.", Code.BAD_INPUT)
    return new


def _set_disabled(name: str, disabled: bool, dry_run: bool) -> None:
    with rest_client() as client:
        done(client.patch(_user(name), json={"disabled": disabled}, params=preview(dry_run)))
    say(f"{name} is {'disabled' if disabled else 'enabled'}.", dry_run)


def _identity(name: str) -> str:
    return f"{_user(name)}/identity"


def _user(name: str) -> str:
    return f"/users/{quote(name, safe='')}"


def _tokens(client: httpx2.Client, whose: str) -> str:
    whose = whose or answer(client.get("/me"))["name"]
    if whose == ADMIN_NAME:
        fail(f"{ADMIN_NAME} has only the token from the settings: name a user with --user.")
    return f"{_user(whose)}/tokens"


def _members(tenant: str) -> str:
    return f"/tenants/{quote(tenant, safe='')}/members"
