"""YAML from people: a duplicate key is refused with its place, as is input that would crash the process."""

from __future__ import annotations

from typing import Any

import pytest

from backend.yaml_files import YamlInvalid, load_yaml


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{1: [1.5, null, yes], 2-3: x}", {1: [1.5, None, True], "2-3": "x"}),
        ("x: &x {k: 1, l: 2}\ny: {<<: *x, k: 3}", {"x": {"k": 1, "l": 2}, "y": {"k": 3, "l": 2}}),
        ("", None),
    ],
)
def test_it_is_what_it_says(text: str, said: Any):
    assert load_yaml(text) == said


@pytest.mark.parametrize(
    ("text", "place", "detail"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1", "'a' is given twice"),
        ("a:\n  - {x: 1, y: 2, x: 3}", "line 2, column 18", "'x' is given twice"),
        ("true: 1\n1: 2", "line 2, column 1", "1 is given twice"),
        ("[1, 2]: 3", "line 1, column 1", "unhashable"),
        ("a: [1\nb: c", "line 2, column 2", "did not find"),
        ("2026-13-45: 1", "", "is no YAML: month must be"),
        ("\0", "", "is no YAML: unacceptable character"),
        ("[" * 100_000, "line 1, column 100", "nested more than 100 deep"),
        ("- " * 120 + "x", "line 1, column 199", "nested more than 100 deep"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, place: str, detail: str):
    with pytest.raises(YamlInvalid) as refused:
        load_yaml(text)
    assert refused.value.place == place and detail in refused.value.detail


def test_keys_may_have_to_be_text():
    assert load_yaml("{a: {b: 1}}", keys_are_text=True) == {"a": {"b": 1}}
    with pytest.raises(YamlInvalid, match="line 1, column 6: the key 1 is not text"):
        load_yaml("{a: {1: b}}", keys_are_text=True)
