"""Clients that read topics' ids do not accumulate while clusters come and go."""

from __future__ import annotations

import pytest

from backend.domain.distribution.edges import Endpoint
from backend.kafka.copy.topic_ids import _IDLE_SECONDS, TopicIds


def endpoint(name: str) -> Endpoint:
    """Return an endpoint where no cluster answers; clients are opened all the same."""
    return Endpoint(name=name, number=1, bootstrap_servers="127.0.0.1:9", properties={"client.id": name})


def test_a_client_that_is_not_used_any_more_is_closed_and_one_that_is_used_stays_open():
    now = [0.0]
    ids = TopicIds(lambda: now[0])
    gone, used = ids._client(endpoint("gone")), ids._client(endpoint("used"))
    now[0] = _IDLE_SECONDS
    assert ids._client(endpoint("used")) is used
    assert ids._client(endpoint("gone")) is gone, "it was used not too long ago"
    for at in (1.5 * _IDLE_SECONDS, 2.1 * _IDLE_SECONDS):
        now[0] = at
        assert ids._client(endpoint("used")) is used
    with pytest.raises(RuntimeError, match="closed"):
        gone.poll(0)
    used.poll(0)
    again = ids._client(endpoint("gone"))
    assert again is not gone
    again.poll(0)
