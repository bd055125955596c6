"""A message on the page: bytes are a hex dump, and headers have bounds and run nothing."""

from __future__ import annotations

import base64

import pytest

from backend.messages.decoded_fields import DecodedField
from backend.web.frame import templates
from backend.web.messages.hex_dump import hex_dump
from backend.web.messages.message_view import FieldView, MessageView, message_view
from backend.web.messages.messages_page import TEMPLATE
from tests.unit.messages.test_documents import FACTS, document

SCRIPT = "<script>alert(1)</script>"
JSON = b'{"id":1,"\x00\xff":"~"}'


def page(view: MessageView) -> str:
    return templates.block(TEMPLATE, "messages", {"items": [view]})


def viewed(data: bytes) -> FieldView:
    """Return the view of a value that is bytes."""
    value = DecodedField("bytes", base64.b64encode(data).decode(), None, None)
    return message_view(FACTS, document([], value=value)).value


def test_a_dump_has_offsets_bytes_and_printable_ascii() -> None:
    assert hex_dump(JSON) == (
        f'0000  7b 22 69 64 22 3a 31 2c 22 00 ff 22 3a 22 7e 22  {{"id":1,"..":"~"\n0010  7d{" " * 47}}}'
    )
    assert hex_dump(b"\x1f\x20\x7e\x7f").endswith("  . ~.")
    assert hex_dump(b"") == ""


@pytest.mark.parametrize("size", [0, 1, 2, 3, 31, 32, 33, 1023, 1024])
def test_bytes_up_to_the_bound_are_dumped_in_full(size: int) -> None:
    data = bytes(number % 256 for number in range(size))
    found = viewed(data)
    dumped = "".join(line[6:53] for line in found.text.splitlines())
    assert (found.kind, found.is_dump, found.rest) == ("Bytes", True, "")
    assert bytes.fromhex(dumped) == data
    assert found.line == data[:32].hex(" ") + (" …" if size > 32 else "")


@pytest.mark.parametrize(("size", "said"), [(1025, "… 1 more byte."), (4001, "… 2,977 more bytes.")])
def test_what_is_not_dumped_is_counted(size: int, said: str) -> None:
    found = viewed(b"x" * size)
    assert len(found.text.splitlines()) == 64
    assert found.rest == f"{said} The exports have all of them, in Base64."


def test_the_page_has_the_dump_and_a_short_form() -> None:
    value = DecodedField("bytes", base64.b64encode(b"\x00<b>" * 500).decode(), 7, "no such schema")
    text = page(message_view(FACTS, document([], value=value)))
    assert '<pre class="dump"' in text and "Bytes, schema 7" in text
    assert "0000  00 3c 62 3e 00" in text and ".&lt;b&gt;.&lt;b&gt;" in text and "<b>" not in text
    assert "… 976 more bytes. The exports have all of them, in Base64." in text


def test_texts_say_how_many_characters_are_not_shown() -> None:
    value = DecodedField("text", "x" * 20_000, None, None)
    found = message_view(FACTS, document([], value=value)).value
    assert (len(found.text), found.rest) == (16_000, "4,000 more characters. The exports have all of them.")
    assert not found.is_dump


def test_a_thousand_headers_and_one_of_a_megabyte_have_bounds_and_run_nothing() -> None:
    long = SCRIPT * (1_000_000 // len(SCRIPT))
    small = [(f"{SCRIPT}{number}", SCRIPT.encode()) for number in range(999)]
    text = DecodedField("text", SCRIPT, None, None)
    view = message_view(FACTS, document([(long, long.encode()), *small], text, text))
    assert (len(view.headers), view.more_headers) == (100, 900)
    assert (view.headers[0].name, view.headers[0].value) == (
        long[:1000],
        f"{long[:1000]} … and 999,000 characters more",
    )
    shown = page(view)
    assert "<script" not in shown and shown.count("&lt;script&gt;") == 80 + 2 * 99 + 4
    assert "900 more headers. The exports have all of them." in shown
    assert len(shown) < 100_000


def test_a_header_with_control_characters_is_in_hex() -> None:
    view = message_view(FACTS, document([("copy-flags", b"\x00\x00\x00\x05"), ("lines", b"a\n\tb")]))
    assert [(each.value, each.meaning) for each in view.headers] == [
        ("00 00 00 05", "Copy flags: 0101"),
        ("a\n\tb", ""),
    ]
