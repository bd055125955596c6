"""Object storage as the router uses it, on a real folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from workers.zone_router.object_storage import AlreadyWritten, ObjectMissing, ObjectStorage, StorageFailed


def test_objects_are_written_once_read_in_parts_and_deleted(tmp_path: Path):
    async def test() -> None:
        storage = ObjectStorage(f"file://{tmp_path}")
        await storage.put_new("a/b", b"0123456789")
        with pytest.raises(AlreadyWritten):
            await storage.put_new("a/b", b"x")
        assert bytes(await storage.get("a/b", 3, 4)) == b"3456"
        with pytest.raises(ObjectMissing, match="ends at byte 10, before 12"):
            await storage.get("a/b", 8, 4)
        with pytest.raises(ObjectMissing, match="there is no a/c"):
            await storage.get("a/c", 0, 1)
        assert await storage.sizes("a/") == {"a/b": 10}
        await storage.delete(["a/b", "a/c"])
        assert await storage.sizes("a/") == {}

    asyncio.run(test())


@pytest.mark.parametrize("url", ["nowhere://x", "file", "s3://", "file:///proc/nothing/here"])
def test_a_storage_that_cannot_be_is_refused_in_words(url: str):
    with pytest.raises(StorageFailed) as refused:
        ObjectStorage(url)
    assert url in str(refused.value) and "\n" not in str(refused.value)
