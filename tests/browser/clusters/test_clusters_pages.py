"""Clusters: the list and one of them, now and as they were; what a cluster's secrets are is shown nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browser.switch.test_switch_pictures import folder as folder
from tests.browser.switch.test_switch_pictures import taken
from tests.eventually import eventually
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, head, rows, said, visitor

PAGE = "/clusters"
PROPERTIES = {
    "security.protocol": "SASL_SSL",
    "sasl.username": "u",
    "sasl.password": "${env:C1_PASSWORD}",
}


@pytest.fixture
def viewer(acme: Console) -> Visitor:
    return visitor(acme, "viewer")


def test_without_any_it_says_how_to_have_one(console: Console) -> None:
    page = visitor(console, "viewer").get(PAGE)
    assert "0 clusters No clusters yet. Add the first one , or apply a file with treeline apply -f" in said(page)


def test_each_is_listed_with_its_state_and_what_it_is_for(acme: Console, viewer: Visitor) -> None:
    acme.rest.ok(
        "POST", "/clusters", {"name": "spare", "bootstrap_servers": "127.0.0.1:8", "accept_offline": True}
    )
    found = rows(viewer.get(PAGE), "data-cluster")
    assert list(found) == ["c1", "c2", "c3", "spare"]
    assert found["c1"] == "c1 1 offline – – the primary 2 – 0 –"
    assert found["c2"] == "c2 2 offline – – a leaf 0 – 0 –"
    assert found["spare"] == "spare 4 offline – – no 0 – 0 –"
    page = viewer.get(PAGE)
    assert "4 clusters 4 offline" in said(page) and "Connection refused" in said(page)


def test_one_says_what_it_is_and_what_reads_and_writes_it(acme: Console, viewer: Visitor) -> None:
    page = viewer.get(f"{PAGE}/c1")
    text = said(page)
    assert "In the tree the primary Number in copy origins 1" in text
    assert "Topics {tenant}-{instance}-{environment}-{topic}" in text and "None: Treeline connects without" in text
    assert list(rows(page, "data-distributor-row")) == ["c1:2", "c2:2", "c3:2"]
    assert "acme/retail/prod globex/shop/prod" in text
    assert viewer.get(f"{PAGE}/c2").text.count('href="/tenants/acme') == 0


def test_as_it_was(acme: Console, viewer: Visitor) -> None:
    before = head(acme)["position"]
    acme.rest.ok("PATCH", f"{PAGE}/c1", {"zone": "az9", "accept_offline": True})
    assert "Zone az9" in said(viewer.get(f"{PAGE}/c1"))
    page = viewer.get(f"{PAGE}/c1?at={before}")
    assert "Zone –" in said(page) and f"You are looking at position {before}" in said(page)
    assert "hx-get" not in page.text and "Unreplicated records" not in said(page)
    assert rows(viewer.get(f"{PAGE}?at=1"), "data-cluster")["c1"].startswith("c1 1 offline – – no 0")
    assert viewer.get(f"{PAGE}/c3?at=1").status_code == 404
    assert viewer.get(f"{PAGE}?at=99999").status_code == 422


def test_its_secrets_are_shown_nowhere(acme: Console, viewer: Visitor) -> None:
    acme.rest.ok("PATCH", f"{PAGE}/c1", {"properties": PROPERTIES, "accept_offline": True})
    page = viewer.get(f"{PAGE}/c1")
    assert "sasl.password ***" in said(page) and "sasl.username u" in said(page)
    assert "C1_PASSWORD" not in page.text


@pytest.mark.parametrize(("kind", "status"), [("operator", 200), ("owner", 403), ("stranger", 403)])
def test_they_are_for_those_who_see_the_estate(acme: Console, kind: str, status: int) -> None:
    who = visitor(acme, kind)
    for path in ("", "/-live", "/c1", "/c1/-live"):
        assert who.get(PAGE + path).status_code == status
    for path in ("/none", "/none/-live", "/%3Cb%3E"):
        assert who.get(PAGE + path).status_code == (404 if status == 200 else 403)


def test_it_follows_by_itself(acme: Console, open_page) -> None:
    page = open_page(acme, f"{PAGE}/c3")
    acme.rest.ok("PATCH", f"{PAGE}/c3", {"zone": "az7", "accept_offline": True})
    eventually(lambda: "az7" in page.inner_text("#facts"), "the new zone is shown")


@pytest.mark.nightly  # to be looked at; that nothing runs out of a page is in test_gallery
def test_pictures(acme: Console, open_page, folder: Path | None) -> None:
    acme.rest.ok("PATCH", f"{PAGE}/c1", {"properties": PROPERTIES, "zone": "az1", "accept_offline": True})
    page = open_page(acme, PAGE)
    taken(page, "clusters", folder)
    page.goto(f"{acme.url}{PAGE}/c1")
    taken(page, "cluster", folder)


def test_one_says_why_a_local_broker_ended(
    acme: Console, viewer: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "ended: out of memory; heap 256 MB; raise `heap_mb` of c1 in the estate file"
    ended = {"at": "2026-11-27T13:45:00+00:00", "reason": reason}
    processes = [
        {"name": f"kafka:{cluster}:1", "state": "running", "restarts": 1, "last_end": end}
        for cluster, end in [("c1", ended), ("c2", None), ("c11", ended)]
    ]
    assert "Brokers that exited" not in said(viewer.get(f"{PAGE}/c1"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "state.json").write_text(json.dumps({"processes": processes}))
    monkeypatch.setenv("TREELINE_ESTATE_HOME", str(tmp_path))
    text = said(viewer.get(f"{PAGE}/c1"))
    assert f"kafka:c1:1 27 Nov 2026, 13:45:00 UTC : {reason} 1 restart since the estate was started" in text
    assert "c11" not in text
    assert "Brokers that exited" not in said(viewer.get(f"{PAGE}/c2"))
    assert "Brokers that exited" not in said(viewer.get(f"{PAGE}/c1?at={head(acme)['position']}"))
