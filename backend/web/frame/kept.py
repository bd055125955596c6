"""What many look at in the same second, read once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import Request

from backend.kept import KeptByName

_SECONDS = 1.0
_MOST = 100
"""More pages than are looked at in one second."""


def kept(request: Request, name: str, read: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What `read` gives, at most a second old; who asks while it is being read waits for that. It must be the same
    for all viewers. What `read` raises is raised, and nothing is kept.
    """
    state = request.app.state
    if not hasattr(state, "kept"):
        state.kept = KeptByName[Mapping[str, Any]](_SECONDS, _MOST)
    answers: KeptByName[Mapping[str, Any]] = state.kept
    return answers.get(name, read)
