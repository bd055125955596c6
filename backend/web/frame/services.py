"""The services that pages need from their process; `backend.api.frame.services.Services` implements them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request
from sqlalchemy import Connection, Engine

from backend.dispatch import Dispatcher
from backend.domain.access.access import Action, Caller, may, may_somewhere
from backend.eventlog.listen import EventListener
from backend.registry.access import Access
from backend.registry.directory import Directory
from backend.settings import Settings
from backend.web.frame.forms import form_key
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


def pages_for(viewer: Caller) -> list[tuple[str, str]]:
    """Return name and address of the pages that a viewer may see."""
    estate, tenants = may(viewer, Action.READ_ESTATE), may_somewhere(viewer, Action.READ_TENANT)
    offered = [("Overview", "/overview", tenants)]
    offered += [("Tree", "/tree", estate), ("Clusters", "/clusters", estate), ("Tenants", "/tenants", tenants)]
    offered += [("Schemas", "/schemas", tenants), ("Groups", "/groups", tenants)]
    offered += [("Offsets", "/offsets", tenants)]
    offered += [("Switches", "/switches", estate), ("Placements", "/placements", estate)]
    offered += [("Timeline", "/timeline", tenants), ("Charts", "/charts", tenants)]
    offered += [("Trace", "/trace", tenants), ("Zones", "/zones", estate)]
    offered += [("Drills", "/drills", estate), ("Webhooks", "/webhooks", estate), ("Users", "/users", estate)]
    return [(name, address) for name, address, seen in offered if seen]


def frame(request: Request, viewer: Caller) -> Mapping[str, Any]:
    """Return the context of every page: the viewer, the pages in the navigation, the key for forms."""
    here = f"/{request.url.path.split('/')[1] or 'overview'}"
    return {
        "viewer": viewer.name,
        "pages": [(name, address, address == here) for name, address in pages_for(viewer)],
        "at_account": here == "/account",
        "form_key": form_key(request),
        "travel": travel(request),
    }
