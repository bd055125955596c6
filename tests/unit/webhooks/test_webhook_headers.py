"""Headers of a webhook's request."""

from __future__ import annotations

from workers.webhooks.message import standard_headers


def test_a_secret_that_is_not_base64_signs_in_the_older_form_alone() -> None:
    assert standard_headers("whsec_of-an_older-release", "event-1", 1, b"{}") == {}
