"""The side bar: which pages it offers to whom, in which groups, each with its glyph."""

from __future__ import annotations

import pytest

from backend import web
from backend.domain.access.access import Caller, Membership, Role
from backend.settings import PROJECT_ROOT
from backend.web.frame.navigation import pages_for, roles_of

GLYPHS = (PROJECT_ROOT / "frontend/components/glyphs.html").read_text()
OF_TENANTS = {"": "Overview", "Data": "Tenants Schemas Groups Offsets Trace", "Operations": "Timeline Charts"}
OF_ESTATE = {
    "": "Overview",
    "Data": "Tenants Schemas Groups Offsets Trace",
    "Estate": "Tree Clusters Placements Zones",
    "Operations": "Switches Drills Losses Timeline Charts",
    "Admin": "Users Webhooks Audit",
}


@pytest.mark.parametrize(
    "role, tenants, offered",
    [
        (Role.TENANT, {}, {}),
        (Role.TENANT, {"acme": Membership.MEMBER}, OF_TENANTS),
        (Role.VIEWER, {}, OF_ESTATE),
        (Role.ADMIN, {}, OF_ESTATE),
    ],
)
def test_groups_have_the_pages_that_a_viewer_may_see(
    role: Role, tenants: dict[str, Membership], offered: dict[str, str]
) -> None:
    viewer = Caller(name="ada", role=role, tenants=tenants)
    found = {group.name: " ".join(page.name for page in group.pages) for group in pages_for(viewer)}
    assert found == offered


def test_each_page_exists_and_has_a_glyph_of_its_own() -> None:
    pages = [page for group in pages_for(Caller(name="ada", role=Role.ADMIN)) for page in group.pages]
    routers = [module.router for module in vars(web).values() if hasattr(module, "router")]
    routes = {route.path for router in routers for route in router.routes}
    assert {page.address for page in pages} <= routes
    assert all(f'<symbol id="{page.glyph}"' in GLYPHS for page in pages)
    assert len({page.glyph for page in pages}) == len(pages)


def test_the_user_menu_names_the_first_memberships_of_many() -> None:
    tenants = {f"t{number}": Membership.OWNER for number in range(7)}
    found = roles_of(Caller(name="ada", role=Role.TENANT, tenants=tenants))
    assert found == ["Role: tenant", *(f"owner of t{n}" for n in range(4)), "member of 3 more tenants"]
    assert roles_of(Caller(name="ada", role=Role.VIEWER)) == ["Role: viewer"]
