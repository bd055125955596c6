"""Reading configuration: as of an earlier position, and lists page by page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api.applications import APPLICATIONS, HOME, ITEMS, declare
from tests.support.api.callers import new_token, new_user
from tests.support.api.rest import Rest

ENVIRONMENTS = "/tenants/acme/instances/retail/environments"
LISTS = (
    "/clusters",
    "/users",
    "/users/bob/tokens",
    "/tenants",
    "/tenants/acme/instances",
    ENVIRONMENTS,
    f"{HOME}/streams",
    APPLICATIONS,
    "/tenants/acme/members",
    "/tenants/globex/grants",
)


@pytest.fixture
def before(both: Rest) -> int:
    """Return the position before each of the lists got one item more."""
    new_user(both, "bob")
    position = both.head()
    new_user(both, "ada", acme="member")
    new_token(both, "bob", "other")
    both.add_clusters("c4")
    named = {"/tenants": "initech", "/tenants/acme/instances": "wholesale", ENVIRONMENTS: "dev"}
    for path, name in {**named, f"{HOME}/streams": "payments"}.items():
        assert both("POST", path, {"name": name}).status_code == 201
    declare(both, consumes=[ITEMS])
    return position


def test_every_list_shows_what_held_at_an_earlier_position(both: Rest, before: int) -> None:
    for path in LISTS:
        now, then = (both("GET", f"{path}{query}").json()["items"] for query in ("", f"?at={before}"))
        assert len(now) == len(then) + 1, path


def test_what_lies_beyond_a_page_is_reached_by_its_cursor(both: Rest, before: int) -> None:
    for path in LISTS:
        found: list[Any] = []
        cursor: str | None = ""
        while cursor is not None:
            page = both("GET", f"{path}?limit=1{cursor}").json()
            assert len(page["items"]) == 1, path
            found += page["items"]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        assert found == both("GET", path).json()["items"], path


@pytest.mark.parametrize(
    ("path", "change"), [(HOME, {"offset_mode": "exact"}), ("/users/bob", {"role": "viewer"})]
)
def test_one_thing_is_shown_as_it_was(both: Rest, path: str, change: dict[str, str]) -> None:
    new_user(both, "bob")
    then, position = both("GET", path).json(), both.head()
    assert both("PATCH", path, change).status_code == 200
    assert both("GET", path).json() != then
    assert both("GET", f"{path}?at={position}").json() == then
