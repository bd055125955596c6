"""Routes that are made once a process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastapi import APIRouter
from starlette.routing import BaseRoute


def shared_routes(routers: Iterable[APIRouter]) -> Sequence[BaseRoute]:
    """The routes of these, to be added to those of any number of applications.

    What an application includes by itself, it works out anew.
    """
    # Whether a body is JSON is judged by us, with a problem that says so.
    together = APIRouter(strict_content_type=False)
    for router in routers:
        together.include_router(router)
    return tuple(together.routes)
