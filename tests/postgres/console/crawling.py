"""A crawler that follows all links of pages, parses their forms, and detects scripts in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx2

POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
MOST_PAGES = 1_000
_MOST_OF_A_PATH, _MOST_NUMBERED = 2, 30
_NUMBER = re.compile(r"/[0-9]+")
_RUNS = re.compile(r"\s*(javascript|data|vbscript):", re.IGNORECASE)


@dataclass
class Form:
    """One form; `texts`: fields that take any text; `fields`: all fields with their values."""

    method: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """Contents of a page. `scripts`: code that would run although no file of ours contains it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.forms: list[Form] = []
        self.scripts: list[str] = []
        self._of_text: tuple[Form, str] | None = None
        self._inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "script" and not given.get("src", "").startswith("/static/"):
            self.scripts.append(f"<script {given}>")
        if tag == "style" or "style" in given:
            self.scripts.append(f"a style in <{tag} {given}>")
        self.scripts += [f"{name}={value}" for name, value in given.items() if name.startswith("on")]
        self.scripts += [value for value in given.values() if _RUNS.match(value)]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "form":
            self.forms.append(Form(given.get("method", "get").lower(), given.get("action", "")))
        if self.forms and tag in ("input", "textarea", "select") and "name" in given:
            form, name = self.forms[-1], given["name"]
            form.fields.setdefault(name, given.get("value", ""))
            kind = given.get("type", "text")
            if tag == "textarea" or (tag == "input" and kind not in ("hidden", "checkbox", "radio", "submit")):
                form.texts.append(name)
            if tag == "textarea":
                self._of_text = (form, name)
        if tag == "option" and self.forms and "selected" in given and "value" in given:
            last = next(reversed(self.forms[-1].fields), None)
            if last is not None:
                self.forms[-1].fields[last] = given["value"]

    def handle_data(self, data: str) -> None:
        if self._of_text is not None:
            form, name = self._of_text
            form.fields[name] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._of_text = None


def crawl(
    client: httpx2.Client, starts: Iterator[str] | tuple[str, ...], most: int = MOST_PAGES
) -> dict[str, httpx2.Response]:
    """Return every page that links lead to, by address.

    Of addresses that differ only in their query a few are visited, and of those that differ in a number, such as
    events, some more.
    """
    found: dict[str, httpx2.Response] = {}
    waiting, by_path = list(starts), dict[str, int]()
    while waiting and len(found) < most:
        address = waiting.pop(0)
        path = urlsplit(address).path
        kind = _NUMBER.sub("/#", path)
        most_of_kind = _MOST_OF_A_PATH if kind == path else _MOST_NUMBERED
        if (
            address in found
            or by_path.get(kind, 0) >= most_of_kind
            or path.startswith(("/static/", "/api/", "/logout"))
        ):
            continue
        by_path[kind] = by_path.get(kind, 0) + 1
        answer = found[address] = client.get(address)
        if answer.headers.get("content-type", "").startswith("text/html"):
            for link in Page(answer.text).links:
                onward = urldefrag(urljoin(address, link)).url
                if onward.startswith("/"):
                    waiting.append(onward)
        elif answer.status_code in (302, 303) and answer.headers["location"].startswith("/"):
            waiting.append(answer.headers["location"])
    return found
