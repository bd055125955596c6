"""Requests to the REST API from the command line, and messages about failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from backend.commands.shell import local
from backend.commands.shell.exit_codes import Code, code_of
from backend.commands.shell.rest_hints import in_commands
from backend.url_schemes import scheme_of

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 5.0
# Some answers take as long as the log is long (verification, a rebuild).
ANSWER_SECONDS = 600.0
ASKS_ONLY = {"asks_only": True}
"""Extensions of a request that is no GET but changes nothing."""


class ControlPlaneAway(Exception):
    """The control plane does not respond or is unavailable; the message says which one and how."""

    def __init__(self, sentence: str, code: int = Code.AWAY) -> None:
        self.code = code
        super().__init__(sentence)


def fail(sentence: str, code: int = Code.NOT_SO) -> NoReturn:
    """Print a message to stderr and exit with a code of `exit_codes`."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


@contextmanager
def rest_client() -> Iterator[httpx2.Client]:
    """Yield a client whose paths are below /api/v1; failures end the program with a message."""
    try:
        with asking() as client:
            yield client
    except ControlPlaneAway as away:
        fail(str(away), away.code)


@contextmanager
def asking(
    answer_seconds: float = ANSWER_SECONDS, connect_seconds: float = CONNECT_SECONDS
) -> Iterator[httpx2.Client]:
    """Yield the same client for callers that can go on without an answer. Raises ControlPlaneAway."""
    import httpx2

    try:
        place = local.control_plane()
    except local.NoEstateRuns as none:
        raise ControlPlaneAway(str(none), Code.BAD_INPUT) from None
    url = place.url.rstrip("/")
    # The audit log records the program that made a request.
    headers = {"Authorization": f"Bearer {place.token}", "User-Agent": "treeline-cli"}
    timeout = httpx2.Timeout(answer_seconds, connect=connect_seconds)
    unsaid = [place]

    def say_where(request: httpx2.Request) -> None:
        if unsaid and _changes_something(request):
            local.say_where(unsaid.pop())

    try:
        with httpx2.Client(
            base_url=f"{url}/api/v1",
            headers=headers,
            event_hooks={"request": [say_where]},
            timeout=timeout,
            trust_env=False,  # the environment's proxies are for external hosts, not for a control plane here
            # Loading all certificates takes a tenth of a second of a command's time; only done if needed.
            verify=scheme_of(url) != "http",
        ) as client:
            yield client
    except httpx2.TransportError as error:
        raise ControlPlaneAway(f"The control plane at {url} ({place.origin}) does not respond: {error}") from error
    except httpx2.InvalidURL as error:
        fail(f"{url!r} ({place.origin}) is not a valid URL: {error}", Code.BAD_INPUT)


def _changes_something(request: httpx2.Request) -> bool:
    is_asked_only = (
        request.method == "GET" or request.url.path.endswith("/plan") or "asks_only" in request.extensions
    )
    return not is_asked_only and request.url.params.get("dry_run") != "true"


def answer(response: httpx2.Response, called: Callable[[str], str] = str) -> Any:
    """Return the JSON of a success; a problem ends the program with its message.

    `called` translates a place in the request into the user's name for it. Raises ControlPlaneAway.
    """
    if response.is_success:
        try:
            return response.json()
        except ValueError:
            fail(
                f"{response.url} did not return a Treeline response; check the control plane's URL.",
                Code.BAD_INPUT,
            )
    if response.has_redirect_location:
        location = response.headers["Location"]
        fail(f"{response.url} leads to {location}: give the control plane's own URL.", Code.BAD_INPUT)
    code = code_of(response.status_code)
    try:
        problem = response.json()
        # An invalid parameter has no place in a body; the detail describes it.
        wrong = [error for error in problem.get("errors", []) if "parameter" not in error]
        places = [f"  {called(error['pointer'])}: {error['detail']}" for error in wrong]
        sentence = in_commands("\n".join([_said(problem["title"], problem.get("detail")), *places]))
    except (ValueError, KeyError, TypeError):
        sentence = f"The control plane returned status {response.status_code}, but no Treeline response."
    if response.status_code == 401:
        sentence += "\\n`treeline context show` shows which control plane was used, and where its token is from."
    if code is Code.AWAY:
        raise ControlPlaneAway(sentence)
    fail(sentence, code)


def _said(title: str, detail: str | None) -> str:
    if not detail:
        return title
    return f"{title} {detail}" if title.endswith((".", "!", "?", ":")) else f"{title}: {detail}"


def done(response: httpx2.Response) -> None:
    """End the program with the message of a refusal; do nothing on success."""
    if not response.is_success:
        answer(response)


def pages(client: httpx2.Client, path: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all items of a list."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = answer(client.get(path, params={**params, **cursor}))
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = {"cursor": page["next_cursor"]}
