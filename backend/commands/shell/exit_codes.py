"""What the program's exit codes mean: one table for all commands, shown in docs/cli.md."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Code(IntEnum):
    """How a command ended."""

    OK = 0
    NOT_SO = 1
    BAD_INPUT = 2
    CONFLICT = 3
    AWAY = 4
    NOT_ALLOWED = 5
    INTERRUPTED = 130


MEANINGS: Mapping[Code, tuple[str, str]] = {
    Code.OK: ("done, or so it is", "nothing"),
    Code.NOT_SO: (
        "what was asked for is not so, or not there: it differs, is missing, failed, was taken back",
        "read what stderr says of it",
    ),
    Code.BAD_INPUT: (
        "wrong use: words, options, files, settings or contexts, or content that is refused (400, 422)",
        "mend what the message names",
    ),
    Code.CONFLICT: (
        "a conflict with what runs, is kept, or was changed meanwhile (409, 412)",
        "look at it again (`get`, `describe`), then decide",
    ),
    Code.AWAY: (
        "the control plane does not answer, or cannot at the moment, as what it needs is away (429, 5xx)",
        "try again later; `treeline context show` tells which one was asked",
    ),
    Code.NOT_ALLOWED: (
        "not logged in, or not allowed to do this (401, 403)",
        "`treeline whoami`; another token, or somebody who may do it",
    ),
    Code.INTERRUPTED: ("interrupted (Ctrl-C); how `--watch` and `--follow` end", "nothing"),
}
"""For each code: what it says, and what to do."""

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
    """The code that says what a refusal by the REST API does."""
    return Code.AWAY if status >= 500 else _OF_STATUS.get(status, Code.NOT_SO)
