"""Shell completion: existing names, queried in the short time that a keystroke may take.

Without an answer nothing is offered and nothing is printed: messages would disturb the command line.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from backend.commands.shell import contexts, kinds
from backend.commands.shell.local import given_context
from backend.commands.shell.registry import registry_of
from backend.commands.shell.rest import ControlPlaneAway, answer, asking
from backend.registry.known_settings import LEVELS, MODES

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

CONNECT_SECONDS = 0.5
ANSWER_SECONDS = 1.0
MOST_SECONDS = 2.0
_MOST_ITEMS = 1000
_COMPLETE_VARIABLE = "_TREELINE_COMPLETE"


class Shell(StrEnum):
    """Shells with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(completion)


def completion(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print the shell's completion script for commands, options, kinds and names."""
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="treeline", complete_var=_COMPLETE_VARIABLE, shell=shell.value))


def kinds_beginning(incomplete: str) -> list[str]:
    """Complete words for kinds."""
    return _beginning(incomplete, list(kinds.WORDS))


def deletable_beginning(incomplete: str) -> list[str]:
    """Complete words for kinds that `delete` accepts."""
    return _beginning(incomplete, [each.name for each in kinds.DELETABLE])


def contexts_beginning(incomplete: str) -> list[str]:
    """Complete names of contexts."""
    try:
        return _beginning(incomplete, [*contexts.read_contexts().known, contexts.LOCAL])
    except contexts.ContextInvalid:
        return []


def clusters_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of clusters."""
    return _places(ctx, kinds.CLUSTER, incomplete)


def tenants_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of tenants."""
    return _places(ctx, kinds.TENANT, incomplete)


def users_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of users."""
    return _places(ctx, kinds.USER, incomplete)


def environments_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete environments, by their places."""
    return _places(ctx, kinds.ENVIRONMENT, incomplete)


def streams_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete streams, by their places."""
    return _places(ctx, kinds.STREAM, incomplete)


def applications_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete applications, by their places."""
    return _places(ctx, kinds.APPLICATION, incomplete)


def switches_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete ids of switches."""
    return _places(ctx, kinds.SWITCH, incomplete)


def placements_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete ids of placements."""
    return _places(ctx, kinds.PLACEMENT, incomplete)


def subjects_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete subjects of the named registry, or of the primary's; soft-deleted ones only for some options."""
    with_deleted = any(ctx.params.get(name) for name in ("deleted", "permanent"))
    params = {"subjectPrefix": incomplete, "limit": str(_MOST_ITEMS), "deleted": str(with_deleted).lower()}

    def ask(client: httpx2.Client) -> list[str]:
        found = registry_of(client, ctx.params.get("cluster")).get("subjects", **params)
        return [str(each) for each in found]

    return _in_time(ctx, ask)


def levels_beginning(incomplete: str) -> list[str]:
    """Complete compatibility levels."""
    return _either_case(incomplete, LEVELS)


def modes_beginning(incomplete: str) -> list[str]:
    """Complete modes of registries."""
    return _either_case(incomplete, MODES)


def places_beginning(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete places of the kind given before: of one resource, or of the parent that a list is for."""
    word = ctx.params.get("kind") or ""
    if word == kinds.OFFSETS:
        return _beginning(incomplete, sorted({row["group"] for row in _asked(ctx, "/offsets")}))
    if word not in kinds.WORDS or word == kinds.DISTRIBUTORS:
        return []
    of = kinds.kind_of(word)
    if of is kinds.TREE:
        return _beginning(incomplete, ["main"])
    is_list = of is kinds.GRANT or (ctx.info_name == "get" and word == of.plural)
    return _places(ctx, of, incomplete, len(of.collections) - is_list)


def _places(ctx: typer.Context, of: kinds.Kind, incomplete: str, depth: int | None = None) -> list[str]:
    """Complete places level by level; while there is only one choice, continue down to the resource itself."""
    depth = len(of.collections) if depth is None else depth
    until = time.monotonic() + MOST_SECONDS
    level = incomplete.count("/")
    while level < depth and of is not kinds.OPERATION:
        above, _, begun = incomplete.rpartition("/")
        found = [
            f"{above}/{name}" if above else name
            for name in _names(ctx, of, above, level)
            if name.startswith(begun)
        ]
        if level + 1 == depth:
            return found
        if len(found) != 1 or time.monotonic() > until:
            return [f"{each}/" for each in found]
        incomplete, level = f"{found[0]}/", level + 1
    return []


def _names(ctx: typer.Context, of: kinds.Kind, above: str, level: int) -> list[str]:
    """Return the names of resources at one level of a kind's path, below a place."""
    at = kinds.Kind(of.name, of.plural, of.collections[: level + 1], ())
    items = _asked(ctx, at.collection(above))
    return [
        str(row.get("name") or str(row.get(of.name) or row.get("id") or "").rpartition("/")[2]) for row in items
    ]


def _asked(ctx: typer.Context, path: str) -> list[dict[str, Any]]:
    """Return the first items of a list; none if the request fails or takes too long."""

    def ask(client: httpx2.Client) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = answer(client.get(path, params={"limit": _MOST_ITEMS}))["items"]
        return items

    return _in_time(ctx, ask)


def _in_time(ctx: typer.Context, ask: Callable[[httpx2.Client], list[T]]) -> list[T]:
    """Return the answer that comes within a keystroke's time; an empty list if it fails or takes longer."""
    context = ctx.find_root().params.get("context")
    try:
        with (
            redirect_stderr(io.StringIO()),
            given_context(context),
            asking(ANSWER_SECONDS, CONNECT_SECONDS) as client,
        ):
            return ask(client)
    except (ControlPlaneAway, typer.Exit, ValueError, LookupError, TypeError):
        return []


def _either_case(incomplete: str, words: Sequence[str]) -> list[str]:
    """Return words in capitals, or in lower case if the input began so, as a shell accepts no other beginning."""
    return _beginning(incomplete, [each.lower() if incomplete.islower() else each for each in words])


def _beginning(incomplete: str, words: list[str]) -> list[str]:
    return [each for each in words if each.startswith(incomplete)]
