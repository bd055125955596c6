"""Resources of an estate's file are created once, and applications after all streams that they may name."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from backend.estate.control_plane import ControlPlane, apply_estate
from backend.estate.document import read_estate
from backend.estate.home import Home
from backend.estate.plan import lay_out
from backend.estate.ports import Ports
from tests.support.api import http
from tests.support.api.rest import TOKEN, Rest, served
from tests.support.database.postgres import Database

BILLING = {"b": {"consumes": ["globex/shop/prod/items"]}}
ESTATE = {
    "name": "pair",
    "primary": "c1",
    "clusters": {"c1": {}, "c2": {}},
    "tree": {"level": 1, "children": [{"cluster": "c1"}, {"cluster": "c2"}]},
    "tenants": {
        "acme": {"instances": {"retail": {"environments": {"prod": {"applications": BILLING}}}}},
        "globex": {"instances": {"shop": {"environments": {"prod": {"streams": {"items": {}}}}}}},
    },
}


def test_applications_come_after_all_streams(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREELINE_PROBE_TIMEOUT_SECONDS", "0.5")  # no cluster responds there
    (tmp_path / "estate.yaml").write_text(yaml.safe_dump(ESTATE))
    home = Home(tmp_path)
    home.make()
    layout = lay_out(home, read_estate(tmp_path / "estate.yaml"), Ports(tmp_path / "ports", prefer_defaults=False))
    with served(database.url) as (url, _):
        with ControlPlane(url, TOKEN) as api:
            changed = apply_estate(api, layout, {"c1", "c2"}, print)
            assert changed[-1] == "application acme/retail/prod/b"
            assert apply_estate(api, layout, {"c1", "c2"}, print) == []
        rest = Rest(http.client(base_url=url))
        there = "/tenants/acme/instances/retail/environments/prod/applications/b"
        assert rest("GET", there).json()["consumes"][0]["state"] == "granted"
