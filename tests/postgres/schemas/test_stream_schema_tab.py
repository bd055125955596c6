"""The tab Schema of a stream: its subjects, and two versions compared."""

from __future__ import annotations

from tests.postgres.schemas.test_schemas_pages import MINE, THEIRS, acme, console
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, rows, said

__all__ = ["acme", "console"]


def test_the_stream_s_tab_compares_its_two_latest_versions_and_any_two(acme: Console) -> None:
    member = Visitor(acme, "mia", acme="member")
    tab = "/tenants/acme/retail/prod/orders/-schema"
    page = member.get(tab)
    assert rows(page, "data-subject").keys() == {MINE}
    assert f"Version 2 against version 1 {MINE}" in said(page) and 'class="added"' in page.text
    back = member.get(f"{tab}?subject={MINE}&version=1&against=2")
    assert "Version 1 against version 2" in said(back) and 'class="removed"' in back.text
    assert member.get(f"{tab}?subject={THEIRS}").status_code == 404
    assert member.get(f"{tab}?version=9").status_code == 404
    assert member.get(f"{tab}?version=x").status_code == 422
    empty = Visitor(acme, "gus", globex="member").get("/tenants/globex/shop/prod/items/-schema")
    assert MINE not in empty.text
