"""Two tenants at one registry: each sees and changes its own subjects, and nothing tells of the other's.

The catalog is given and no cluster is asked; who the callers are is looked up on a database in
tests/postgres/schemas/test_registry_access.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from backend.domain.access.access import Caller, Membership, Role
from backend.domain.names.names import StreamName
from backend.domain.schemas.subjects import SubjectOwners
from backend.registry import refusals
from backend.registry.access import Access, Scope
from backend.registry.deleting import delete_subject
from backend.registry.records import ConfigSet, ModeSet, Reference
from backend.registry.registering import Decision
from backend.registry.routes import ROUTES
from tests.support.schemas.written_log import WrittenLog, avro, referring
from tests.unit.schemas.http_client import Client, refused

OWNERS = SubjectOwners(
    {
        f"{tenant}-{name}": StreamName(tenant, "i", "e", name)
        for tenant, name in (("acme", "orders"), ("globex", "items"))
    },
    {"globex-old": StreamName("globex", "i", "e", "old")},
    # What streams are called by another cluster's format.
    {
        "orders": StreamName("acme", "i", "e", "orders"),
        "items": StreamName("globex", "i", "e", "items"),
        "old": StreamName("globex", "i", "e", "old"),
    },
)
CALLERS = {
    "acme": Caller(name="ada", role=Role.TENANT, tenants={"acme": Membership.MEMBER}),
    "acme-owner": Caller(name="otto", role=Role.TENANT, tenants={"acme": Membership.OWNER}),
    "globex": Caller(name="gil", role=Role.TENANT, tenants={"globex": Membership.OWNER}),
    "strict": Caller(name="sue", role=Role.TENANT, tenants={"strict": Membership.MEMBER}),
    "nobody": Caller(name="ned", role=Role.TENANT),
    "viewer": Caller(name="vic", role=Role.VIEWER),
}
SECRET = "Confidential"
"""A word in all of globex's schemas, which must be in no answer to acme."""


class Known(Access):
    """The token is the name of a caller above; all but `strict` have an environment that allows record names."""

    def at_hand(self, authorization: bytes, *, on_this_machine: bool) -> Caller | None:
        return None

    async def asked(self, authorization: bytes, cluster: str) -> Scope | None:
        name = authorization.decode().removeprefix("Bearer ")
        if name == "admin":
            return None
        if name not in CALLERS:
            raise refusals.no_token()
        return Scope(CALLERS[name], OWNERS, frozenset({"acme", "globex"}))


