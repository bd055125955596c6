"""Durations and sizes in forms."""

from __future__ import annotations

import pytest

from backend.domain.base.errors import ValueInvalid
from backend.web.words.units import duration_ms, duration_shown, size_bytes, size_shown, whole_number


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(604_800_000, "7 d"), (5_400_000, "90 min"), (1500, "1500 ms"), (0, "0 ms"), (-1, "for ever"), (1, "1 ms")],
)
def test_durations_come_back_as_they_were(milliseconds: int, text: str) -> None:
    assert duration_shown(milliseconds) == text
    assert duration_ms(text, "/x") == milliseconds


@pytest.mark.parametrize(
    ("size", "text"), [(1_048_588, "1048588 B"), (1_048_576, "1 MiB"), (1024, "1 KiB"), (1, "1 B")]
)
def test_sizes_come_back_as_they_were(size: int, text: str) -> None:
    assert size_shown(size) == text
    assert size_bytes(text, "/x") == size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("7d", 604_800_000), (" 12 H ", 43_200_000), ("500", 500), ("forever", -1)],
)
def test_durations_are_read_as_people_write_them(text: str, milliseconds: int) -> None:
    assert duration_ms(text, "/x") == milliseconds


@pytest.mark.parametrize("text", ["", "d", "7 weeks", "-7 d", "1.5 h", "7 d 3 h", "٧ d"])
def test_what_is_no_duration_is_refused_at_its_field(text: str) -> None:
    with pytest.raises(ValueInvalid) as refused:
        duration_ms(text, "/retention_ms")
    assert [each.pointer for each in refused.value.errors] == ["/retention_ms"]


@pytest.mark.parametrize("text", ["", "four", "1.0", "1e3", "٤", "9" * 30])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ValueInvalid):
        whole_number(text, "/x")
