"""Selection of the control plane for the CLI, and of its secrets.

In this order: the flag `--context`, TREELINE_CONTEXT, TREELINE_URL with TREELINE_TOKEN, the local estate of a
TREELINE_HOME from the environment, the current context, the local estate of the default home. Empty variables
count as not set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import typer

from backend.commands.shell import contexts
from backend.commands.shell.exit_codes import Code
from backend.settings import settings

OF_VARIABLES = ("TREELINE_URL", "TREELINE_TOKEN")
"""Variables that must be set together; with only one of them, the error names the other."""

_flag: ContextVar[str | None] = ContextVar("context given by --context", default=None)


class NoEstateRuns(Exception):
    """No control plane is selected and no local estate runs; the message says what to do."""


@dataclass(frozen=True)
class ControlPlane:
    """Control plane with its URL and token, and the origin of that choice."""

    url: str
    token: str = field(repr=False)
    origin: str
    context: str | None = None


@contextmanager
def given_context(name: str | None) -> Iterator[None]:
    """Select the context of `--context`, if given, for as long as a command runs."""
    token = _flag.set(name)
    try:
        yield
    finally:
        _flag.reset(token)


def control_plane() -> ControlPlane:
    """Return the selected control plane; exits with 2 and a message if the choice is invalid.

    Raises NoEstateRuns.
    """
    try:
        name, origin = chosen()
        if name not in (None, contexts.LOCAL):
            found = contexts.read_contexts().find(name)
            return ControlPlane(found.url, contexts.token_of(name, found), f"context {name}, {origin}", name)
    except contexts.ContextInvalid as error:
        raise _refused(str(error)) from None
    return _of_variables() if name is None and origin in OF_VARIABLES else _estate()


def chosen() -> tuple[str | None, str]:
    """Return the selected context, or None, and the origin of the choice. Raises ContextInvalid."""
    flag, config = _flag.get(), settings()
    if flag is not None:
        return flag, "--context"
    if config.context is not None:
        return config.context, "TREELINE_CONTEXT"
    if config.url is not None:
        return None, "TREELINE_URL"
    if config.token is not None:
        return None, "TREELINE_TOKEN"
    if os.environ.get("TREELINE_HOME"):
        return None, "TREELINE_HOME"
    current = contexts.read_contexts().current
    return (None, "the default home") if current is None else (current, "in use")


def say_where(place: ControlPlane) -> None:
    """Print to stderr, before a change, which control plane the context leads to.

    A stored context is easily forgotten, unlike variables or options that were just given to a shell or a command.
    """
    if place.context is not None:
        typer.echo(f"This goes to {place.url} ({place.origin}).", err=True)


def _of_variables() -> ControlPlane:
    config = settings()
    if config.url is None:
        raise _refused(
            "TREELINE_TOKEN is set but TREELINE_URL is not; set it to the control plane's URL, name a context"
            " (--context, TREELINE_CONTEXT), or unset both."
        )
    if config.token is None:
        raise _refused("TREELINE_URL is set but TREELINE_TOKEN is not; set it to a bearer token.")
    try:
        token = contexts.check_token(config.token.get_secret_value())
    except contexts.ContextInvalid as error:
        raise _refused(f"TREELINE_TOKEN: {error}.") from None
    try:
        return ControlPlane(contexts.check_url(config.url), token, "TREELINE_URL")
    except contexts.ContextInvalid as error:
        raise _refused(f"TREELINE_URL: {error}.") from None


def _estate() -> ControlPlane:
    from backend.estate.home import Home
    from backend.estate.running import is_running, read_layout

    home = Home(settings().home)
    if not is_running(home):
        raise NoEstateRuns(
            f"No estate runs in {home.path}. Run `treeline up`, set TREELINE_URL and TREELINE_TOKEN, or choose a "
            "control plane by `treeline context use NAME`."
        )
    return ControlPlane(read_layout(home)["url"], home.secret("admin-token"), "the local estate")


def kafka_secret(cluster: str, key: str) -> str:
    """Return a secret that the API masks, as a reference that Kafka clients resolve."""
    config = settings()
    if config.kafka_password is not None:
        return config.kafka_password.get_secret_value()
    from backend.estate.home import Home
    from backend.estate.running import is_running, read_layout

    home = Home(config.home)
    if not is_running(home) or read_layout(home)["url"] != control_plane().url:
        raise _refused(f"{cluster} needs {key}: set TREELINE_KAFKA_PASSWORD.")
    return f"${{file:{home.secret_path('kafka-password')}}}"


def _refused(sentence: str) -> typer.Exit:
    typer.echo(sentence, err=True)
    return typer.Exit(Code.BAD_INPUT)
