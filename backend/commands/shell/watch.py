"""`--watch`: repeat a command's output whenever it changes.

In a terminal it is redrawn in place. Elsewhere each change is one document: a line of JSON, a document of YAML, or
a table. A control plane that restarts is waited for. Ctrl-C ends the command with 130, a closed reader with 0.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from backend.commands.shell.exit_codes import Code
from backend.commands.shell.output import Form, Shown, console, listed
from backend.commands.shell.rest import ControlPlaneAway, asking, fail, pages, rest_client

if TYPE_CHECKING:
    import httpx2

LOOK_SECONDS = 2.0
ANSWER_SECONDS = 10.0
"""Timeout in seconds; a slower answer is requested again, so that one lost request does not delay the next for
minutes."""
_AGES = frozenset({"age_seconds", "silent_ms", "still_ms"})
"""Fields that differ in every answer without any change in state."""

WatchOption = Annotated[
    float | None,
    typer.Option(
        "--watch",
        "-w",
        min=0.1,
        max=3600,
        metavar="[SECONDS]",
        help=f"Repeat the output whenever it changes, polling every {LOOK_SECONDS:g} or so many seconds; "
        "Ctrl-C ends it (exit code 130).",
    ),
]


class WatchCommand(TyperCommand):
    """Command whose `--watch` needs no value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_seconds(args))


class WatchGroup(TyperGroup):
    """Group that is a command itself, whose `--watch` needs no value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_seconds(args))


def _with_seconds(args: list[str]) -> list[str]:
    """Add the default seconds to a bare `-w`, as the parser does not support options with an optional value."""
    found: list[str] = []
    for number, each in enumerate(args):
        if each == "--":
            return [*found, *args[number:]]
        found.append(each)
        if each in ("-w", "--watch") and not _is_number(args[number + 1 : number + 2]):
            found.append(str(LOOK_SECONDS))
    return found


def _is_number(words: list[str]) -> bool:
    try:
        return bool(words) and float(words[0]) is not None
    except ValueError:
        return False


def present(look: Callable[[httpx2.Client], Shown], form: Form, every: float | None) -> None:
    """Show the control plane's answer; with `every` seconds, repeat it until the user ends the command."""
    if every is None:
        with rest_client() as client:
            found = look(client)
        found.write(form)
        return

    def looked() -> Shown:
        with asking(ANSWER_SECONDS) as client:
            return look(client)

    follow(looked, form, every)


def present_list(path: str, columns: Sequence[str], form: Form, every: float | None) -> None:
    """Show all items of a list; with `every` seconds, repeat it."""

    def look(client: httpx2.Client) -> Shown:
        items = pages(client, path, {})
        return Shown(answer=listed(items), columns=columns, rows=items)

    present(look, form, every)


def follow(look: Callable[[], Shown], form: Form, every: float) -> NoReturn:
    """Show each answer that differs from the one before.

    If `look` raises ControlPlaneAway, it is repeated, provided that it ever succeeded; otherwise the program ends
    with that message, since the URL may be wrong. The program ends with 0 when the reader is gone: `treeline
    status -w -o json | head -1`.
    """
    screen = _Screen(form)
    while True:
        try:
            found = look()
        except ControlPlaneAway as away:
            if not screen.has_shown:
                fail(str(away), away.code)
            screen.say_away(str(away))
        else:
            try:
                screen.show(found)
            except BrokenPipeError:
                _end_unread()
        if _reader_leaves(every):
            _end_unread()


def _reader_leaves(within_seconds: float) -> bool:
    """Wait for so long, or until the reader of stdout is gone: without changes, no write would reveal that."""
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):  # captured inside this process
        time.sleep(within_seconds)
        return False
    poll = select.poll()
    poll.register(output, 0)  # errors and hang-ups are reported without being requested
    return bool(poll.poll(within_seconds * 1000))


def _end_unread() -> NoReturn:
    # Whatever is still buffered would be written when the program ends, and fail once more.
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    raise typer.Exit(Code.OK)


class _Screen:
    """Output of a watch, and its current contents."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._draws = form is Form.TABLE and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._last: Any = None
        self._said: tuple[str, ...] = ()
        self._away: str | None = None
        self.has_shown = False

    def show(self, found: Shown) -> None:
        if self._away is not None and not self._draws:
            typer.echo("The control plane responds again.", err=True)
        self._away = None
        if self._draws:
            self._draw(found)
            return
        answer = _lasting(found.answer)
        is_new = not self.has_shown or answer != self._last
        self._last, self.has_shown = answer, True
        if not is_new:
            return
        if tuple(found.told) != self._said:
            self._said = tuple(found.told)
            for line in found.told:
                typer.echo(line, err=True)
        if self._form is Form.JSON:
            typer.echo(json.dumps(found.answer))
        elif self._form is Form.YAML:
            import yaml

            typer.echo(
                yaml.safe_dump(found.answer, sort_keys=False, allow_unicode=True, explicit_start=True), nl=False
            )
        else:
            found.draw(console())
        sys.stdout.flush()

    def say_away(self, sentence: str) -> None:
        """Report an outage once: first a connection breaks, then there is none, which is one outage."""
        if self._away is None:
            self._away = sentence
            typer.echo(f"{sentence}\nTrying again.", err=True)

    def _draw(self, found: Shown) -> None:
        """Redraw in place: overwriting, so that nothing flickers, and no further than the last line."""
        made = console()
        with made.capture() as captured:
            made.print(f"{time.strftime('%H:%M:%S')}, press Ctrl-C to end", style="dim", highlight=False)
            for line in found.told:
                made.print(line, markup=False, highlight=False)
            found.draw(made)
        lines = captured.get().splitlines()
        most = max(made.size.height - 2, 1)
        if len(lines) > most:
            lines = [*lines[: most - 1], f"and {len(lines) - most + 1} more lines: the window is too small"]
        start = "\x1b[H" if self.has_shown else "\x1b[2J\x1b[H"
        self.has_shown = True
        typer.echo(start + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J", nl=False)


def _lasting(answer: Any) -> Any:
    """Return an answer without the fields that differ every time."""
    if isinstance(answer, dict):
        return {name: _lasting(value) for name, value in answer.items() if name not in _AGES}
    return [_lasting(each) for each in answer] if isinstance(answer, list) else answer
