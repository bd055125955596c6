"""Exit codes of the program: one table for all commands, shown in docs/cli.md."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Code(IntEnum):
    """Exit code of a command."""

    OK = 0
    NOT_SO = 1
    BAD_INPUT = 2
    CONFLICT = 3
    AWAY = 4
    NOT_ALLOWED = 5
    INTERRUPTED = 130


MEANINGS: Mapping[Code, tuple[str, str]] = {
    Code.OK: ("done, or already so", "nothing"),
    Code.NOT_SO: (
        "the requested state was not found or not reached: it differs, is missing, failed or was rolled back",
        "read the explanation on stderr",
    ),
    Code.BAD_INPUT: (
        "wrong usage: arguments, options, files, settings or contexts, or content that is refused (400, 422)",
        "correct what the message names",
    ),
    Code.CONFLICT: (
        "a conflict with something that runs, is stored or was changed meanwhile (409, 412)",
        "read the resource again (`get`, `describe`), then decide",
    ),
    Code.AWAY: (
        "the control plane does not respond, or is unavailable because a dependency is down (429, 5xx)",
        "try again later; `treeline context show` shows which control plane was used",
    ),
    Code.NOT_ALLOWED: (
        "not logged in, or not permitted (401, 403)",
        "check `treeline whoami`; use another token, or ask an authorised user",
    ),
    Code.INTERRUPTED: ("interrupted (Ctrl-C); how `--watch` and `--follow` end", "nothing"),
}
"""For each code: its meaning, and what to do."""

_OF_STATUS: Mapping[int, Code] = {
    400: Code.BAD_INPUT,
    401: Code.NOT_ALLOWED,
    403: Code.NOT_ALLOWED,
    409: Code.CONFLICT,
    412: Code.CONFLICT,
    422: Code.BAD_INPUT,
    429: Code.AWAY,
}


def code_of(status: int) -> Code:
    """Return the exit code for a status with which the REST API refused."""
    return Code.AWAY if status >= 500 else _OF_STATUS.get(status, Code.NOT_SO)
