"""Names of consumer groups that are followed, and the reasons for others; client and control plane agree."""

from __future__ import annotations

import pytest
from treeline_client.groups import group_name_problem as problem_for_clients

from backend.domain.access.acls import GROUP, acls_of
from backend.domain.base.errors import NameInvalid
from backend.domain.names.names import ApplicationName, group_name_problem
from backend.domain.offsets.application_groups import ClusterGroups, check_groups
from backend.domain.offsets.offset_map import GroupPartition, decode_key, encode_key

CARRIED = [
    "billing",
    "Billing_EU",
    "-x",
    "_x",
    ".",
    "a b",
    "a  b",
    "#1",
    "a/b",
    "Büro",
    "бюро",
    "北",
    "*",
    "a*",
    "=1+1",
    "g" * 249,
]
REFUSED = [
    ("", "it is empty"),
    ("a\nb", "the character U+000A at position 2"),
    ("\0", "the character U+0000 at position 1"),
    ("a\x7f", "the character U+007F at position 2"),
    ("a\u00a0b", "the character U+00A0 at position 2"),
    ("a\u202eb", "the character U+202E at position 2"),
    ("a\u200bb", "the character U+200B at position 2"),
    ("a\udc80", "the character U+DC80 at position 2"),
    (" a", "begins with a space (U+0020)"),
    ("a ", "ends with a space (U+0020)"),
    ("g" * 250, "250 characters, at most 249"),
]
BILLING = ApplicationName("acme", "retail", "prod", "billing")
ON_C1 = [ClusterGroups("c1", "{tenant}-{instance}-{environment}-{group}")]


@pytest.mark.parametrize("name", CARRIED)
def test_what_can_be_seen_is_carried(name: str) -> None:
    assert group_name_problem(name) is None and problem_for_clients(name) is None
    who = GroupPartition(
        tenant="acme", instance="retail", environment="prod", stream="orders", partition=0, group=name
    )
    assert decode_key(encode_key(who, "c1")) == (who, "c1")


@pytest.mark.parametrize(("name", "told"), REFUSED)
def test_others_are_refused_by_control_plane_client_and_applications_for_the_same_reason(
    name: str, told: str
) -> None:
    for problem in (group_name_problem(name), problem_for_clients(name)):
        assert problem is not None and told in problem
    with pytest.raises(NameInvalid, match="cannot name a group") as refused:
        check_groups(BILLING, {name: "/groups/0"}, ON_C1, {})
    assert told in refused.value.detail and refused.value.errors[0].pointer == "/groups/0"


def test_an_application_may_have_a_group_of_any_name_but_the_one_that_means_all() -> None:
    check_groups(BILLING, {"Büro #1/ost": "/groups/0", "*": "/groups/1"}, ON_C1, {})
    names = {each.name for each in acls_of((), ["t"], ["acme-Büro #1/ost"], None) if each.resource == GROUP}
    assert names == {"acme-Büro #1/ost"}
    with pytest.raises(NameInvalid, match="for every group"):
        check_groups(BILLING, {"*": "/groups/0"}, [ClusterGroups("c1", "{group}")], {})
