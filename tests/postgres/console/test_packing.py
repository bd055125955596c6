"""Streams that are the same for all viewers are compressed once, sent at once, and readable by any gunzip."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import httpx2
from hypothesis import given
from hypothesis import strategies as st

from backend.web.frame import compression
from tests.nightly import some_now
from tests.support.console.consoles import TOKEN, Console

BEARER = {"Authorization": f"Bearer {TOKEN}"}


def packed(parts: list[bytes]) -> list[bytes]:
    async def all_of() -> list[bytes]:
        async def given() -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        return [each async for each in compression.compressed(given())]

    return asyncio.run(all_of())


@given(
    st.lists(st.binary(max_size=300) | st.sampled_from([b"<li>same</li>" * 5_000, b"event: beat\n\n"]), max_size=8)
)
def test_it_is_one_gzip_file_of_which_each_part_is_there_at_once(parts: list[bytes]) -> None:
    *sent, end = packed(parts)
    assert gzip.decompress(b"".join(sent) + end) == b"".join(parts)
    reader = zlib.decompressobj(wbits=31)
    assert [reader.decompress(each) for each in sent] == parts


def test_what_many_are_sent_is_packed_once() -> None:
    text = b"<svg>a drawing</svg>" * 1_000
    before = compression._deflated.cache_info().misses
    first, second = packed([b"other", text]), packed([text])
    assert compression._deflated.cache_info().misses == before + 2
    assert second[0].endswith(first[1]) and len(first[1]) < len(text) / 10


@some_now("takes, encoding", [("gzip, deflate", "gzip"), ("gzip;q=0", None), ("", None)], now=(0, 1))
def test_the_tree_as_it_changes_comes_packed_to_those_who_take_it(
    acme: Console, takes: str, encoding: str | None
) -> None:
    with httpx2.stream("GET", f"{acme.url}/tree/live", headers={**BEARER, "Accept-Encoding": takes}) as answer:
        assert answer.headers.get("Content-Encoding") == encoding
        assert answer.headers["Vary"] == "Accept-Encoding"
        named = (line.removeprefix("event: ") for line in answer.iter_lines() if line.startswith("event: "))
        assert {next(named) for _ in range(7)} >= {"summary", "diagram", "distributors", "timeline"}
        assert next(name for name in named if name == "beat"), "it goes on"