class Tenants:
    def __init__(self) -> None:
        self.log = log = WrittenLog()
        self.mine = log.register("acme-orders-value", avro("a", name="Mine"))
        self.shared = log.register("com.all.Shared", avro("a", name="Shared"))
        self.theirs = log.register("globex-items-value", avro("b", name=SECRET))
        log.register("globex-items-value", avro("b", "c?", name=SECRET))
        log.register(
            "globex-items-key",
            referring(f"{SECRET}User", SECRET),
            Reference(name=SECRET, subject="globex-items-value", version=1),
        )
        log.register("globex-old-value", avro("o", name=f"{SECRET}Old"))
        log.register("globex-items-gone", avro("g", name=f"{SECRET}Gone"))
        log.write(delete_subject, "globex-items-gone", permanent=False)
        self.client = Client(log, Known, registry_open=False)

    def __call__(self, who: str, method: str, path: str, body: Any = None) -> Any:
        return self.client(method, path, body, Authorization=f"Bearer {who}")

    def get(self, who: str, path: str) -> Any:
        answer = self(who, "GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def tenants() -> Tenants:
    return Tenants()


THEIRS, OURS, UNKNOWN = "globex-items-value", "acme-orders-value", "com.nobody.Unknown"
SCHEMA = {"schema": avro("b", name=SECRET)}


def test_lists_have_what_is_theirs_and_what_is_shared(tenants):
    assert tenants.get("acme", "/subjects?deleted=true") == [OURS, "com.all.Shared"]
    assert tenants.get("strict", "/subjects") == []
    assert tenants.get("nobody", "/subjects") == []
    assert tenants.get("globex", "/subjects") == ["com.all.Shared", "globex-items-key", THEIRS, "globex-old-value"]
    assert tenants.get("viewer", "/subjects") == tenants.get("admin", "/subjects")
    assert len(tenants.get("viewer", "/subjects")) == 5
    assert tenants.get("acme", "/subjects?subjectPrefix=globex") == []
    assert tenants.get("acme", "/subjects?limit=1&offset=1") == ["com.all.Shared"]
    assert [row["subject"] for row in tenants.get("acme", "/schemas?deleted=true")] == [OURS, "com.all.Shared"]
    assert tenants.get("acme", "/schemas?subjectPrefix=globex&latestOnly=true") == []


def test_answers_are_not_kept_for_others(tenants):
    whole = tenants.get("admin", "/subjects")
    assert tenants.get("acme", "/subjects") != whole
    assert tenants.get("admin", "/subjects") == whole
    assert tenants.get("strict", "/subjects") == []


def test_an_id_is_theirs_if_one_of_its_subjects_is(tenants):
    refused(tenants("acme", "GET", f"/schemas/ids/{tenants.theirs}"), 404, 40403)
    assert tenants.get("acme", f"/schemas/ids/{tenants.mine}")["schema"] == avro("a", name="Mine")
    assert tenants.get("acme", f"/schemas/ids/{tenants.shared}")["schema"] == avro("a", name="Shared")
    assert tenants.get("acme", f"/schemas/ids/{tenants.mine}?fetchMaxId=true")["maxId"] == tenants.shared
    # The same text is one schema: who has it, too, sees his own subject only.
    same = {"schema": avro("b", name=SECRET)}
    assert tenants("acme", "POST", "/subjects/acme-orders-key/versions", same).json()["id"] == tenants.theirs
    assert tenants.get("acme", f"/schemas/ids/{tenants.theirs}/subjects") == ["acme-orders-key"]
    assert tenants.get("acme", f"/schemas/ids/{tenants.theirs}/versions") == [
        {"subject": "acme-orders-key", "version": 1}
    ]
    given = tenants.get("acme", f"/schemas/ids/{tenants.theirs}?subject={THEIRS}")
    assert "subject" not in given


REQUESTS: dict[str, list[tuple[str, str, Any]]] = {
    "": [("GET", "/", None)],
    "schemas": [("GET", "/schemas?subjectPrefix={}", None)],
    "schemas/types": [("GET", "/schemas/types", None)],
    "schemas/ids/{}": [("GET", "/schemas/ids/{id}", None)],
    "schemas/ids/{}/schema": [("GET", "/schemas/ids/{id}/schema", None)],
    "schemas/ids/{}/subjects": [("GET", "/schemas/ids/{id}/subjects", None)],
    "schemas/ids/{}/versions": [("GET", "/schemas/ids/{id}/versions", None)],
    "subjects": [("GET", "/subjects?subjectPrefix={}&deleted=true", None)],
    "subjects/{subject}": [
        ("POST", "/subjects/{}", SCHEMA),
        ("DELETE", "/subjects/{}", None),
        ("DELETE", "/subjects/{}?permanent=true", None),
    ],
    "subjects/{subject}/versions": [("GET", "/subjects/{}/versions?deleted=true", None)],
    "subjects/{subject}/versions/{}": [
        ("GET", "/subjects/{}/versions/1", None),
        ("GET", "/subjects/{}/versions/latest", None),
        ("DELETE", "/subjects/{}/versions/1", None),
    ],
    "subjects/{subject}/versions/{}/schema": [("GET", "/subjects/{}/versions/1/schema", None)],
    "subjects/{subject}/versions/{}/referencedby": [("GET", "/subjects/{}/versions/1/referencedby", None)],
    "compatibility/subjects/{subject}/versions": [
        ("POST", "/compatibility/subjects/{}/versions?verbose=true", {"schema": '"int"'})
    ],
    "compatibility/subjects/{subject}/versions/{}": [
        ("POST", "/compatibility/subjects/{}/versions/latest?verbose=true", {"schema": '"int"'}),
        ("POST", "/compatibility/subjects/{}/versions/1", {"schema": '"int"'}),
    ],
    "config": [("GET", "/config", None)],
    "config/{subject}": [
        ("GET", "/config/{}", None),
        ("GET", "/config/{}?defaultToGlobal=true", None),
        ("PUT", "/config/{}", {"compatibility": "NONE"}),
        ("DELETE", "/config/{}", None),
    ],
    "mode": [("GET", "/mode", None)],
    "mode/{subject}": [
        ("GET", "/mode/{}", None),
        ("GET", "/mode/{}?defaultToGlobal=true", None),
        ("PUT", "/mode/{}", {"mode": "READONLY"}),
        ("DELETE", "/mode/{}", None),
    ],
    "contexts": [("GET", "/contexts", None)],
    "v1/metadata/id": [("GET", "/v1/metadata/id", None)],
    "v1/metadata/version": [("GET", "/v1/metadata/version", None)],
}
"""Requests of a tenant's user for every path; `{}` stands for a subject, `{id}` for a schema's id."""


def test_every_path_is_tried():
    assert REQUESTS.keys() == ROUTES.keys()


@pytest.mark.parametrize("path", REQUESTS)
def test_another_tenants_subject_is_as_one_that_nobody_has(tenants, path):
    tenants.log.decide(lambda catalog, _: settled(THEIRS), str)
    before = list(tenants.log.entries)
    for method, template, body in REQUESTS[path]:
        found = []
        for subject, schema_id in ((THEIRS, tenants.theirs), (UNKNOWN, 999), ("globex-old-value", 5)):
            answer = tenants("acme", method, template.replace("{id}", str(schema_id)).replace("{}", subject), body)
            text = answer.text.replace(subject, "SUBJECT").replace(f"Schema {schema_id} ", "Schema ID ")
            found.append((answer.status_code, text))
        assert found[0] == found[1] == found[2], (method, template)
        assert SECRET not in found[0][1] or body == SCHEMA
        assert "globex" not in found[0][1]
    assert tenants.log.entries == before


def settled(subject):
    return Decision(
        (
            ConfigSet(subject=subject, fields={"compatibilityLevel": "FULL"}),
            ModeSet(subject=subject, mode="READONLY"),
        ),
        None,
    )


def test_registering_under_anothers_subject_is_refused_and_tells_nothing_but_that(tenants):
    body = {"schema": avro("x", name="New")}
    refused(tenants("acme", "POST", f"/subjects/{THEIRS}/versions", body), 404, 40401)
    refused(tenants("acme", "POST", f"/subjects/{THEIRS}/versions", SCHEMA), 404, 40401)
    # Who may use no subjects by record name cannot even tell theirs from nobody's.
    told = [
        tenants("strict", "POST", f"/subjects/{each}/versions", body).json()["message"].replace(each, "")
        for each in (THEIRS, UNKNOWN)
    ]
    assert told[0] == told[1]
    assert "record_name_subjects" in refused(
        tenants("strict", "POST", f"/subjects/{UNKNOWN}/versions", body), 422, 422
    )


def test_references_to_anothers_schemas_are_to_what_is_not_registered(tenants):
    reference = {"name": SECRET, "subject": THEIRS, "version": 1}
    body = {"schema": referring("Mine2", SECRET), "references": [reference]}
    unknown = {**body, "references": [{**reference, "subject": UNKNOWN}]}
    for path in (
        "/subjects/acme-orders-x/versions",
        f"/subjects/{OURS}",
        f"/compatibility/subjects/{OURS}/versions",
    ):
        told = [tenants("acme", "POST", path, each) for each in (body, unknown)]
        assert [each.status_code for each in told] == [422, 422]
        assert told[0].json()["message"].replace(THEIRS, UNKNOWN) == told[1].json()["message"]


def test_members_write_their_own_and_owners_delete(tenants):
    wider = {"schema": avro("a", "b?", name="Mine")}
    assert tenants("acme", "POST", f"/subjects/{OURS}/versions", wider).status_code == 200
    assert tenants("acme", "PUT", f"/config/{OURS}", {"compatibility": "FULL"}).status_code == 200
    assert tenants("acme", "DELETE", f"/config/{OURS}").status_code == 200
    assert tenants("acme", "PUT", f"/mode/{OURS}", {"mode": "READWRITE"}).status_code == 200
    assert "acme" in refused(tenants("acme", "DELETE", f"/subjects/{OURS}/versions/1"), 403, 40302)
    refused(tenants("acme", "DELETE", f"/subjects/{OURS}"), 403, 40302)
    assert tenants("acme-owner", "DELETE", f"/subjects/{OURS}/versions/1").json() == 1
    assert tenants("acme-owner", "DELETE", f"/subjects/{OURS}").json() == [2]
    assert tenants("acme-owner", "DELETE", f"/subjects/{OURS}?permanent=true").json() == [1, 2]


def test_an_incompatible_schema_of_ones_own_is_told(tenants):
    assert "incompatible" in refused(
        tenants("acme", "POST", f"/subjects/{OURS}/versions", {"schema": avro("z", name="Mine")}), 409, 409
    )


def test_what_is_shared_is_read_and_registered_and_nothing_else(tenants):
    new = {"schema": avro("a", "b?", name="Shared")}
    assert tenants("acme", "POST", "/subjects/com.all.Shared/versions", new).status_code == 200
    assert tenants.get("globex", "/subjects/com.all.Shared/versions") == [1, 2]
    assert tenants("acme", "POST", "/subjects/com.acme.New/versions", {"schema": '"int"'}).status_code == 200
    for who in ("acme", "acme-owner", "globex"):
        refused(tenants(who, "DELETE", "/subjects/com.all.Shared"), 403, 40302)
        refused(tenants(who, "PUT", "/config/com.all.Shared", {"compatibility": "NONE"}), 403, 40302)
    reference = {"name": "Mine", "subject": OURS, "version": 1}
    body = {"schema": referring("Public", "Mine"), "references": [reference]}
    assert "record name" in refused(tenants("acme", "POST", "/subjects/com.all.Public/versions", body), 422, 42201)


@pytest.mark.parametrize("subject", ["items-value", "items-eu-value", "old-value"])
def test_what_a_stream_is_called_on_another_cluster_is_no_shared_subject(tenants, subject):
    body = {"schema": '"long"'}
    for who in ("acme", "acme-owner", "globex"):
        told = refused(tenants(who, "POST", f"/subjects/{subject}/versions", body), 422, 42208)
        assert "globex" not in told and "acme" not in told
    assert tenants("strict", "POST", f"/subjects/{subject}/versions", body).status_code == 422
    assert tenants("admin", "POST", f"/subjects/{subject}/versions", body).status_code == 200
    for who, sees in (("acme", False), ("strict", False), ("globex", True), ("viewer", True)):
        assert (subject in tenants.get(who, "/subjects")) == sees
        assert tenants(who, "GET", f"/subjects/{subject}/versions").status_code == (200 if sees else 404)
    refused(tenants("acme", "DELETE", f"/subjects/{subject}"), 404, 40401)
    refused(tenants("globex", "DELETE", f"/subjects/{subject}"), 403, 40302)


def test_shared_subjects_do_not_refer_to_what_others_do_not_see(tenants):
    assert tenants("admin", "POST", "/subjects/items-value/versions", SCHEMA).status_code == 200
    reference = {"name": SECRET, "subject": "items-value", "version": 1}
    body = {"schema": referring("Public", SECRET), "references": [reference]}
    assert "record name" in refused(tenants("globex", "POST", "/subjects/com.all.X/versions", body), 422, 42201)
    refused(tenants("acme", "POST", "/subjects/com.all.X/versions", body), 422, 42201)


def test_names_that_only_look_like_a_streams_are_shared(tenants):
    for subject in ("items", "itemsets-value", "x-items-value", "com.items-value"):
        body = {"schema": '"long"'}
        assert tenants("acme", "POST", f"/subjects/{subject}/versions", body).status_code == 200
        assert subject in tenants.get("globex", "/subjects")


def test_what_holds_for_all_subjects_is_read_by_all_and_set_by_operators(tenants):
    for who in ("acme-owner", "viewer", "nobody"):
        assert tenants.get(who, "/config")["compatibilityLevel"] == "BACKWARD"
        for method, path, body in (
            ("PUT", "/config", {"compatibility": "NONE"}),
            ("DELETE", "/config", None),
            ("PUT", "/mode", {"mode": "READONLY"}),
            ("DELETE", "/mode", None),
        ):
            refused(tenants(who, method, path, body), 403, 40302)
    assert tenants("admin", "PUT", "/config", {"compatibility": "NONE"}).status_code == 200


def test_ids_are_not_brought_along_by_tenants(tenants):
    refused(tenants("acme-owner", "PUT", f"/mode/{OURS}?force=true", {"mode": "import"}), 403, 40302)
    body = {"schema": '"long"', "id": 2**31 - 1, "version": 9}
    refused(tenants("acme", "POST", f"/subjects/{OURS}/versions", body), 403, 40302)


def test_in_mode_import_ids_are_an_operators_too(tenants):
    assert tenants("admin", "PUT", "/mode?force=true", {"mode": "IMPORT"}).status_code == 200
    body = {"schema": avro("i", name="Imported"), "id": 900, "version": 7}
    for who in ("acme", "acme-owner"):
        for subject in (OURS, THEIRS, UNKNOWN):
            path = f"/subjects/{subject}/versions?force=true"
            assert "operators" in refused(tenants(who, "POST", path, body), 403, 40302)
    assert tenants("admin", "POST", f"/subjects/{OURS}/versions", body).json() == {"id": 900}


def test_who_only_reads_writes_nothing(tenants):
    for who in ("viewer", "nobody"):
        for subject in (OURS, "com.all.Shared", UNKNOWN):
            answer = tenants(who, "POST", f"/subjects/{subject}/versions", {"schema": '"long"'})
            assert answer.status_code in (403, 404), answer.text
    refused(tenants("viewer", "DELETE", f"/subjects/{OURS}"), 403, 40302)
    assert tenants.get("viewer", f"/subjects/{THEIRS}/versions") == [1, 2]


def test_a_deleted_streams_subjects_stay_its_tenants(tenants):
    assert "globex-old-value" in tenants.get("globex", "/subjects")
    refused(tenants("acme", "GET", "/subjects/globex-old-value/versions"), 404, 40401)


def test_nobodys_token_is_refused(tenants):
    assert json.loads(tenants("a-stranger", "GET", "/subjects").content)["error_code"] == 401
