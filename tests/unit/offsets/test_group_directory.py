"""Mapping of technical names on a cluster to logical ones, for commits."""

from __future__ import annotations

import pytest

from backend.domain.names.names import StreamName
from backend.domain.offsets.group_directory import GroupDirectory, NotFollowed
from backend.domain.offsets.offset_map import GroupPartition

ORDERS = StreamName("acme", "retail", "prod", "orders")
TESTS = StreamName("acme", "retail", "test", "orders")
STREAMS = {"acme-retail-prod-orders": ORDERS, "acme-retail-test-orders": TESTS}
FULL = GroupDirectory("c1", "{tenant}-{instance}-{environment}-{group}", STREAMS)
SHORT = GroupDirectory("c4", "{group}.{tenant}", {"acme-prod-orders": ORDERS})


def group_partition(group, environment="prod", partition=3):
    return GroupPartition(
        tenant="acme",
        instance="retail",
        environment=environment,
        stream="orders",
        partition=partition,
        group=group,
    )


@pytest.mark.parametrize(
    ("directory", "group", "topic", "found"),
    [
        (FULL, "acme-retail-prod-billing", "acme-retail-prod-orders", group_partition("billing")),
        # Groups are not declared: applications choose their names.
        (FULL, "acme-retail-prod-Billing_EU", "acme-retail-prod-orders", group_partition("Billing_EU")),
        (FULL, "acme-retail-prod-billing-eu", "acme-retail-prod-orders", group_partition("billing-eu")),
        (FULL, "acme-retail-prod--billing", "acme-retail-prod-orders", group_partition("-billing")),
        (FULL, "acme-retail-prod-Büro #1/ost 北", "acme-retail-prod-orders", group_partition("Büro #1/ost 北")),
        (SHORT, "a.b c.acme", "acme-prod-orders", group_partition("a.b c")),
        (FULL, "acme-retail-test-x", "acme-retail-test-orders", group_partition("x", "test")),
        # A format that leaves parts out is enough: the topic gives them.
        (SHORT, "billing.acme", "acme-prod-orders", group_partition("billing")),
    ],
)
def test_groups_of_the_streams_environment(directory, group, topic, found):
    assert directory.group_partition(group, topic, 3) == found


@pytest.mark.parametrize(
    ("group", "topic", "told"),
    [
        ("acme-retail-prod-billing", "elsewhere", "elsewhere is not the topic of a distributed stream on c1"),
        ("acme-retail-test-billing", "acme-retail-prod-orders", "group 'acme-retail-test-billing' does not match"),
        ("connect-cluster", "acme-retail-prod-orders", "in acme/retail/prod, the environment of"),
        ("acme-retail-prod-", "acme-retail-prod-orders", "in acme/retail/prod, the environment of"),
        ("acme-retail-prod-a\tb", "acme-retail-prod-orders", "it has the character U+0009 at position 2"),
        ("acme-retail-prod-billing ", "acme-retail-prod-orders", "it ends with a space"),
        ("acme-retail-prod-" + "g" * 250, "acme-retail-prod-orders", "it has 250 characters, at most 249"),
    ],
)
def test_others_are_not_followed_and_the_reason_is_told(group, topic, told):
    found = FULL.group_partition(group, topic, 0)
    assert isinstance(found, NotFollowed)
    assert told in found.reason
