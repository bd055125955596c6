"""Access to pages; without it, the viewer gets the login page or a page with the reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from backend.callers import STATUS
from backend.domain.access.access import Action, Caller, may, may_somewhere, refusal
from backend.domain.base.errors import DomainError, NotFound
from backend.domain.names.names import is_name
from backend.eventlog.faults import DatabaseUnavailable
from backend.web.frame import templates
from backend.web.frame.login_page import login_page
from backend.web.frame.requested_position import NoSuchPosition, no_such_position
from backend.web.frame.services import frame

_LOG_IN = "You need to log in to see this page."


class LoginNeeded(Exception):
    """The viewer is not logged in."""


def entering(request: Request, viewer: Caller | None, action: Action) -> Response | None:
    """Return None if the viewer may see a page with this permission, else the page to show instead."""
    if viewer is None:
        return login_page(request, 401, _LOG_IN)
    refused = refusal(viewer, action)
    return None if refused is None else refused_page(request, viewer, refused)


def enter(viewer: Caller | None, action: Action, tenant: str | None = None) -> Caller:
    """Return the viewer, who has this permission (in the tenant). Raises LoginNeeded, NotAllowed, NotFound.

    `PageRoute` handles these errors.
    """
    if viewer is None:
        raise LoginNeeded
    refused = refusal(viewer, action, tenant)
    if refused is not None:
        raise refused
    return viewer


def enter_in_some_tenant(viewer: Caller | None, action: Action) -> Caller:
    """Return the viewer, who has this permission in at least one tenant: the page shows that part.

    Raises as `enter` does.
    """
    if viewer is not None and may_somewhere(viewer, action):
        return viewer
    return enter(viewer, action)


def may_still(request: Request, action: Action, tenant: str | None = None) -> bool:
    """Return whether the viewer of a page that goes on may still see it.

    Without a database the last answer holds: nothing new is shown anyway, or what the viewer could see before.
    """
    try:
        viewer: Caller | None = request.state.find_caller()
    except DatabaseUnavailable:
        return True
    return viewer is not None and may(viewer, action, tenant)


def refused_page(request: Request, viewer: Caller, error: DomainError) -> Response:
    """Return the page that shows an error in place of the requested page."""
    return message_page(request, viewer, error.title, error.detail, STATUS[error.kind])


def message_page(request: Request, viewer: Caller, title: str, message: str, status: int) -> Response:
    """Return a page with the reason of a refusal and a link."""
    way = ("/tenants", "Tenants") if may_somewhere(viewer, Action.READ_TENANT) else ("/account", "Your account")
    told = {"title": title, "message": message, "way": way, "is_refused": True}
    return templates.page("message.html", {**frame(request, viewer), **told}, status)


class PageRoute(APIRoute):
    """Route of a page, whose handler may raise the domain's errors and LoginNeeded.

    It may raise NoSuchPosition once its viewer is admitted. Impossible names in its path are unknown before they
    reach the database.
    """

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            viewer: Caller | None = request.state.caller
            try:
                if viewer is not None:
                    _check_names(request.path_params, viewer)
                return await handle(request)
            except LoginNeeded:
                return login_page(request, 401, _LOG_IN)
            except NoSuchPosition as why:
                assert viewer is not None
                return no_such_position(request, viewer, why)
            except DomainError as error:
                return (
                    login_page(request, 401, _LOG_IN) if viewer is None else refused_page(request, viewer, error)
                )

        return shown


_OF_THE_ESTATE = ("switch", "placement", "cluster", "webhook")
_NAMES = ("tenant", "instance", "environment", "stream", "application", "user")


def _check_names(parts: Mapping[str, Any], viewer: Caller) -> None:
    for kind in _OF_THE_ESTATE:
        value = parts.get(kind)
        if isinstance(value, str) and not is_name(value):
            raise refusal(viewer, Action.READ_ESTATE) or NotFound(f"there is no {kind} {value[:60]!r}")
    for name in _NAMES:
        value = parts.get(name)
        if isinstance(value, str) and not is_name(value):
            unknown = refusal(viewer, Action.READ_TENANT, parts["tenant"])
            raise unknown or NotFound(f"there is no {name} {value[:60]!r}")


@dataclass(frozen=True)
class Offer:
    """A link that a page offers. `refused`: why its viewer may not use it; it is shown without the link then."""

    label: str
    address: str
    refused: str | None


def offer(viewer: Caller, action: Action, tenant: str | None, label: str, address: str) -> Offer:
    """Return an offer for this viewer."""
    refused = refusal(viewer, action, tenant)
    return Offer(label, address, None if refused is None else refused.detail)


def reasons(offers: Iterable[Offer]) -> list[str]:
    """Return the reasons of the refused offers, each once."""
    return list(dict.fromkeys(each.refused for each in offers if each.refused is not None))
