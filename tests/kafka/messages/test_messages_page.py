"""The page of a stream's messages on the real estate: strange messages, filters, following new ones, exports."""

from __future__ import annotations

import csv
import io
import re
import uuid

import httpx2
import pytest

from tests.eventually import eventually
from tests.support.console.consoles import Console
from tests.support.console.visitors import Visitor, said
from tests.support.kafka.topics import DEADLINE_SECONDS, produce, produce_with_names, read_all

STREAMS = "/tenants/acme/instances/retail/environments/prod/streams"
STRANGE = [
    {"key": b"<script>alert(1)</script>", "value": b"=2+3", "partition": 0},
    {"key": b"order-1", "value": '{"status": "paid", "name": "Käthe"}'.encode(), "partition": 0},
    {"key": b"order-2", "value": b'{"status": "open"}', "partition": 0, "headers": [("trace-id", b"\xff\x00")]},
    {"key": None, "value": b"\x00\xff\xfe", "partition": 0},
    {"key": b"gone", "value": None, "partition": 0},
    {"key": b"k" * 249, "value": b"x" * 20_000, "partition": 0},
]


@pytest.fixture(scope="module")
def console(estate) -> Console:
    return Console(estate.url, estate.token)


def declared(console: Console) -> tuple[str, dict[str, str]]:
    """Declare a stream; return its name, and its topics by cluster."""
    name = f"read-{uuid.uuid4().hex[:8]}"
    console.rest.ok("POST", STREAMS, {"name": name, "partitions": 1})

    def applied() -> dict[str, str] | None:
        row = console.rest.ok("GET", f"{STREAMS}/{name}")
        return row["technical_names"] if set(row["applied"].values()) == {"applied"} else None

    return name, eventually(applied, "the stream is applied")


@pytest.fixture
def empty_page(console: Console) -> str:
    """Return the address of the page of a stream without messages."""
    return f"/tenants/acme/retail/prod/{declared(console)[0]}/-messages"


@pytest.fixture(scope="module")
def page(estate, console: Console) -> str:
    """Return the address of the page of a stream with strange messages, which are on every cluster."""
    name, topics = declared(console)
    servers, topic = estate.bootstrap_servers("cluster-1"), topics["cluster-1"]
    produce(servers, topic, STRANGE)
    produce_with_names(servers, topic, [(b"\xff", b"1")], b"last")
    eventually(
        lambda: len(read_all(estate.bootstrap_servers("cluster-5"), topics["cluster-5"])) == 7, "they are copied"
    )
    return f"/tenants/acme/retail/prod/{name}/-messages"


def offsets(text: str) -> list[int]:
    return [int(found) for found in re.findall(r'data-offset="(\d+)"', text)]


def test_strange_messages_are_shown_the_newest_first_and_run_nothing(console: Console, page: str) -> None:
    found = console.get(f"{page}?cluster=cluster-1")
    assert found.status_code == 200 and offsets(found.text) == [6, 5, 4, 3, 2, 1, 0]
    assert "<script>alert" not in found.text and "&lt;script&gt;alert(1)&lt;/script&gt;" in found.text
    text = said(found)
    assert "7 messages on cluster-1" in text and "Nothing follows." in text
    assert "Produced on cluster-1." in text and "Käthe" in text and "4,000 more characters" in text
    assert "0000 00 ff fe ..." in text and "AP/+" not in text


def test_a_copy_names_its_origin_and_leads_to_its_trace(console: Console, page: str) -> None:
    found = console.get(f"{page}?cluster=cluster-5&begin=earliest&limit=1")
    assert "Copied from cluster-1, offset 0 (copy flags 0101)" in said(found)
    trace = re.search(r'href="(/trace\?[^"]+)"', found.text)
    assert trace is not None
    assert "On every cluster of the tree" in said(console.get(trace[1].replace("&amp;", "&")))


