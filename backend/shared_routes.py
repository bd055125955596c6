"""Routes that are built once per process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastapi import APIRouter
from starlette.routing import BaseRoute


def shared_routes(routers: Iterable[APIRouter]) -> Sequence[BaseRoute]:
    """Return the routes of these routers, to be added to any number of applications.

    An application that includes a router by itself builds its routes anew, which is slow.
    """
    # We check ourselves whether a body is JSON, and answer with a problem that says so.
    together = APIRouter(strict_content_type=False)
    for router in routers:
        together.include_router(router)
    return tuple(together.routes)
