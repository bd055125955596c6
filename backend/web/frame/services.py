"""The services that pages need from their process; `backend.api.frame.services.Services` implements them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request
from sqlalchemy import Connection, Engine

from backend.dispatch import Dispatcher
from backend.domain.access.access import Caller
from backend.eventlog.listen import EventListener
from backend.registry.access import Access
from backend.registry.directory import Directory
from backend.settings import Settings
from backend.web.frame.forms import form_key
from backend.web.frame.navigation import pages_for, roles_of
from backend.web.frame.travel import travel


class ConsoleServices(Protocol):
    """Shared between requests, from start to end of the process.

    Pages do not import the API: both are leaves of one tree of layers, and either can be served without the other.
    """

    config: Settings
    engine: Engine
    dispatcher: Dispatcher
    listener: EventListener
    closing: threading.Event

    def reading(self) -> AbstractContextManager[Connection]:
        """Return a connection that sees one snapshot of the database."""

    def looking(self) -> AbstractContextManager[Connection]:
        """Return a connection for one statement."""


def _services(request: Request) -> ConsoleServices:
    services: ConsoleServices = request.app.state.services
    return services


def _viewer(request: Request) -> Caller | None:
    viewer: Caller | None = request.state.caller
    return viewer


Shared = Annotated[ConsoleServices, Depends(_services)]


class Registries(Protocol):
    """The schema registries that this process serves; `backend.registry.app.Registries` implements it."""

    directory: Directory
    access: Access


def _registries(request: Request) -> Registries:
    registries: Registries = request.app.state.registries
    return registries


SharedRegistries = Annotated[Registries, Depends(_registries)]
# The viewer; None without a session.
Viewer = Annotated[Caller | None, Depends(_viewer)]


def frame(request: Request, viewer: Caller) -> Mapping[str, Any]:
    """Return the context of every page: the viewer, the pages in the navigation, the key for forms."""
    return {
        "viewer": viewer.name,
        "viewer_roles": roles_of(viewer),
        "pages": pages_for(viewer),
        "current_page": f"/{request.url.path.split('/')[1] or 'overview'}",
        "form_key": form_key(request),
        "travel": travel(request),
    }
