"""Asking the REST API from the shell, and what to say when it does not answer as hoped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from backend.commands import local

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 5.0
# Some answers take as long as the log is long (verification, a rebuild).
ANSWER_SECONDS = 600.0


def fail(sentence: str, code: int = 1) -> NoReturn:
    """Tell why on stderr and end with an exit code: 1 did not work, 2 bad input."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


@contextmanager
def rest_client() -> Iterator[httpx2.Client]:
    """A client whose paths are below /api/v1; failures end the program with a sentence."""
    import httpx2

    url, token = local.control_plane()
    url = url.rstrip("/")
    # The audit says by what something was done.
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "treeline-cli"}
    timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    with httpx2.Client(
        base_url=f"{url}/api/v1",
        headers=headers,
        timeout=timeout,
        trust_env=False,  # the environment's proxies are for the world outside, not for a control plane here
        verify=url.startswith("https:"),  # without need, to read all certificates is a tenth of a command's time
    ) as client:
        try:
            yield client
        except httpx2.TransportError as error:
            fail(f"The control plane at {url} does not answer: {error}")
        except httpx2.InvalidURL as error:
            fail(f"TREELINE_URL is not an address: {error}", 2)


def answer(response: httpx2.Response, called: Callable[[str], str] = str) -> Any:
    """The JSON of a success; a problem ends the program with what it says.

    `called` makes of a place in the request what the user calls it.
    """
    if response.is_success:
        return response.json()
    try:
        problem = response.json()
        places = [f"  {called(error['pointer'])}: {error['detail']}" for error in problem.get("errors", [])]
        sentence = "\n".join([f"{problem['title']} {problem.get('detail') or ''}".strip(), *places])
    except (ValueError, KeyError, TypeError):
        sentence = f"The control plane answered {response.status_code}, not as Treeline does."
    fail(sentence, 2 if response.status_code in (400, 422) else 1)


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
