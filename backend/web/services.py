"""What pages need of the process that serves them; `backend.api.services.Services` is it."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Annotated, Protocol

from fastapi import Depends, Request
from sqlalchemy import Connection

from backend.eventlog.listen import EventListener


class ConsoleServices(Protocol):
    """Shared between requests, from start to end of the process. (Pages do not import the API: both are leaves
    of one tree of layers, and either can be served without the other.)"""

    listener: EventListener
    closing: threading.Event

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection that sees one moment of the database."""


def _services(request: Request) -> ConsoleServices:
    services: ConsoleServices = request.app.state.services
    return services


def _viewer(request: Request) -> str | None:
    actor: str | None = request.state.actor
    return actor


Shared = Annotated[ConsoleServices, Depends(_services)]
# Who looks; None without a session.
Viewer = Annotated[str | None, Depends(_viewer)]
