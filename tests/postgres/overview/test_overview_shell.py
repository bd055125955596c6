"""`treeline overview`: the same verdict as the page's, with an exit code for monitoring."""

from __future__ import annotations

from pathlib import Path

from backend.deciders import CLUSTER
from backend.domain.clusters.cluster import RecordOffline
from tests.postgres.overview.test_overview_page import in_order
from tests.support.api.shell import shell_of
from tests.support.console.consoles import Console
from tests.support.console.visitors import record
from tests.support.database.postgres import Database


def test_the_exit_code_tells_whether_there_is_a_problem(acme: Console, database: Database, tmp_path: Path) -> None:
    in_order(database)
    with shell_of(database.url, tmp_path) as shell:
        fine = shell("overview", "--check")
        assert fine.exit_code == 0 and "All 5 distributors in time" in fine.stderr
        record(database, RecordOffline(reason="refused"), CLUSTER, "cluster-c2")
        bad = shell("overview", "--check")
        assert bad.exit_code == 1 and bad.stderr.startswith("c2 is offline: refused.")
        assert "cluster-offline" in bad.stdout and "Start the brokers" in bad.stdout
        shown = shell.json("overview")
        assert shown["state"] == "critical" and shown["problems"][0]["way_out"]["address"] == "/clusters/c2"
        both = shell("overview", "--check", "--watch", "10")
        assert both.exit_code == 2 and "give one of them" in both.stderr
