"""In which order changes of one cluster's principals are made, and what a failure does to those that follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from backend.domain.access.access_steps import Step, access_steps
from backend.eventlog.engine import create_engine
from backend.kafka.admin.access import AccessAdmin
from backend.kafka.base.errors import KafkaCallFailed
from backend.settings import settings
from tests.unit.access.test_access_steps import FULL, GONE, P
from workers.access.access_changes import Changes


class Recording(AccessAdmin):
    """Asks no cluster, notes what it would ask; `failing` are the calls that the cluster refuses."""

    def __init__(self, *failing: str) -> None:
        super().__init__("127.0.0.1:9", {}, 1.0)
        self.asked: list[str] = []
        self._failing = failing

    def _ask(self, call: str, changes: Mapping[str, Any]) -> dict[str, KafkaCallFailed]:
        self.asked.append(call)
        return dict.fromkeys(changes, KafkaCallFailed("no")) if call in self._failing else {}

    def remove_credentials(self, removed: Any) -> dict[str, KafkaCallFailed]:
        return self._ask("remove credentials", removed)

    def remove_acls(self, removed: Any) -> dict[str, KafkaCallFailed]:
        return self._ask("remove ACLs", removed)

    def set_quotas(self, quotas: Any) -> dict[str, KafkaCallFailed]:
        return self._ask("set quotas", quotas)


@pytest.fixture
def changes() -> Changes:
    return Changes("c", create_engine("postgresql+psycopg://nobody@127.0.0.1:9/none"), settings())


@pytest.mark.parametrize("planned", [access_steps([GONE], FULL), access_steps([GONE], FULL)[::-1]])
def test_a_deleted_application_loses_its_credentials_first(changes: Changes, planned: list[Step]) -> None:
    admin = Recording()
    assert changes.carry_out(admin, planned) == {}
    assert admin.asked == ["remove credentials", "remove ACLs", "set quotas"]


def test_a_principal_whose_change_failed_is_left_out_of_those_that_follow(changes: Changes) -> None:
    admin = Recording("remove ACLs")
    assert changes.carry_out(admin, access_steps([GONE], FULL)) == {P: "no"}
    assert admin.asked == ["remove credentials", "remove ACLs"]
