"""The entries that an application gets: what it needs and nothing else."""

from __future__ import annotations

import pytest

from backend.domain.access.acls import Acl, acls_of, text


def texts(**needs: object) -> list[str]:
    given = {"produces": (), "consumes": (), "groups": (), "transactional_prefix": None, **needs}
    return [text(acl) for acl in sorted(acls_of(**given))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({}, []),
        ({"produces": ["a"]}, ["topic a: describe", "topic a: write"]),
        ({"consumes": ["a"]}, ["topic a: describe", "topic a: read"]),
        ({"groups": ["g"]}, []),
        (
            {"groups": ["g"], "consumes": ["a"]},
            ["group g: describe", "group g: read", "topic a: describe", "topic a: read"],
        ),
        (
            {"transactional_prefix": "t/i/e/app/"},
            ["transactional-id t/i/e/app/*: describe", "transactional-id t/i/e/app/*: write"],
        ),
        (
            {"produces": ["a"], "consumes": ["a", "b"]},
            ["topic a: describe", "topic a: read", "topic a: write", "topic b: describe", "topic b: read"],
        ),
    ],
)
def test_an_application_gets_what_it_needs(needs: dict[str, object], expected: list[str]) -> None:
    assert texts(**needs) == expected


def test_only_transactional_ids_are_given_by_prefix() -> None:
    given = acls_of(["a"], ["b"], ["g"], "t/i/e/app/")
    assert {acl.resource for acl in given if acl.pattern == "prefixed"} == {"transactional-id"}
    assert {(acl.host, acl.permission) for acl in given} == {("*", "allow")}


def test_what_others_made_is_told_in_full() -> None:
    assert text(Acl("topic", "a", "literal", "read", "10.0.0.1", "deny")) == "topic a: read from 10.0.0.1 (deny)"
