"""The navigation that every page has: the side bar's pages by group, and the roles in the user menu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.domain.access.access import Action, Caller, may_somewhere
from backend.web.words.figures import counted

_MOST_MEMBERSHIPS = 4


@dataclass(frozen=True)
class NavigationPage:
    """A page of the side bar. `needs`: the permission, in some tenant at least, of those to whom it is offered."""

    name: str
    address: str
    needs: Action

    @property
    def glyph(self) -> str:
        """Return the id of its symbol in `glyphs.html`."""
        return f"page-{self.address.removeprefix('/')}"


@dataclass(frozen=True)
class PageGroup:
    """A group of the side bar. Without a name its pages have no heading."""

    name: str
    pages: Sequence[NavigationPage]


_ESTATE, _TENANT = Action.READ_ESTATE, Action.READ_TENANT
_GROUPS = (
    PageGroup("", (NavigationPage("Overview", "/overview", _TENANT),)),
    PageGroup(
        "Data",
        (
            NavigationPage("Tenants", "/tenants", _TENANT),
            NavigationPage("Schemas", "/schemas", _TENANT),
            NavigationPage("Groups", "/groups", _TENANT),
            NavigationPage("Offsets", "/offsets", _TENANT),
            NavigationPage("Trace", "/trace", _TENANT),
        ),
    ),
    PageGroup(
        "Estate",
        (
            NavigationPage("Tree", "/tree", _ESTATE),
            NavigationPage("Clusters", "/clusters", _ESTATE),
            NavigationPage("Placements", "/placements", _ESTATE),
            NavigationPage("Zones", "/zones", _ESTATE),
        ),
    ),
    PageGroup(
        "Operations",
        (
            NavigationPage("Switches", "/switches", _ESTATE),
            NavigationPage("Drills", "/drills", _ESTATE),
            NavigationPage("Losses", "/losses", _ESTATE),
            NavigationPage("Timeline", "/timeline", _TENANT),
            NavigationPage("Charts", "/charts", _TENANT),
        ),
    ),
    PageGroup(
        "Admin",
        (
            NavigationPage("Users", "/users", _ESTATE),
            NavigationPage("Webhooks", "/webhooks", _ESTATE),
            NavigationPage("Audit", "/audit", _ESTATE),
        ),
    ),
)


def pages_for(viewer: Caller) -> list[PageGroup]:
    """Return the groups with the pages that a viewer may see; a group without any is left out."""
    seen = (
        PageGroup(group.name, [page for page in group.pages if may_somewhere(viewer, page.needs)])
        for group in _GROUPS
    )
    return [group for group in seen if group.pages]


def roles_of(viewer: Caller) -> list[str]:
    """Return the viewer's role and memberships in words, of many memberships the first ones and a number."""
    roles = [f"Role: {viewer.role}"]
    named = sorted(viewer.tenants.items())
    roles += [f"{membership} of {tenant}" for tenant, membership in named[:_MOST_MEMBERSHIPS]]
    further = len(named) - _MOST_MEMBERSHIPS
    return [*roles, f"member of {counted(further, 'more tenant')}"] if further > 0 else roles
