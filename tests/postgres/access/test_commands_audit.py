"""`treeline audit` against a running control plane."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from tests.support.api.shell import shell_of
from tests.support.database.postgres import Database


def test_the_audit_is_listed_filtered_and_exported(database: Database, tmp_path: Path) -> None:
    with shell_of(database.url, tmp_path) as shell:
        document = {"tenants": {"acme": {}, "globex": {}}, "users": {"ada": {"role": "viewer"}}}
        applied = shell("apply", "-f", shell.file(document))
        assert applied.exit_code == 0, applied.stderr
        found = shell.json("audit", "--kind", "TenantCreated")
        assert [(item["tenant"], item["agent"]) for item in found] == [
            ("globex", "treeline-cli"),
            ("acme", "treeline-cli"),
        ]
        assert shell.json("audit", "--tenant", "acme", "--actor", "admin", "--since", "2020-01-01") == found[1:]
        assert len(shell.json("audit", "--limit", "1")) == 1
        assert "TenantCreated" in shell("audit").stdout
        lines = shell("audit", "export", "--kind", "TenantCreated").stdout.splitlines()
        assert [json.loads(line) for line in lines] == found
        table = shell("audit", "export", "--form", "csv", "--actor", "admin").stdout
        assert {row["means"] for row in csv.DictReader(io.StringIO(table))} == {"token of the settings"}
        refused = shell("audit", "--since", "yesterday")
        assert (refused.exit_code, "since" in refused.stderr) == (2, True)
        assert shell("audit", "export", "--form", "pdf").exit_code == 2
