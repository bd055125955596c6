"""Subjects that callers of a registry see, by the database's facts about users, streams and environments."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from backend.api.frame.services import Services
from backend.queries.schemas.subject_owners import registry_tenants
from backend.registry.access import CALLER_SECONDS, Access, Scope
from backend.registry.refusals import RegistryError
from tests.support.api.callers import As, new_user
from tests.support.api.rest import TOKEN, Rest, rest_settings
from tests.support.database.postgres import Database

ACME, GLOBEX = (f"/tenants/{tenant}/instances/retail/environments/prod" for tenant in ("acme", "globex"))


@pytest.fixture
def access(both: Rest, database: Database) -> Iterator[Access]:
    """acme has the stream orders, globex items; c4 is in no tree."""
    both.add_clusters("c4")
    services = Services(rest_settings(database.url))
    yield Access(services, services.config)
    services.engine.dispose()


def scope_of(access: Access, user: As, cluster: str = "c1") -> Scope:
    found = access.scope(f"Bearer {user.token}".encode(), cluster)
    assert found is not None
    return found


def refused(access: Access, token: str, cluster: str = "c1") -> int:
    with pytest.raises(RegistryError) as refusal:
        if access.at_hand(f"Bearer {token}".encode(), on_this_machine=True) is None:
            access.scope(f"Bearer {token}".encode(), cluster)
    return refusal.value.code


ORDERS, ITEMS, SHARED = "acme-retail-prod-orders-value", "globex-retail-prod-items-value", "com.all.Shared"


def test_each_tenant_sees_its_own_streams_subjects_and_shared_ones(rest, access):
    ada, gil = new_user(rest, "ada", acme="member"), new_user(rest, "gil", globex="owner")
    for user, mine, theirs in ((ada, ORDERS, ITEMS), (gil, ITEMS, ORDERS)):
        scope = scope_of(access, user)
        assert [scope.sees(each) for each in (mine, theirs, SHARED)] == [True, False, True]
    nobody = scope_of(access, new_user(rest, "ned"))
    assert not any(nobody.sees(each) for each in (ORDERS, ITEMS, SHARED))


def test_roles_of_the_estate_see_all_and_operators_are_not_asked_more(rest, access):
    vic, ola = new_user(rest, "vic", "viewer"), new_user(rest, "ola", "operator")
    assert scope_of(access, vic).sees_all
    assert access.scope(f"Bearer {ola.token}".encode(), "c1") is None
    assert access.at_hand(f"Bearer {TOKEN}".encode(), on_this_machine=False) is not None


def test_a_stream_that_was_deleted_leaves_its_subjects_to_its_tenant(rest, access):
    ada, gil = new_user(rest, "ada", acme="member"), new_user(rest, "gil", globex="owner")
    assert rest("DELETE", f"{GLOBEX}/streams/items?confirm=globex/retail/prod/items").is_success
    assert scope_of(access, gil).sees(ITEMS)
    assert not scope_of(access, ada).sees(ITEMS)


def test_what_is_declared_changed_or_taken_away_holds_for_the_next_request(rest, access):
    ada = new_user(rest, "ada", acme="owner")
    later = "acme-retail-prod-later-value"
    assert scope_of(access, ada).sees(SHARED)
    rest("PATCH", ACME, {"record_name_subjects": False})
    assert not scope_of(access, ada).sees(SHARED)
    assert not scope_of(access, ada).sees(later)
    rest("POST", f"{ACME}/streams", {"name": "later"})
    assert scope_of(access, ada).sees(later)
    rest("PATCH", "/users/ada", {"tenants": {}})
    assert not scope_of(access, ada).sees(ORDERS)
    rest("DELETE", "/users/ada/tokens/ci")
    assert refused(access, ada.token) == 401


def test_nobodys_tokens_are_refused(rest, access):
    ada = new_user(rest, "ada", acme="member")
    rest("PATCH", "/users/ada", {"disabled": True})
    for token in (ada.token, "treeline_unknown", "treeline_" + "x" * 300, "x", ""):
        assert refused(access, token) == 401


def test_a_cluster_of_no_tree_does_not_exist_for_tenants(rest, access):
    ada, vic = new_user(rest, "ada", acme="owner"), new_user(rest, "vic", "viewer")
    assert refused(access, ada.token, "c4") == refused(access, ada.token, "c9") == 404
    assert scope_of(access, vic, "c4").sees_all


def test_an_open_registry_asks_no_program_of_this_machine(database: Database):
    services = Services(rest_settings(database.url, registry_open=True, admin_token=SecretStr("x")))
    access = Access(services, services.config)
    assert access.at_hand(b"", on_this_machine=True) is not None
    with pytest.raises(RegistryError):
        access.at_hand(b"", on_this_machine=False)
    services.engine.dispose()


def test_names_by_former_formats_stay_their_tenants(rest, access, database: Database):
    rest("DELETE", f"{GLOBEX}/streams/items?confirm=globex/retail/prod/items")
    with database.engine.connect() as connection:
        found = registry_tenants(connection)
    stream = found.owners["c1"].stream_of(ITEMS)
    assert stream is not None and stream.tenant == "globex"
    assert found.record_names == {"acme", "globex"}


def test_names_of_streams_on_other_clusters_of_the_tree_are_kept(rest, access):
    """Names of deleted streams, and by former formats of a cluster, count as well."""
    ada, gil = new_user(rest, "ada", acme="member"), new_user(rest, "gil", globex="owner")
    for path in (
        f"{GLOBEX}/streams/items?confirm=globex/retail/prod/items",
        f"{ACME}/streams/orders?confirm=acme/retail/prod/orders",
    ):
        assert rest("DELETE", path).is_success
    theirs = ("globex-prod-items-value", "globex.items-value")
    assert all(scope_of(access, ada).sees(each) for each in theirs)
    for subject_format in ("{tenant}-{environment}-{topic}", "{tenant}.{topic}"):
        assert (answer := rest("PATCH", "/clusters/c2", {"subject_format": subject_format})).is_success, (
            answer.text
        )
    assert rest("POST", f"{ACME}/streams", {"name": "orders"}).status_code == 201
    for each in theirs:
        assert not scope_of(access, ada).sees(each)
        assert scope_of(access, gil).sees(each)
        for user in (ada, gil):
            with pytest.raises(RegistryError, match="cannot be a subject by record name"):
                scope_of(access, user).check_register(each, ())
    # On the cluster where a stream has the name, it is the stream's.
    scope_of(access, ada, "c2").check_register("acme.orders-value", ())


def test_who_asks_again_costs_one_statement_over_one_small_table(rest, access, database):
    ada = new_user(rest, "ada", acme="member")
    said: list[str] = []
    sa.event.listen(access._database.engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    first = asked(access, ada)
    said.clear()
    assert asked(access, ada).sees(ORDERS) and first.sees(ORDERS)
    assert len(said) == 1 and "projection_checkpoints" in said[0]
    # Of operators not even the names are read.
    ola = new_user(rest, "ola", "operator")
    for _ in range(2):
        said.clear()
        assert asyncio.run(access.asked(f"Bearer {ola.token}".encode(), "c1")) is None
    assert len(said) == 1
    # What has nothing to do with streams' names makes none be read anew.
    rest("POST", "/users", {"name": "bea"})
    said.clear()
    asked(access, ada)
    assert not any("streams" in each for each in said)


def test_what_is_revoked_is_so_for_the_next_request_of_every_process(rest, access, database):
    services = Services(rest_settings(database.url))
    ada = new_user(rest, "ada", acme="member")
    processes = (access, Access(services, services.config))
    for each in processes:
        assert asked(each, ada).sees(ORDERS)
    rest("PATCH", "/users/ada", {"tenants": {}})
    assert not any(asked(each, ada).sees(ORDERS) for each in processes)
    rest("DELETE", "/users/ada/tokens/ci")
    for each in processes:
        with pytest.raises(RegistryError):
            asked(each, ada)
    services.engine.dispose()


def test_a_token_that_expires_opens_nothing_after_a_second(rest, access, database):
    ada = new_user(rest, "ada", acme="member")
    asked(access, ada)
    with database.owner.begin() as connection:
        connection.execute(sa.text("UPDATE api_tokens SET expires_at = now() - interval '1 second'"))
    time.sleep(CALLER_SECONDS)
    with pytest.raises(RegistryError):
        asked(access, ada)


def asked(access: Access, user: As) -> Scope:
    found = asyncio.run(access.asked(f"Bearer {user.token}".encode(), "c1"))
    assert found is not None
    return found
