"""Every REST path in the documentation is one of the API, a registry or the console."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backend.api.app import create_app
from backend.settings import Settings
from tests.project.docs.pages import pages, shown
from tests.support.console.gallery import routes

METHODS = "GET|POST|PUT|PATCH|DELETE"
NAMED = re.compile(rf"`(?:(?P<methods>(?:{METHODS})(?:(?:, | and |/)(?:{METHODS}))*) )?(?P<path>/[a-z…][^`\s]*)")
CALLED = re.compile(r"(?:\$U|\$TREELINE_URL|\$A)?(?P<path>/api/v1/[^\s\"'`)]+)")
OURS = re.compile(r"^/(api/v1/|[a-z][a-z-]+(/|$|:))")
# First segments of registries' routes, which are in no OpenAPI document.
REGISTRY = re.compile(r"^/(registries|subjects|schemas|config|mode|compatibility|contexts|v1/metadata)(/|$)")
# Paths that are no routes: files and folders, and those of other servers.
NOT_ROUTES = re.compile(r"^/(etc|run|dev|proc|sys|mnt|var|tmp|path|treeline|static|openapi\.json|openapi)(/|$|\.)")

MEANT_OTHERWISE = {
    "/api": "all routes",
    "/partitions/7/replicas/0": "a place in a body",
    "/placements/{id}/WORD": "each word of a table",
}


def pattern(path: str) -> re.Pattern[str]:
    return re.compile("".join("[^/]+" if part.startswith("{") else re.escape(part) for part in _parts(path)) + "$")


def _parts(path: str) -> list[str]:
    return [part for part in re.split(r"(\{[^}]*\})", path) if part]


API = [path.removeprefix("/api/v1") for path in create_app(Settings()).openapi()["paths"]]
KNOWN = [pattern(path) for path in (*API, *routes())]


def is_known(path: str) -> bool:
    plain = path.removeprefix("/api/v1").partition("?")[0].rstrip(".,;/") or "/"
    if "…" in plain or "..." in plain:
        ending = pattern(re.split("…|\\.\\.\\.", plain)[-1])
        return any(ending.search(each) for each in API) or REGISTRY.match(plain) is not None
    if plain.count("/") == 1 and any(each.endswith(plain) for each in API):
        return True  # `/switches/{id}/abort`, `/force`
    return any(each.match(plain) for each in KNOWN) or REGISTRY.match(plain) is not None


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_every_path_is_one(page: Path) -> None:
    text = page.read_text()
    named = {found["path"] for found in (*NAMED.finditer(text), *CALLED.finditer(text))}
    paths = {path for path in named - MEANT_OTHERWISE.keys() if OURS.match(path) and not NOT_ROUTES.match(path)}
    unknown = sorted(path for path in paths if not is_known(path))
    assert not unknown, unknown


@pytest.mark.parametrize("path", ["/api/v1/clusterz", "/trees/main/nothing/here/at-all", "/…/moons"])
def test_what_is_none_is_found(path: str) -> None:
    assert not is_known(path)
