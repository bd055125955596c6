"""Object storage as the router uses it: a real folder, and a local S3 server."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from tests.nightly import some_now
from tests.unit.zones.channel import Written
from tests.unit.zones.s3 import S3
from workers.zone_router.object_storage import AlreadyWritten, ObjectMissing, ObjectStorage, StorageFailed

_BUCKETS = (f"bucket-{number}" for number in itertools.count())


STORAGES = ["folder", "s3", "below a prefix of s3"]


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStorage:
    if request.param == "folder":
        return ObjectStorage(f"file://{tmp_path}")
    server: S3 = request.getfixturevalue("s3")
    bucket = server.bucket(next(_BUCKETS))
    return ObjectStorage(bucket if request.param == "s3" else f"{bucket}/pre/fix", server.options)


def test_objects_are_written_once_read_in_parts_and_deleted(storage: ObjectStorage):
    async def test() -> None:
        await storage.put_new("a/b", b"0123456789")
        with pytest.raises(AlreadyWritten):
            await storage.put_new("a/b", b"x")
        assert bytes(await storage.get("a/b", 3, 4)) == b"3456"
        with pytest.raises(ObjectMissing, match="ends at byte 10, before 12"):
            await storage.get("a/b", 8, 4)
        with pytest.raises(ObjectMissing, match="a/c does not exist"):
            await storage.get("a/c", 0, 1)
        with pytest.raises(StorageFailed):
            await storage.get("a/b", 20, 4)
        await storage.put_new("ab", b"")
        assert await storage.sizes("a/") == {"a/b": 10}
        await storage.delete(["a/b", "a/c"])
        assert await storage.sizes("a/") == {} and await storage.sizes("") == {"ab": 0}

    asyncio.run(test())


# moto looks for the object and writes it in two steps: on a busy machine two writers have been told that they won.
@pytest.mark.parametrize("storage", ["folder"], indirect=True)
def test_of_many_who_write_an_object_at_once_one_has_written_it(storage: ObjectStorage):
    async def test() -> None:
        writing = (storage.put_new("a", bytes([number])) for number in range(20))
        results = await asyncio.gather(*writing, return_exceptions=True)
        (winner,) = (number for number, result in enumerate(results) if result is None)
        assert all(isinstance(each, AlreadyWritten) for each in results if each is not None)
        assert bytes(await storage.get("a", 0, 1)) == bytes([winner])

    asyncio.run(test())


@some_now("storage", STORAGES, now=(1,), indirect=True)
def test_more_objects_than_a_page_of_s3_has_are_listed(storage: ObjectStorage):
    async def test() -> None:
        names = [f"a/{number:05d}" for number in range(1_100)]
        # With more connections than the server accepts, some wait longer than allowed.
        for few in (names[start : start + 50] for start in range(0, len(names), 50)):
            await asyncio.gather(*(storage.put_new(name, b"x") for name in few))
        assert await storage.sizes("a/") == dict.fromkeys(names, 1)

    asyncio.run(test())


def test_a_channel_on_s3_writes_and_is_fenced_while_it_writes(s3: S3):
    url = s3.bucket(next(_BUCKETS)) + "/router"

    async def test() -> None:
        async with Written(url, options=s3.options, bulk_bytes=500, window_seconds=0.01) as zombie:
            for size in (600, 100, 5_000_000, 100):
                zombie.take(size)
            await zombie.until(lambda: zombie.count == 4)
            assert await zombie.numbers() == [0, 1, 2, 3]
            feeding = asyncio.create_task(fed(zombie))
            async with Written(url, options=s3.options) as successor:
                assert zombie.running is not None
                await zombie.until(zombie.running.done)
                assert "a later process runs as node 7" in str(zombie.running.exception())
                feeding.cancel()
                successor.take()
                await successor.until(lambda: successor.count == 1)
                assert max(at.sequence for _, at, _ in zombie.told) < successor.told[0][1].sequence
                left = await successor.storage.sizes("channel/")
                successor.channel.trim([at.name for _, at, _ in successor.told])
                assert successor.told[0][1].name in left, "the newest stays"

    async def fed(zombie: Written) -> None:
        told = 0
        while True:
            zombie.take(600)
            zombie.channel.trim([at.name for _, at, _ in zombie.told[told:]])
            told = len(zombie.told)
            await asyncio.sleep(0.002)

    asyncio.run(test())


def test_secrets_are_references_or_in_the_environment(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url, secret = s3.bucket(next(_BUCKETS)), tmp_path / "secret"
    secret.write_text("anything\n")
    monkeypatch.setenv("ROUTERS_KEY", "anybody")
    referred = {"access_key_id": "${env:ROUTERS_KEY}", "aws_secret_access_key": f"${{file:{secret}}}"}
    without = {key: s3.options[key] for key in ("endpoint", "region", "allow_http")}

    async def test() -> None:
        await ObjectStorage(url, without | referred).put_new("a", b"x")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
        assert await ObjectStorage(url, {"AWS_ALLOW_HTTP": "true"}).sizes("") == {"a": 1}

    asyncio.run(test())


@pytest.mark.parametrize("url", ["nowhere://x", "file", "s3://", "file:///proc/nothing/here"])
def test_a_storage_that_cannot_be_is_refused_in_words(url: str):
    with pytest.raises(StorageFailed) as refused:
        ObjectStorage(url)
    assert url in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nothing": "x"}, "'nothing'"),
        ({"allow_http": "perhaps"}, "perhaps"),
        ({"timeout": "soon"}, "soon"),
        ({"secret_access_key": "${file:/no/such/secret}"}, "/no/such/secret"),
        ({"secret_access_key": "${env:NO_SUCH_SECRET}"}, "NO_SUCH_SECRET"),
    ],
)
def test_options_that_cannot_be_are_refused_in_words(options: dict[str, str], said: str):
    with pytest.raises(StorageFailed) as refused:
        ObjectStorage("s3://bucket", options)
    assert said in str(refused.value) and "\n" not in str(refused.value)
