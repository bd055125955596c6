"""`treeline verify` on the real estate."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from backend.cli import app
from backend.settings import settings
from backend.verification import run
from tests.nightly import some_now
from tests.support.api.rest import TOKEN
from tests.support.console.consoles import serve_here


@pytest.mark.nightly  # the quickstart and test_worker_killed run it; flags of copies: test_trace
def test_the_default_estate_shows_the_contracts_flags_on_cluster_1(estate):
    run = estate.treeline("verify", "--records", "1000", "--json")
    assert run.returncode == 0, run.stderr + run.stdout
    answer = json.loads(run.stdout)
    assert answer["ok"]
    assert answer["stream"] == "_treeline.verify"
    assert set(answer["clusters"]) == {f"cluster-{n}" for n in range(1, 6)}
    for report in answer["clusters"].values():
        assert (report["expected"], report["distinct"]) == (5000, 5000)
        assert (report["missing"], report["duplicates"], report["out_of_order"]) == (0, 0, 0)
    assert answer["clusters"]["cluster-1"]["flags"] == {"0000": 1000, "0010": 2000, "0100": 1000, "0110": 1000}


@pytest.mark.nightly  # the same command on the default stream stays
def test_a_tenants_stream_can_be_verified_among_its_records(estate):
    run = estate.treeline("verify", "--stream", "acme/retail/prod/orders", "--records", "50", "--json")
    assert run.returncode == 0, run.stderr + run.stdout
    answer = json.loads(run.stdout)
    assert answer["stream"] == "acme/retail/prod/orders"
    assert answer["clusters"]["cluster-5"]["distinct"] == 250


@some_now("stream, code", [("nobody/retail/prod/orders", 1), ("orders", 2), ("a/b/c/d/e", 2), ("", 2)], now=(0,))
def test_an_unknown_stream_is_refused_with_a_sentence(estate, stream, code):
    run = estate.treeline("verify", "--stream", stream, "--json")
    assert run.returncode == code
    assert run.stdout == ""
    assert run.stderr.strip()


@some_now("records", ["0", "-1", "1000001", "many"], now=(0,))
def test_a_wrong_number_of_records_is_refused(estate, records):
    assert estate.treeline("verify", "--records", records).returncode == 2


def test_a_run_that_found_something_wrong_ends_with_1_and_says_what(grown, database, monkeypatch):
    """Clusters that are down are the cheapest failure to produce."""
    monkeypatch.setattr(run, "_OFFLINE_SECONDS", 0.0)
    with serve_here(database.url) as console:
        monkeypatch.setenv("TREELINE_URL", console.url)
        monkeypatch.setenv("TREELINE_TOKEN", TOKEN)
        settings.cache_clear()
        table = CliRunner().invoke(app, ["verify"])
        document = CliRunner().invoke(app, ["verify", "--json"])
    settings.cache_clear()
    assert (table.exit_code, document.exit_code) == (1, 1)
    assert "c1, c2, c3: offline" in table.stderr
    assert json.loads(document.stdout)["ok"] is False