def test_filters_and_pages_keep_what_was_asked(console: Console, page: str) -> None:
    asked = f"{page}?cluster=cluster-1&begin=earliest"
    assert offsets(console.get(f'{asked}&json=$.status == "paid"').text) == [1]
    assert offsets(console.get(f"{asked}&key=order&header=trace-id").text) == [2]
    first = console.get(f"{asked}&limit=2&text=")
    walked, further = offsets(first.text), re.search(r'id="further" href="([^"]+)"', first.text)
    while further is not None:
        following = console.get(further[1].replace("&amp;", "&"))
        walked += offsets(following.text)
        further = re.search(r'id="further" href="([^"]+)"', following.text)
    assert walked == list(range(7))


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("begin=offset&offset=99&partition=0", 404, "there is no offset 99"),
        ("begin=offset&offset=1", 422, "give the partition, too"),
        ("begin=time&time=yesterday", 422, "a time is in milliseconds since 1970"),
        ("json=$[", 422, "the expression is invalid at character 1"),
        ("cluster=<b>", 404, "There is no cluster"),
        ("partition=7", 422, "has partitions 0 to 0"),
    ],
)
def test_a_refusal_stands_beside_the_form(
    console: Console, page: str, query: str, status: int, words: str
) -> None:
    found = console.get(f"{page}?{query}")
    assert found.status_code == status
    assert words in said(found) and 'name="json"' in found.text and "<b>" not in found.text


def test_new_messages_are_followed_until_the_viewer_leaves(estate, console: Console, empty_page: str) -> None:
    name = empty_page.split("/")[5]
    topic = f"acme-retail-prod-{name}"
    servers = estate.bootstrap_servers("cluster-1")
    address = f"{console.url}{empty_page}/-live?cluster=cluster-1&key=followed"
    headers = {"Authorization": f"Bearer {console.token}"}
    with httpx2.stream("GET", address, headers=headers, timeout=DEADLINE_SECONDS) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        next(line for line in lines if line == "event: beat")
        produce(servers, topic, [{"key": b"other", "value": b"1"}, {"key": b"followed", "value": b"<b>2"}])
        next(line for line in lines if line == "event: messages")
        text = "".join(iter(lambda: next(lines).removeprefix("data:"), ""))
    assert re.findall(r'data-offset="(\d+)"', text) == ["1"] and "&lt;b&gt;2" in text
    rows = console.rest.ok("GET", "/tenants/acme/audit?kind=MessagesRead")["items"]
    assert sum(name in str(row) and "live" in str(row) for row in rows) == 1


def followed(console: Console, address: str, until: str, **headers: str) -> dict[str, str]:
    """Return the data of each kind of event, and the last id, up to an event of a kind."""
    sent = {"Authorization": f"Bearer {console.token}", **headers}
    found: dict[str, str] = {}
    with httpx2.stream("GET", address, headers=sent, timeout=DEADLINE_SECONDS) as answer:
        assert answer.status_code == 200
        event = ""
        for line in answer.iter_lines():
            name, _, text = line.partition(": ")
            if name == "event":
                event = text
            elif name == "id":
                found["id"] = text
            elif name == "data":
                found[event] = found.get(event, "") + text
            elif not line and event == until:
                return found
    raise AssertionError(f"no {until}: {found}")


def test_a_tail_that_reconnects_continues_where_it_was(estate, console: Console, empty_page: str) -> None:
    # Of another user, since each has three tails at most.
    console = Console(console.url, Visitor(console, f"ada-{uuid.uuid4().hex[:6]}", "operator").token)
    servers = estate.bootstrap_servers("cluster-1")
    topic = f"acme-retail-prod-{empty_page.split('/')[5]}"
    address = f"{console.url}{empty_page}/-live?cluster=cluster-1"
    first = followed(console, address, "beat")
    assert re.fullmatch(r"cluster-1/\d+/0=0", first["id"])
    produce(servers, topic, [{"key": b"between", "value": b"%d" % n} for n in range(3)])
    again = followed(console, address, "messages", **{"Last-Event-ID": first["id"]})
    assert re.findall(r'data-offset="(\d+)"', again["messages"])[-1] == "0" and "restarted" not in again
    truncated = followed(console, address, "beat", **{"Last-Event-ID": first["id"].replace("0=0", "0=99")})
    assert "truncated" in truncated["restarted"]


def test_exports_have_what_the_page_has_and_no_formulas(console: Console, page: str) -> None:
    query = "cluster=cluster-1&begin=earliest"
    items = console.get(f"{page}/-export?{query}&form=json").json()["items"]
    assert [each["offset"] for each in items] == list(range(7)) and len(items[5]["value"]) == 20_000
    assert items[3]["value"] == "AP/+"
    lines = list(csv.DictReader(io.StringIO(console.get(f"{page}/-export?{query}&form=csv").text)))
    assert [line["offset"] for line in lines] == [str(n) for n in range(7)]
    assert lines[0]["value"] == "'=2+3" and '"status": "paid"' in lines[1]["value"]
