"""`treeline verify` on the real estate."""

from __future__ import annotations

import json

import pytest


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


def test_a_tenants_stream_can_be_verified_among_its_records(estate):
    run = estate.treeline("verify", "--stream", "acme/retail/prod/orders", "--records", "50", "--json")
    assert run.returncode == 0, run.stderr + run.stdout
    answer = json.loads(run.stdout)
    assert answer["stream"] == "acme/retail/prod/orders"
    assert answer["clusters"]["cluster-5"]["distinct"] == 250


@pytest.mark.parametrize(
    ("stream", "code"), [("nobody/retail/prod/orders", 1), ("orders", 2), ("a/b/c/d/e", 2), ("", 2)]
)
def test_an_unknown_stream_is_refused_with_a_sentence(estate, stream, code):
    run = estate.treeline("verify", "--stream", stream, "--json")
    assert run.returncode == code
    assert run.stdout == ""
    assert run.stderr.strip()


@pytest.mark.parametrize("records", ["0", "-1", "1000001", "many"])
def test_a_wrong_number_of_records_is_refused(estate, records):
    assert estate.treeline("verify", "--records", records).returncode == 2
