"""Asking the REST API from the shell, and what to say when it does not answer as hoped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from backend.commands.shell import local
from backend.commands.shell.exit_codes import Code, code_of
from backend.commands.shell.ways import in_commands
from backend.url_schemes import scheme_of

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 5.0
# Some answers take as long as the log is long (verification, a rebuild).
ANSWER_SECONDS = 600.0
ASKS_ONLY = {"asks_only": True}
"""Extensions of a request that changes nothing, though it is no GET."""


class ControlPlaneAway(Exception):
    """It does not answer, or says that it cannot at the moment; the message says which and how."""

    def __init__(self, sentence: str, code: int = Code.AWAY) -> None:
        self.code = code
        super().__init__(sentence)


def fail(sentence: str, code: int = Code.NOT_SO) -> NoReturn:
    """Tell why on stderr and end with an exit code of `exit_codes`."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


@contextmanager
def rest_client() -> Iterator[httpx2.Client]:
    """A client whose paths are below /api/v1; failures end the program with a sentence."""
    try:
        with asking() as client:
            yield client
    except ControlPlaneAway as away:
        fail(str(away), away.code)


@contextmanager
def asking(
    answer_seconds: float = ANSWER_SECONDS, connect_seconds: float = CONNECT_SECONDS
) -> Iterator[httpx2.Client]:
    """The same for who goes on without an answer. Raises ControlPlaneAway."""
    import httpx2

    try:
        place = local.control_plane()
    except local.NoEstateRuns as none:
        raise ControlPlaneAway(str(none), Code.BAD_INPUT) from None
    url = place.url.rstrip("/")
    # The audit says by what something was done.
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
            trust_env=False,  # the environment's proxies are for the world outside, not for a control plane here
            # Without need, to read all certificates is a tenth of a command's time.
            verify=scheme_of(url) != "http",
        ) as client:
            yield client
    except httpx2.TransportError as error:
        raise ControlPlaneAway(f"The control plane at {url} ({place.origin}) does not answer: {error}") from error
    except httpx2.InvalidURL as error:
        fail(f"{url!r} ({place.origin}) is not an address: {error}", Code.BAD_INPUT)


def _changes_something(request: httpx2.Request) -> bool:
    is_asked_only = (
        request.method == "GET" or request.url.path.endswith("/plan") or "asks_only" in request.extensions
    )
    return not is_asked_only and request.url.params.get("dry_run") != "true"


def answer(response: httpx2.Response, called: Callable[[str], str] = str) -> Any:
    """The JSON of a success; a problem ends the program with what it says.

    `called` makes of a place in the request what the user calls it. Raises ControlPlaneAway.
    """
    if response.is_success:
        try:
            return response.json()
        except ValueError:
            fail(f"{response.url} answers, but not as Treeline does: is this the control plane?", Code.BAD_INPUT)
    if response.has_redirect_location:
        location = response.headers["Location"]
        fail(f"{response.url} leads to {location}: give the control plane's address as it is.", Code.BAD_INPUT)
    code = code_of(response.status_code)
    try:
        problem = response.json()
        # What is wrong with a parameter has no place in a body, and stands in the detail.
        wrong = [error for error in problem.get("errors", []) if "parameter" not in error]
        places = [f"  {called(error['pointer'])}: {error['detail']}" for error in wrong]
        sentence = in_commands("\n".join([_said(problem["title"], problem.get("detail")), *places]))
    except (ValueError, KeyError, TypeError):
        sentence = f"The control plane answered {response.status_code}, not as Treeline does."
    if response.status_code == 401:
        sentence += "\n`treeline context show` tells what was asked, and where its token is from."
    if code is Code.AWAY:
        raise ControlPlaneAway(sentence)
    fail(sentence, code)


def _said(title: str, detail: str | None) -> str:
    if not detail:
        return title
    return f"{title} {detail}" if title.endswith((".", "!", "?", ":")) else f"{title}: {detail}"


def done(response: httpx2.Response) -> None:
    """End the program with what a refusal says, where a success says nothing."""
    if not response.is_success:
        answer(response)


def pages(client: httpx2.Client, path: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All items of a list."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = answer(client.get(path, params={**params, **cursor}))
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = {"cursor": page["next_cursor"]}
