"""Names and formats: what is refused, and that technical names never meet on one cluster."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.base.errors import FormatInvalid, NameInvalid, TechnicalNameTaken
from backend.domain.names import formats
from backend.domain.names.formats import ClusterFormats
from backend.domain.names.names import StreamName, check_name, is_name

FULL = "{tenant}-{instance}-{environment}-{topic}"
names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)
streams = st.builds(StreamName, names, names, names, names)


def test_a_refused_name_is_shown_as_it_was_typed() -> None:
    """Characters that reverse a line's direction, or are invalid, are printed as escapes."""
    with pytest.raises(NameInvalid) as refused:
        check_name("Ünïcødé\u202e\n", "stream")
    assert refused.value.detail.startswith(r"'Ünïcødé\u202e\n' cannot name a stream")


@pytest.mark.parametrize("name", ["acme", "a", "0", "a.b_c-d", "x" * 100, "9lives"])
def test_a_plain_lower_case_name_is_accepted(name: str) -> None:
    check_name(name, "tenant")


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "Acme",
        "a b",
        "a/b",
        "..",
        ".",
        "-a",
        "_a",
        "__a",
        "_treeline.verify",
        "é",
        "a\n",
        "a\x00",
        "x" * 101,
        "\ud800",
    ],
)
def test_a_name_that_could_break_a_technical_name_or_a_path_is_refused(name: str) -> None:
    with pytest.raises(NameInvalid) as refused:
        check_name(name, "tenant")
    assert refused.value.errors[0].pointer == "/name"
    refused.value.detail.encode()  # an answer can be written, whatever was sent


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{tenant}-{environment}", "must contain {topic}"),
        ("{tenant}-{group}", "unknown placeholder"),
        ("{cluster}-{topic}", "unknown placeholder"),
        ("{topic!r}", "unknown placeholder"),
        ("{topic:>10}", "unknown placeholder"),
        ("{topic.__class__}", "unknown placeholder"),
        ("{}{topic}", "unknown placeholder"),
        ("{0}{topic}", "unknown placeholder"),
        ("{topic", "brace"),
        ("topic}", "brace"),
        ("{{topic}}", "may stand around"),
        ("a b {topic}", "may stand around"),
        ("{tenant}/{topic}", "may stand around"),
        ("", "must contain {topic}"),
        ("x" * 249 + "{topic}", "within 249"),
        ("__{topic}", "internal"),
        ("_treeline.{topic}", "internal"),
        ("\ud800{topic}", "may stand around"),
    ],
)
def test_a_format_that_cannot_name_every_stream_is_refused(text: str, says: str) -> None:
    with pytest.raises(FormatInvalid, match=re.escape(says)) as refused:
        formats.check_format(text, "topic", "/topic_format")
    assert refused.value.errors[0].pointer == "/topic_format"
    refused.value.detail.encode()


@pytest.mark.parametrize("text", [FULL, "{topic}", "{tenant}-{environment}-{topic}", "a.{topic}_{topic}"])
def test_a_format_may_leave_out_parts(text: str) -> None:
    formats.check_format(text, "topic", "/topic_format")


@pytest.mark.parametrize(
    "topic", ["", ".", "..", "x" * 250, "a b", "a/b", "__consumer_offsets", "_treeline.verify", "_schemas"]
)
def test_topics_that_kafka_refuses_or_uses_itself_are_refused(topic: str) -> None:
    assert formats.topic_problem(topic)


@given(stream=streams)
def test_a_technical_name_is_legal_or_refused_before_anything_happens(stream: StreamName) -> None:
    clusters = [ClusterFormats("c1", FULL, FULL), ClusterFormats("c2", "{tenant}.{topic}", "{topic}")]
    made = formats.technical_names(stream, clusters)
    assert all(re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic) for topic in made.values())


def test_a_name_that_grows_too_long_is_refused_naming_stream_and_cluster() -> None:
    long = StreamName("t" * 90, "i" * 90, "e" * 90, "s")
    with pytest.raises(NameInvalid, match="on c1: it has 274 characters"):
        formats.technical_names(long, [ClusterFormats("c1", FULL, FULL)])


@pytest.mark.parametrize(
    ("topic_format", "left", "right", "why"),
    [
        (
            "{tenant}-{topic}",
            ("acme", "retail", "dev", "orders"),
            ("acme", "retail", "prod", "orders"),
            "left out",
        ),
        (FULL, ("a-b", "c", "d", "e"), ("a", "b-c", "d", "e"), "separator inside a name"),
        (FULL, ("a", "b", "c", "d.e"), ("a", "b", "c", "d_e"), "'.' and '_' are one to Kafka"),
    ],
)
def test_two_streams_with_one_technical_name_are_refused_naming_both(
    topic_format: str, left: tuple[str, ...], right: tuple[str, ...], why: str
) -> None:
    one, two = StreamName(*left), StreamName(*right)
    cluster = ClusterFormats("c4", topic_format, FULL)
    with pytest.raises(TechnicalNameTaken) as refused:
        formats.check_deployment([one, two], cluster, "/root")
    assert str(one) in refused.value.detail
    assert str(two) in refused.value.detail
    assert "c4" in refused.value.detail
    topic = formats.technical_name(topic_format, one)
    with pytest.raises(TechnicalNameTaken):
        formats.refuse_taken(two, [cluster], {("c4", formats.clash_key(topic)): one}, {})


def test_two_streams_with_one_subject_are_refused() -> None:
    cluster = ClusterFormats("c1", FULL, "{topic}")
    with pytest.raises(TechnicalNameTaken, match="subject 'orders'"):
        formats.check_deployment(
            [StreamName("a", "b", "dev", "orders"), StreamName("a", "b", "prod", "orders")], cluster, "/root"
        )


@given(found=st.sets(streams, max_size=8), topic_format=st.sampled_from([FULL, "{tenant}-{topic}", "{topic}"]))
def test_what_passes_the_check_has_one_name_per_stream(found: set[StreamName], topic_format: str) -> None:
    cluster = ClusterFormats("c1", topic_format, FULL)
    try:
        formats.check_deployment(sorted(found), cluster, "/root")
    except TechnicalNameTaken:
        return
    keys = {formats.clash_key(formats.technical_name(topic_format, stream)) for stream in found}
    assert len(keys) == len(found)


def test_a_stream_does_not_clash_with_itself() -> None:
    stream = StreamName("a", "b", "c", "d")
    cluster = ClusterFormats("c1", FULL, FULL)
    formats.refuse_taken(stream, [cluster], {("c1", "a-b-c-d"): stream}, {("c1", "a-b-c-d"): stream})


def test_nothing_is_looked_up_by_a_string_that_is_no_name() -> None:
    assert is_name("acme")
    assert not any(map(is_name, ["", "\x00", "a/b", "\ud800", "A"]))
