"""`treeline export`: a file without differences here, which creates the same control plane elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from backend.api.access import users
from backend.api.clusters import clusters
from backend.api.tenants import applications, streams, tenants
from backend.commands.shell import kinds
from backend.commands.shell.exporting import FIELDS
from backend.settings import settings
from tests.support.api.rest import NOBODY_LISTENS, TREE, new_database
from tests.support.api.shell import Shell, shell_of
from tests.support.database.postgres import Database, RunningPostgres

SECRET = "${env:C2_PASSWORD}"
DOWN = {"bootstrap_servers": NOBODY_LISTENS, "accept_offline": True}
PROPERTIES = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "treeline"}
FILE: dict[str, Any] = {
    "clusters": {
        # Numbers come in this order, and not by name.
        "c3": {**DOWN, "zone": "1e3", "topic_format": "{tenant}-{environment}-{instance}-{topic}"},
        "c2": {**DOWN, "properties": {**PROPERTIES, "sasl.password": SECRET}},
        "c1": {**DOWN, "group_format": "x.{tenant}.{instance}.{environment}.{group}"},
    },
    "primary": "c2",
    "tree": TREE,
    "tenants": {
        "acme": {
            "instances": {
                "retail": {
                    "environments": {
                        "dev": {"margin_seconds": 0, "offset_mode": "exact", "record_name_subjects": False},
                        "prod": {
                            "streams": {
                                # More than a page of the API.
                                **{f"s{number:04}": {"partitions": 1 + number % 3} for number in range(1005)},
                                "all": {
                                    "partitions": 7,
                                    "replication_factor": 3,
                                    "min_insync_replicas": 2,
                                    "retention_ms": -1,
                                    "cleanup_policy": "compact",
                                    "max_message_bytes": 2_000_000,
                                    "distributed": False,
                                },
                            },
                            "applications": {
                                "billing": {
                                    "groups": ["b", "A.1"],
                                    "produces": ["all", "s0001"],
                                    "consumes": ["on/1e3/2026-01-01/null", "acme/shop/prod/s0000"],
                                    "consumer_bytes_per_second": 5_000_000,
                                },
                                "idle": {"groups": [], "request_percentage": 50},
                            },
                        },
                    }
                },
                "shop": {"environments": {"prod": {"streams": {"s0000": None}}}},
                "new": None,
            }
        },
        "on": {"instances": {"1e3": {"environments": {"2026-01-01": {"streams": {"null": None}}}}}},
        "123": None,
    },
    "users": {
        "ada": {"tenants": {"acme": "owner", "on": "member"}},
        "bob": {"role": "viewer", "disabled": True, "tenants": {"acme": "member"}},
        "eve": {"role": "operator"},
    },
}
BILLING = "acme/retail/prod/billing"


@pytest.fixture
def shell(database: Database, tmp_path: Path) -> Iterator[Shell]:
    """Yield commands with an empty control plane."""
    with shell_of(database.url, tmp_path) as found:
        yield found


def exported(shell: Shell, *words: str) -> str:
    """Return what `export` writes; it prints no messages."""
    result = shell("export", *words)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    return result.stdout


def applied(shell: Shell, content: Any) -> None:
    result = shell("apply", "-f", shell.file(content))
    assert result.exit_code == 0, result.stderr


def loaded(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


def no_difference(shell: Shell, text: str) -> None:
    assert shell.json("diff", "-f", shell.file(text)) == []


def test_an_export_is_no_difference_here_and_makes_the_same_elsewhere(
    shell: Shell, postgres: RunningPostgres, tmp_path: Path
) -> None:
    no_difference(shell, exported(shell))  # of an empty control plane
    applied(shell, FILE)
    text = exported(shell)
    no_difference(shell, text)
    assert SECRET not in text
    found = loaded(text)
    assert [*found] == ["clusters", "primary", "tree", "tenants", "users"]
    assert [*found["clusters"]] == ["c3", "c2", "c1"]
    assert found["clusters"]["c2"]["properties"] == {**PROPERTIES, "sasl.password": "***"}
    assert found["tenants"]["123"] == {}
    retail = found["tenants"]["acme"]["instances"]["retail"]["environments"]
    assert retail["dev"] == FILE["tenants"]["acme"]["instances"]["retail"]["environments"]["dev"]
    assert len(retail["prod"]["streams"]) == 1006
    assert "\n              s0001: {partitions: 2, replication_factor: default, " in text
    _parts_of_it(shell, found["tenants"])
    _as_of_then(shell, text)

    with shell_of(new_database(postgres), tmp_path) as elsewhere:
        refused = elsewhere("apply", "-f", elsewhere.file(text))
        assert refused.exit_code == 2
        assert "sasl.password is a secret: give a reference" in refused.stderr
        applied(elsewhere, text.replace("'***'", f"'{SECRET}'"))
        assert exported(elsewhere) == text
        no_difference(elsewhere, text)


def _parts_of_it(shell: Shell, tenants: dict[str, Any]) -> None:
    """Check one tenant, instance, environment: the same content, and nothing else."""
    for place in ("acme", "acme/retail", "acme/retail/dev", "on/1e3/2026-01-01", "123"):
        text = exported(shell, place)
        no_difference(shell, text)
        found, whole = loaded(text), {"tenants": tenants}
        assert [*found] == ["tenants"]
        for section, name in zip(("tenants", "instances", "environments"), place.split("/"), strict=False):
            assert [*found[section]] == [name]
            found, whole = found[section][name], whole[section][name]
        assert found == whole


def _as_of_then(shell: Shell, text: str) -> None:
    head = loaded(shell("get", "cluster", "c1", "-o", "yaml").stdout)["position"]
    before = loaded(exported(shell, "--at", str(head)))
    assert ([*before], [*before["clusters"]]) == (["clusters"], ["c3", "c2", "c1"])
    assert "tenants" in loaded(text)


def test_what_needs_attention_is_told(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    prod = {
        "streams": {"orders": None, "gone": None},
        "applications": {"billing": {"produces": ["gone"], "consumes": ["orders"]}},
    }
    retail = {"instances": {"retail": {"environments": {"prod": prod}}}}
    bob = {"bob": {"tenants": {"acme": "owner"}}}
    few = {**FILE, "tenants": {"acme": retail, "globex": None}, "users": bob}
    applied(shell, few)
    assert shell("withdraw", BILLING, "acme/retail/prod/orders", "consume").exit_code == 0
    assert shell("delete", "stream", "acme/retail/prod/gone").exit_code == 0
    result = shell("export")
    assert result.exit_code == 0
    no_difference(shell, result.stdout)
    assert (
        f"if the user may grant it:\n  {BILLING}: consume acme/retail/prod/orders (withdrawn)\n" in result.stderr
    )
    assert (
        f"`apply` refuses new applications that name such streams:\n  {BILLING}: acme/retail/prod/gone\n"
        in result.stderr
    )

    issued = shell("token", "issue", "ci", "--user", "bob").stdout.strip()
    monkeypatch.setenv("TREELINE_TOKEN", issued)
    settings.cache_clear()
    mine = shell("export")
    assert mine.exit_code == 0
    assert "Left out: clusters, the tree, users and webhooks; this needs read-estate" in mine.stderr
    found = loaded(mine.stdout)
    assert found == {"tenants": {"acme": loaded(result.stdout)["tenants"]["acme"]}}
    no_difference(shell, mine.stdout)
    part = shell("export", "acme/retail")
    assert (part.exit_code, loaded(part.stdout)) == (0, found)
    assert "Left out" not in part.stderr
    for place, code, says in (
        ("globex", 1, "there is no tenant 'globex'"),
        ("acme/none", 1, "acme has no instance 'none'"),
        ("acme/retail/prod/orders", 2, "TENANT/INSTANCE/ENVIRONMENT, not acme/retail/prod/orders"),
    ):
        refused = shell("export", place)
        assert (refused.exit_code, refused.stdout) == (code, "")
        assert says in refused.stderr


@pytest.mark.parametrize(
    ("kind", "body", "left_out"),
    [
        (kinds.CLUSTER, clusters.NewCluster, {"accept_offline"}),
        (kinds.TENANT, tenants.NewTenant, set()),
        (kinds.INSTANCE, tenants.NewInstance, set()),
        (kinds.ENVIRONMENT, tenants.NewEnvironment, set()),
        (kinds.STREAM, streams.NewStream, set()),
        (kinds.APPLICATION, applications.NewApplication, set()),
        (kinds.USER, users.NewUser, set()),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_all_that_can_be_declared_is_exported(kind: kinds.Kind, body: type[BaseModel], left_out: set[str]) -> None:
    assert {"name", *left_out, *FIELDS[kind]} == set(body.model_fields)
