"""Times as HTML: text in UTC for readers without JavaScript, the instant for `times.js`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.web.words.instants import when

MOMENT = datetime(2026, 11, 28, 14, 2, 3, 456_000, tzinfo=UTC)
ISO = "2026-11-28T14:02:03.456Z"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("instant", "28 Nov 2026, 14:02:03"),
        ("iso", "2026-11-28 14:02:03"),
        ("ms", "2026-11-28 14:02:03.456"),
        ("clock", "14:02:03"),
        ("day", "28 Nov 2026"),
    ],
)
def test_the_text_is_utc_in_the_form_of_its_place(form: str, text: str) -> None:
    assert when(MOMENT, form) == f'<time datetime="{ISO}" data-time="{form}">{text}</time>'
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=9)))
    assert when(elsewhere, form) == when(round(MOMENT.timestamp() * 1000), form) == when(MOMENT, form)


def test_times_of_logs_are_exact_and_those_without_a_heading_name_their_zone() -> None:
    found = when(MOMENT, "clock", exact=True, zone=True)
    assert found == f'<time datetime="{ISO}" data-time="clock" data-exact>14:02:03 UTC</time>'


def test_what_is_no_time_is_a_dash() -> None:
    assert when(None) == when(-1) == when(10**30) == "–"


@given(st.integers())
def test_records_may_have_any_time(milliseconds: int) -> None:
    found = when(milliseconds)
    assert found == "–" or found.startswith("<time ")
