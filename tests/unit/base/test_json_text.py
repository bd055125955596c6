"""JSON that is checked, and kept as it was written."""

from __future__ import annotations

import pytest

from backend.domain.base import json_text


@pytest.mark.parametrize(
    "text", ["12345678901234567.89", '{"a": 1, "a": 2}', "1e999", "9" * 5000, '"ä\\u00e4"', "null", '{ "b":[ ] }']
)
def test_a_text_is_kept_to_the_letter(text: str) -> None:
    assert json_text.checked(f"\n {text} \r\n") == text


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", '{"a": -Infinity}', "1 2", "[" * 200_000])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_text.checked(text)
