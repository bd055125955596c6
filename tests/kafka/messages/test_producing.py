"""Messages that users produce, on the real estate: by the API, the command, and the console's form."""

from __future__ import annotations

import json
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from backend.kafka.search.message_writing import MessageRefused, NewMessage, write_message
from tests.eventually import eventually
from tests.kafka.messages.test_messages_page import declared
from tests.kafka.messages.walks import made
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, code, rows, said
from tests.support.kafka.topics import read_all


@pytest.fixture(scope="module")
def console(estate) -> Console:
    return Console(estate.url, estate.token)


@pytest.fixture(scope="module")
def stream(console: Console) -> str:
    """Return the name of a stream."""
    return declared(console)[0]


def full(stream: str) -> str:
    return f"acme/retail/prod/{stream}"


def read(console: Console, stream: str, cluster: str = "cluster-1") -> list[dict[str, Any]]:
    query = f"stream={full(stream)}&cluster={cluster}&from=earliest"
    items: list[dict[str, Any]] = console.rest.ok("GET", f"/messages?{query}")["items"]
    return items


def test_a_message_is_written_once_for_each_key_of_a_request_and_copied(estate, console: Console) -> None:
    name, _ = declared(console)
    body = {
        "stream": full(name),
        "key": {"text": "order-17"},
        "value": {"json": {"status": "paid", "name": "Käthe"}},
        "headers": [["trace", "7f3c"], ["empty", None]],
        "timestamp_ms": 1_767_225_600_000,
    }
    key = {"Idempotency_Key": uuid.uuid4().hex}

    def send(_: int) -> Any:
        return console.rest("POST", "/messages", body, **key)

    # Two at once, which is a user's limit, and one afterwards.
    with ThreadPoolExecutor() as threads:
        answers = [*threads.map(send, range(2)), send(2)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert [answer.json() for answer in answers] == [
        {"cluster": "cluster-1", "partition": 0, "offset": 0, "timestamp_ms": 1_767_225_600_000, "warning": None}
    ] * 3
    console.rest.ok("POST", "/messages", {"stream": full(name), "value": None, "key": {"base64": "AP8="}})
    first, second = read(console, name)
    assert (first["key"], first["value"]) == ("order-17", {"status": "paid", "name": "Käthe"})
    assert first["headers"] == [["trace", "7f3c"], ["empty", None]] and first["origin"] is None
    assert (second["key"], second["key_format"], second["value"]) == ("AP8=", "bytes", None)
    events = console.rest.ok("GET", "/events?name=MessageProduced&limit=1000")["items"]
    [told, _] = [each["data"] for each in events if each["data"]["stream"] == full(name)]
    assert told == {
        "stream": full(name),
        "cluster": "cluster-1",
        "partition": 0,
        "offset": 0,
        "key_bytes": 8,
        "value_bytes": 33,
        "header_count": 2,
        "switch": None,
    }
    eventually(lambda: len(read(console, name, "cluster-5")) == 2, "it is copied")


def test_what_a_broker_refuses_is_told(estate) -> None:
    servers = estate.bootstrap_servers("cluster-1")
    message = NewMessage(partition=0, key=None, value=b"x" * 5_000, headers=[], timestamp_ms=None)
    with pytest.raises(MessageRefused, match=r"max\.message\.bytes"):
        write_message(made(servers, max_message_bytes="2000"), message)
    with pytest.raises(MessageRefused, match="without a key"):
        write_message(made(servers, cleanup_policy="compact"), message)


def test_keys_are_in_the_partitions_of_kafkas_own_clients(estate) -> None:
    place = made(estate.bootstrap_servers("cluster-1"), 12)
    found = {}
    for key in (b"21", b"foobar", b"a-little-bit-long-string"):
        message = NewMessage(partition=None, key=key, value=b"", headers=[], timestamp_ms=None)
        found[key] = write_message(place, message).partition
    # Kafka's UtilsTest: murmur2 of these is -973932308, -790332482 and -985981536.
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert found == {key: (value & 0x7FFFFFFF) % 12 for key, value in hashes.items()}
    assert len(read_all(place.bootstrap_servers, place.topic)) == 3


def test_the_command_produces_what_it_is_given(estate, console: Console, stream: str, tmp_path) -> None:
    file = tmp_path / "value"
    file.write_bytes(b"\xff\x00")
    tried = estate.treeline("produce", full(stream), "--value", "{}", "--as-json", "--dry-run", "--json")
    assert json.loads(tried.stdout)["topic"].endswith(stream) and "nothing was produced" in tried.stderr
    for words in (
        ("--key", "k", "--value", '{"n": 1}', "--as-json", "--header", "trace=a=b"),
        ("--value-file", str(file), "--partition", "0"),
        ("--key", "k", "--tombstone"),
    ):
        ended = estate.treeline("produce", full(stream), *words, "--json")
        assert ended.returncode == 0, ended.stderr
        place = json.loads(ended.stdout)
        [item] = console.rest.ok(
            "GET", f"/messages?stream={full(stream)}&partition=0&from={place['offset']}&limit=1"
        )["items"]
        if "trace=a=b" in words:
            assert (item["value"], item["headers"]) == ({"n": 1}, [["trace", "a=b"]])
        else:
            assert item["value"] == (None if "--tombstone" in words else "/wA=")
    for words, told in ((("--header", "a"), "NAME=VALUE"), (("--value", "{", "--as-json"), "not JSON")):
        wrong = estate.treeline("produce", full(stream), "--value", "x", *words)
        assert wrong.returncode == 2 and told in wrong.stderr


def test_the_form_previews_produces_once_and_leads_to_the_message(console: Console) -> None:
    name, _ = declared(console)
    owner = Visitor(console, f"owner-{uuid.uuid4().hex[:6]}", acme="owner")
    page = f"/tenants/acme/retail/prod/{name}/-messages"
    assert f'href="{page}/-produce?cluster=cluster-1"' in owner.get(page).text
    form = f"{page}/-produce"
    fields = {
        "cluster": "cluster-1",
        "partition": "",
        "key_format": "text",
        "message_key": "order-17",
        "value_format": "json",
        "value": '{"status": "paid"}',
        "headers": "trace=7f3c",
    }
    wrong = owner.send(form, step="preview", **{**fields, "value": "{", "headers": ""})
    assert wrong.status_code == 422 and "it is not JSON" in said(wrong)
    wrong = owner.send(form, step="preview", **{**fields, "headers": "copy-flags=1"})
    assert wrong.status_code == 422 and "Treeline's own header" in said(wrong)
    preview = owner.preview(form, **fields)
    shown = rows(preview, "data-field")
    assert shown["Technical name"].endswith(name) and "by key" in shown["Partition"]
    assert shown["Key"].endswith("8 bytes") and shown["Value"].endswith("18 bytes")
    assert code(preview, "same-command").startswith(
        f"treeline produce {full(name)} --cluster cluster-1 --key order-17"
    )
    assert read(console, name) == []
    done = owner.confirm(form, **fields)
    assert done.status_code == 303
    produced = owner.get(done.headers["location"])
    assert f"partition 0 of {name} on cluster-1, at offset 0" in said(produced)
    address = re.search(r'id="message" href="([^"]+)"', produced.text)
    assert address is not None
    assert "order-17" in said(owner.get(address[1].replace("&amp;", "&")))
    assert [item["headers"] for item in read(console, name)] == [[["trace", "7f3c"]]]
    member = Visitor(console, f"member-{uuid.uuid4().hex[:6]}", acme="member")
    assert member.get(form).status_code == 403 and "-produce?" not in member.get(page).text
    assert Visitor(console, f"gil-{uuid.uuid4().hex[:6]}").get(form).status_code == 404
