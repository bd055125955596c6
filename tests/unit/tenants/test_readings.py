"""The way back from technical names: looked up, split only where nobody claims the name, never guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.names.formats import technical_name
from backend.domain.names.names import StreamName
from backend.domain.names.readings import Reader

FULL = "{tenant}-{instance}-{environment}-{topic}"
RETAIL = ("acme", "retail", "prod")
ORDERS = StreamName(*RETAIL, "orders")
names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,8}", fullmatch=True)


def read(name, text=FULL, environments=(RETAIL,), declared=None):
    return Reader(text, "topic", environments, declared or {}).read(name)


@pytest.mark.parametrize(
    ("text", "name", "stream"),
    [
        (FULL, "acme-retail-prod-orders", "orders"),
        (FULL, "acme-retail-prod-order-items", "order-items"),
        ("{tenant}-{environment}-{topic}", "acme-prod-orders", "orders"),
        ("{topic}", "orders", "orders"),
        ("x.{topic}.{tenant}", "x.orders.acme", "orders"),
        ("{topic}-{topic}", "a-b-a-b", "a-b"),
    ],
)
def test_a_name_that_one_environment_claims_is_looked_up_there(text, name, stream):
    assert read(name, text).found == StreamName(*RETAIL, stream)


def test_a_declared_stream_has_its_name_whatever_else_could_be_read():
    other = StreamName("acme", "retail-prod", "orders", "x")
    assert read("acme-retail-prod-orders-x", declared={"acme-retail-prod-orders-x": other}).found == other


def test_a_name_that_nobody_claims_is_split_if_there_is_one_way():
    assert read("globex-eu-dev-parcels").found == StreamName("globex", "eu", "dev", "parcels")


@pytest.mark.parametrize(
    ("text", "name", "environments", "others"),
    [
        (FULL, "a-b-c-d-e", (), {"a-b/c/d/e", "a/b-c/d/e", "a/b/c-d/e", "a/b/c/d-e"}),
        (FULL, "a-b-c-d-e", (("a-b", "c", "d"), ("a", "b", "c")), {"a-b/c/d/e", "a/b/c/d-e"}),
        (
            "{topic}",
            "orders",
            (RETAIL, ("acme", "retail", "dev")),
            {"acme/retail/prod/orders", "acme/retail/dev/orders"},
        ),
    ],
    ids=["split", "environments", "left out"],
)
def test_a_name_with_two_readings_is_ambiguous_and_names_them(text, name, environments, others):
    reading = read(name, text, environments)
    assert reading.found is None
    assert set(map(str, reading.others)) == others
    assert all(other in reading.reason for other in others)


def test_a_long_name_with_thousands_of_readings_names_a_few():
    reading = read("-".join("a" * 100), environments=())
    assert reading.found is None
    assert len(reading.others) == 5
    assert "and more" in reading.reason


def test_what_a_format_leaves_out_is_not_invented():
    reading = read("globex-dev-parcels", "{tenant}-{environment}-{topic}")
    assert reading.found is None
    assert "{instance}" in reading.reason


@pytest.mark.parametrize("name", ["orders", "acme-retail-prod-", "ACME-retail-prod-orders", "a--b-c", "-" * 249])
def test_a_name_that_no_logical_name_gives_has_no_reading(name):
    reading = read(name)
    assert (reading.found, reading.others) == (None, ())
    assert reading.reason


def test_long_hopeless_names_are_given_up_at_once():
    reader = Reader(FULL + ".v1", "topic", (), {})
    assert reader.read("-".join("a" * 124) + "x").found is None
    assert Reader(FULL, "topic", (), {}).read("-".join("a" * 124) + "!").found is None


@given(
    stream=st.builds(StreamName, names, names, names, names),
    text=st.sampled_from(
        [FULL, "{topic}.{tenant}_{instance}-{environment}", "{tenant}{instance}{environment}{topic}"]
    ),
)
def test_every_reading_renders_to_the_name_and_the_true_one_is_found_in_its_environment(stream, text):
    name = technical_name(text, stream)
    assert read(name, text, [(stream.tenant, stream.instance, stream.environment)]).found == stream
    unknown = read(name, text, ())
    found = [unknown.found] if unknown.found else unknown.others
    assert found
    assert all(technical_name(text, each) == name for each in found)
    if unknown.found:
        assert unknown.found == stream
