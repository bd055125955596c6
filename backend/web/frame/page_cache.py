"""Cache for pages that many viewers request in the same second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import Request

from backend.single_flight import CachedAnswers

_SECONDS = 1.0
_MOST = 100
"""Maximum cached pages; more than are requested within one second."""


def cached(request: Request, name: str, read: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the result of `read`, at most a second old; concurrent requests share one read.

    It must be the same for all viewers. Errors of `read` are raised and not cached.
    """
    state = request.app.state
    if not hasattr(state, "page_cache"):
        state.page_cache = CachedAnswers[Mapping[str, Any]](_SECONDS, _MOST)
    answers: CachedAnswers[Mapping[str, Any]] = state.page_cache
    return answers.get(name, read)
