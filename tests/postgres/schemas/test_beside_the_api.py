"""The registries within the whole application: clusters that nobody can reach, a real database, no Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from backend.api.app import create_app
from backend.queries.tree.trees import primary_for
from backend.registry.app import Registries, with_registries
from backend.registry.records import Content, SchemaVersion, VersionGone
from tests.eventually import eventually
from tests.support.api.callers import new_user
from tests.support.api.rest import NOBODY_LISTENS, TOKEN, Rest, rest_settings
from tests.support.database.postgres import Database


@pytest.fixture
def served(database: Database) -> Registries:
    """The application as it is served."""
    api = create_app(rest_settings(database.url))
    return with_registries(api, api.state.services)


@pytest.fixture
def rest(served: Registries) -> Iterator[Rest]:
    """Yield an API with three clusters in a tree whose primary is c1, and one outside of it."""
    with TestClient(served, raise_server_exceptions=False) as client:
        found = Rest(client)
        found.set_up()
        found.add_clusters("outside")
        yield found


def ask(rest: Rest, method: str, path: str, body: Any = None, **headers: str) -> Response:
    return rest(method, f"./registries/{path}", body, **headers)


@pytest.mark.nightly  # all other tests of REST
def test_everything_else_is_answered_as_before(rest):
    assert rest("GET", "/clusters").status_code == 200
    assert rest("GET", "./livez").json() == {"status": "alive"}
    assert rest("GET", "./nothing").headers["content-type"] == "application/problem+json"


def test_a_new_cluster_has_a_registry_at_once_and_a_removed_one_has_none(rest):
    assert ask(rest, "GET", "c9/subjects").status_code == 404
    rest.add_clusters("c9")
    assert ask(rest, "GET", "c9/contexts").status_code == 503
    assert rest("DELETE", "/clusters/c9").status_code == 204
    eventually(lambda: ask(rest, "GET", "c9/contexts").status_code == 404, "the registry is gone")


@pytest.mark.nightly  # a new cluster answers 503 in test_a_new_cluster_has
def test_a_cluster_that_was_never_read_says_so(rest):
    answer = ask(rest, "GET", "c1/subjects")
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50002)
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.nightly  # test_tenants has tokens of the registry
def test_the_admins_token_is_asked_for(rest):
    answer = ask(rest, "GET", "c1/subjects", Authorization="Bearer another")
    assert (answer.status_code, answer.json()["error_code"]) == (401, 401)
    assert TOKEN not in answer.text


def test_an_answer_that_is_kept_is_one_callers_and_goes_with_what_he_may_see(rest, served):
    environment = "/tenants/acme/instances/retail/environments/prod"
    for path, body in (("/tenants", {"name": "globex"}), (f"{environment}/streams", {"name": "orders"})):
        assert rest("POST", path, body).status_code == 201
    subject = "acme-retail-prod-orders-value"
    mirror = served.directory.find("c1").mirror
    with mirror.lock.writing():
        mirror.catalog.apply(SchemaVersion(subject=subject, version=1, id=1, content=Content(text='"string"')))
    mirror.ready = True
    ada, gil = new_user(rest, "ada", acme="member"), new_user(rest, "gil", globex="owner")

    def seen(user):
        return ask(user, "GET", "c1/subjects").json(), ask(user, "GET", "c1/schemas/ids/1").status_code

    for _ in range(3):
        assert seen(ada) == ([subject], 200)
        assert seen(gil) == ([], 404)
    assert rest("PATCH", "/users/gil", {"tenants": {"globex": "owner", "acme": "member"}}).status_code == 200
    assert seen(gil) == ([subject], 200)
    assert rest("PATCH", "/users/gil", {"tenants": {"globex": "owner"}}).status_code == 200
    assert seen(gil) == ([], 404)
    with mirror.lock.writing():
        mirror.catalog.apply(VersionGone(subject=subject, version=1))
        mirror._forget_answers()
    assert seen(ada) == ([], 404)
    assert rest("PATCH", "/users/ada", {"disabled": True}).status_code == 200
    assert ask(ada, "GET", "c1/subjects").status_code == 401


@pytest.mark.nightly  # a new cluster has a registry at once stays
def test_a_cluster_whose_address_changes_is_read_at_the_new_one(rest):
    ask(rest, "GET", "c1/subjects")
    changes = {"bootstrap_servers": f"{NOBODY_LISTENS},127.0.0.1:10", "accept_offline": True}
    assert rest("PATCH", "/clusters/c1", changes).status_code == 200
    eventually(lambda: ask(rest, "GET", "c1/subjects").status_code == 503, "it is read anew")


@pytest.mark.nightly  # tests/unit and registry/distribution
def test_the_primary_of_its_tree_writes_a_clusters_schemas_and_a_cluster_outside_its_own(rest, database):
    with database.engine.connect() as connection:
        found = {name: primary_for(connection, name) for name in ("c1", "c2", "c3", "outside")}
    assert found == {"c1": "c1", "c2": "c1", "c3": "c1", "outside": "outside"}
