"""Subjects keep their suffix and change their stream's name; the way back is a look-up, whatever the names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backend.domain.base.errors import DomainError
from backend.domain.names.formats import ClusterFormats, check_deployment
from backend.domain.names.names import StreamName
from backend.domain.schemas.subjects import SubjectOwners, Translation

FULL = "{tenant}-{instance}-{environment}-{topic}"
SHORT = "{tenant}-{environment}-{topic}"
ORDERS = StreamName("acme", "retail", "prod", "orders")
ORDERS_EU = StreamName("acme", "retail", "prod", "orders-eu")

PARTS = st.from_regex(r"[ab][ab._-]{0,3}", fullmatch=True)
STREAMS = st.sets(st.builds(StreamName, PARTS, PARTS, PARTS, PARTS), max_size=8)
PLACEHOLDERS = ("{tenant}", "{instance}", "{environment}")
# What follows the name by Confluent's strategies: no `-` is in it.
SUFFIXES = st.sampled_from(("key", "value")) | st.from_regex(r"[a-z]{1,3}(\.[A-Z][a-z_]{0,3})?", fullmatch=True)


@st.composite
def formats(draw: st.DrawFn) -> str:
    some = draw(st.permutations((*PLACEHOLDERS[: draw(st.integers(0, 3))], "{topic}")))
    between = draw(st.lists(st.sampled_from(("-", ".", "_", "", "-a.")), min_size=len(some), max_size=len(some)))
    return "".join(part + text for part, text in zip(some, between, strict=True))


def deployed(streams: set[StreamName], *formats_of_subjects: str) -> list[StreamName]:
    """Return streams that the rules about names allow to be declared, one after another."""
    found: list[StreamName] = []
    for stream in sorted(streams):
        try:
            for each in formats_of_subjects:
                check_deployment([*found, stream], ClusterFormats("c", FULL + "-{topic}", each), "/")
        except DomainError:
            continue
        found.append(stream)
    return found


def test_the_name_changes_and_the_suffix_stays() -> None:
    there = Translation(FULL, SHORT, [ORDERS])
    assert there.translate("acme-retail-prod-orders-value") == "acme-prod-orders-value"
    assert there.translate("acme-retail-prod-orders-key") == "acme-prod-orders-key"
    assert there.translate("acme-retail-prod-orders-com.acme.Order") == "acme-prod-orders-com.acme.Order"


def test_what_follows_no_topic_passes_through() -> None:
    there = Translation(FULL, SHORT, [ORDERS])
    for subject in ("com.acme.Order", "acme-retail-prod-payments-value", "acme-retail-prod-orders", "-", ""):
        assert there.translate(subject) == subject
        assert not there.follows_topic(subject)


def test_the_longest_stream_is_meant() -> None:
    there = Translation(
        "{topic}-{tenant}", "{tenant}-{topic}", [ORDERS, StreamName("acme", "a", "b", "orders-acme")]
    )
    assert there.translate("orders-acme-value") == "acme-orders-value"
    assert there.translate("orders-acme-acme-value") == "acme-orders-acme-value"
    both = Translation(FULL, SHORT, [ORDERS, ORDERS_EU])
    assert both.translate("acme-retail-prod-orders-eu-value") == "acme-prod-orders-eu-value"


@given(STREAMS, formats(), formats(), SUFFIXES)
def test_there_and_back_is_the_same_subject(
    streams: set[StreamName], here: str, elsewhere: str, suffix: str
) -> None:
    known = deployed(streams, here, elsewhere)
    there, back = Translation(here, elsewhere, known), Translation(elsewhere, here, known)
    for stream in known:
        subject = named(here, stream, suffix)
        assert there.translate(subject) == named(elsewhere, stream, suffix)
        assert back.translate(there.translate(subject)) == subject


@given(STREAMS, formats(), formats())
def test_no_two_streams_meet_in_one_subject(streams: set[StreamName], here: str, elsewhere: str) -> None:
    known = deployed(streams, here, elsewhere)
    there = Translation(here, elsewhere, known)
    subjects = {named(here, stream, suffix) for stream in known for suffix in ("key", "value", "a.B")}
    assert len({there.translate(subject) for subject in subjects}) == len(subjects)


def named(of: str, stream: StreamName, suffix: str) -> str:
    parts = {"tenant": stream.tenant, "instance": stream.instance, "environment": stream.environment}
    return of.format(**parts, topic=stream.stream) + f"-{suffix}"


def test_a_subject_is_that_of_the_longest_name_it_begins_with():
    owners = SubjectOwners({"orders": ORDERS, "orders-eu": ORDERS_EU}, {})
    assert owners.stream_of("orders-value") == ORDERS
    assert owners.stream_of("orders-eu-value") == ORDERS_EU
    assert owners.stream_of("orders") is None
    assert owners.stream_of("com.acme.Order") is None


def test_a_deleted_streams_subjects_are_still_its_tenants_until_the_name_is_given_again():
    old = StreamName("globex", "retail", "prod", "orders")
    assert SubjectOwners({}, {"orders": old}).stream_of("orders-value") == old
    assert SubjectOwners({"orders": ORDERS}, {"orders": old}).stream_of("orders-value") == ORDERS
    # A stream that is there goes before a longer name that was.
    assert SubjectOwners({"orders": ORDERS}, {"orders-eu": old}).stream_of("orders-eu-value") == ORDERS


def test_what_is_a_streams_elsewhere_is_kept_for_it():
    owners = SubjectOwners({"a-orders": ORDERS}, {}, {"orders": ORDERS, "orders-eu": ORDERS_EU})
    assert owners.stream_of("orders-value") is None
    assert owners.kept_for("orders-value") == ORDERS
    assert owners.kept_for("orders-eu-value") == ORDERS_EU
    assert owners.kept_for("com.acme.Order") is None


def test_a_subject_fits_if_it_follows_the_same_there():
    a, b = StreamName("globex", "i", "e", "a"), StreamName("acme", "i", "e", "a-b")
    there = Translation("{tenant}-{topic}", "{topic}", [a, b])
    assert [there.translate(each) for each in ("globex-a-b-value", "acme-a-b-value")] == ["a-b-value"] * 2
    assert there.fits("acme-a-b-value") and there.fits("globex-a-value") and there.fits("com.acme.Order")
    assert not there.fits("globex-a-b-value")
    assert not there.fits("a-b-value")
