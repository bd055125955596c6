"""Schemas by id are those that the stream's tenant sees; the catalog is given, and no cluster is asked."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from backend.domain.distribution.edges import Endpoint
from backend.domain.names.names import StreamName
from backend.domain.schemas.subjects import SubjectOwners
from backend.eventlog.engine import create_engine
from backend.messages import visible_schemas
from backend.messages.visible_schemas import VisibleSchemas
from backend.queries.schemas.subject_owners import RegistryTenants
from backend.registry.directory import Registry
from backend.registry.records import Reference
from tests.support.schemas.written_log import WrittenLog, avro, referring
from tests.unit.schemas.http_client import NOWHERE, OneCluster

OWNERS = SubjectOwners(
    {
        f"{tenant}-{name}": StreamName(tenant, "i", "e", name)
        for tenant, name in (("acme", "orders"), ("globex", "items"))
    },
    {},
)


class Tenants:
    """Owners of the subjects of c1; `asked` counts how often they are looked up."""

    def __init__(self) -> None:
        self.asked = 0

    def tenants(self) -> RegistryTenants:
        self.asked += 1
        return RegistryTenants((), {"c1": OWNERS}, frozenset({"acme"}))


@dataclass
class Served:
    """The registries of one process, of which only c1 has one."""

    directory: OneCluster
    access: Tenants
    log: WrittenLog
    registry: Registry

    def seen(self, tenant: str, cluster: str = "c1") -> VisibleSchemas:
        return VisibleSchemas(self, cluster, tenant)


@pytest.fixture
def served() -> Served:
    engine, log = create_engine(NOWHERE), WrittenLog()
    endpoint = Endpoint(name="c1", number=1, bootstrap_servers="127.0.0.1:9", properties={})
    registry = Registry(engine, endpoint, "_schemas")
    registry.mirror.catalog, registry.mirror.parser, registry.mirror.ready = log.catalog, log.parser, True
    return Served(OneCluster(engine, registry), Tenants(), log, registry)


def test_a_tenant_sees_its_own_schemas_and_shared_ones(served: Served) -> None:
    own = served.log.register("acme-orders-value", avro("a", name="Mine"))
    shared = served.log.register("com.all.Shared", avro("a", name="Shared"))
    theirs = served.log.register("globex-items-value", avro("b", name="Theirs"))
    acme, globex = served.seen("acme"), served.seen("globex")
    found = acme(own)
    assert found is not None and (found.format, found.schema, found.references) == (
        "AVRO",
        avro("a", name="Mine"),
        {},
    )
    assert acme(shared) is not None
    assert acme(theirs) is None
    assert globex(theirs) is not None
    assert globex(own) is None
    assert globex(shared) is None, "it has no environment that allows subjects by record name"


def test_references_come_with_their_names_those_they_need_first(served: Served) -> None:
    served.log.register("acme-orders-key", avro("a", name="A"))
    to_a = Reference(name="A", subject="acme-orders-key", version=1)
    served.log.register("acme-orders-b", referring("B", "A"), to_a)
    to_b = Reference(name="B", subject="acme-orders-b", version=1)
    found = served.seen("acme")(served.log.register("acme-orders-value", referring("C", "B"), to_b))
    assert found is not None
    assert list(found.references.items()) == [("A", avro("a", name="A")), ("B", referring("B", "A"))]


def test_a_schema_that_references_a_hidden_one_is_unknown(served: Served) -> None:
    served.log.register("globex-items-value", avro("b", name="Theirs"))
    hidden = Reference(name="Theirs", subject="globex-items-value", version=1)
    schema_id = served.log.register("acme-orders-value", referring("Mine", "Theirs"), hidden)
    assert served.seen("acme")(schema_id) is None


def test_an_id_that_is_looked_up_again_costs_nothing(served: Served) -> None:
    own = served.log.register("acme-orders-value", avro("a", name="Mine"))
    acme = served.seen("acme")
    assert [acme(own) is None, acme(99) is None, acme(own) is None, acme(98) is None] == [False, True, False, True]
    assert served.access.asked == 1


def test_an_unknown_id_is_looked_up_again_after_a_while(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    monkeypatch.setattr(visible_schemas, "_read_on", waits.append)
    acme = served.seen("acme")
    monkeypatch.setattr(visible_schemas, "UNKNOWN_SECONDS", 3_600.0)
    other = served.seen("acme")
    assert other(1) is None and other(2) is None and len(waits) == 1
    monkeypatch.setattr(visible_schemas, "UNKNOWN_SECONDS", 0.0)
    assert acme(1) is None and acme(1) is None and len(waits) == 3
    schema_id = served.log.register("acme-orders-value", avro("a", name="Mine"))
    assert schema_id == 1
    assert other(1) is None, "it is remembered to be unknown"
    found = acme(1)
    assert found is not None and acme(1) is found and len(waits) == 3


def test_elsewhere_no_id_is_known(served: Served) -> None:
    own = served.log.register("acme-orders-value", avro("a", name="Mine"))
    assert served.seen("acme", "c2")(own) is None
    assert VisibleSchemas(None, "c1", "acme")(own) is None


def test_a_registry_that_was_not_read_yet_and_does_not_answer_knows_none(served: Served) -> None:
    served.registry.mirror.ready, served.registry.mirror.reason = False, "it does not answer"
    served.registry.mirror.catalog = WrittenLog().catalog
    assert served.seen("acme")(1) is None
