"""Schemas of a request's records: looked up by id, sent to decoder processes, and refused if they harm these."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from backend.messages.decoder_process import DecoderProcess

MOST_LOOKED_UP = 100
"""Most ids that one call looks up: any five bytes may look like an id."""
MOST_CHARACTERS = 2_000_000
"""Most characters of a schema with its references."""
_REFUSED_SECONDS = 60.0
_MOST_REFUSED = 1_000
_MOST_CACHED = 200
_MOST_CACHED_CHARACTERS = 4_000_000
_ID_BYTES = 5
_MOST_ID = 2**31 - 1


@dataclass(frozen=True)
class SchemaText:
    """A schema as it is registered."""

    format: str
    """AVRO, JSON or PROTOBUF."""
    schema: str
    references: Mapping[str, str]
    """Name -> text of all direct and indirect references, each after its own."""


class SentSchema(NamedTuple):
    """A schema as it is sent, and the text by which processes know it."""

    digest: str
    content: tuple[str, str, Mapping[str, str]]
    characters: int


class UnusableSchemas:
    """Schemas that ended a decoder process, or took it too long: refused for a minute. Threads share it."""

    def __init__(self, schema_seconds: float) -> None:
        """`schema_seconds`: time that a schema may take."""
        self._schema_seconds = schema_seconds
        self._lock = threading.Lock()
        self._reasons: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._tries: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Seconds that unfinished tries have taken, and until when they count."""

    def refuse(self, digest: str, reason: str) -> None:
        """Refuse a schema for a while."""
        with self._lock:
            self._reasons[digest] = reason, time.monotonic() + _REFUSED_SECONDS
            while len(self._reasons) > _MOST_REFUSED:
                self._reasons.popitem(last=False)

    def given_up(self, digest: str, seconds: float) -> None:
        """Note that a request's time was over after so many seconds with a schema.

        It is refused once such tries have taken what a schema may take: requests with less time than that would
        else try it for ever.
        """
        now = time.monotonic()
        with self._lock:
            before, until = self._tries.pop(digest, (0.0, 0.0))
            taken = seconds + (before if now < until else 0.0)
            is_over = taken > self._schema_seconds
            if not is_over:
                self._tries[digest] = taken, now + _REFUSED_SECONDS
            while len(self._tries) > _MOST_REFUSED:
                self._tries.popitem(last=False)
        if is_over:
            self.refuse(digest, f"It takes longer than {self._schema_seconds:g} s to read.")

    def reason(self, digest: str) -> str | None:
        """Return why a schema is refused; None if it is not."""
        with self._lock:
            reason, until = self._reasons.get(digest, ("", 0.0))
        return reason if time.monotonic() < until else None


class RequestSchemas:
    """Schemas of one request."""

    def __init__(self, look_up: Callable[[int], SchemaText | None], unusable: UnusableSchemas) -> None:
        self._look_up, self._unusable = look_up, unusable
        self._known: dict[int, SentSchema | None] = {}

    def find(self, parts: Iterable[bytes | None]) -> dict[int, SentSchema]:
        """Return the schemas that these keys and values refer to, by id. Raises what the look-up raises."""
        ids = {
            int.from_bytes(part[1:_ID_BYTES], "big")
            for part in parts
            if part is not None and part[:1] == b"\0" and len(part) >= _ID_BYTES
        }
        found = {}
        for schema_id in sorted(ids):
            if schema_id not in self._known and 0 < schema_id <= _MOST_ID and len(self._known) < MOST_LOOKED_UP:
                text = self._look_up(schema_id)
                self._known[schema_id] = None if text is None else _sent(text)
            sent = self._known.get(schema_id)
            if sent is not None:
                reason = self._unusable.reason(sent.digest)
                found[schema_id] = sent if reason is None else _refused(sent.digest, reason)
        return found

    def refuse(self, schema: SentSchema, reason: str) -> None:
        """Refuse a schema, in this request and in others."""
        self._unusable.refuse(schema.digest, reason)

    def given_up(self, schema: SentSchema, seconds: float) -> None:
        """Note that the request's time was over after so many seconds with a schema."""
        self._unusable.given_up(schema.digest, seconds)


def are_large(schemas: Mapping[int, SentSchema]) -> bool:
    """Return whether schemas are too many characters for one request."""
    return sum(each.characters for each in schemas.values()) > _MOST_CACHED_CHARACTERS


def head_of(schemas: Mapping[int, SentSchema], process: DecoderProcess) -> dict[str, Any]:
    """Return what a request says of its schemas; the process is remembered to know them from then on."""
    wanted = {each.digest: each for each in schemas.values()}
    new = {digest: each for digest, each in wanted.items() if digest not in process.schemas}
    characters = process.schema_characters + sum(each.characters for each in new.values())
    forget = len(process.schemas) + len(new) > _MOST_CACHED or characters > _MOST_CACHED_CHARACTERS
    if forget:
        process.schemas.clear()
        new, characters = wanted, sum(each.characters for each in wanted.values())
    process.schemas |= new.keys()
    process.schema_characters = characters
    return {
        "forget": forget,
        "schemas": {schema_id: each.digest for schema_id, each in schemas.items()},
        "texts": {digest: each.content for digest, each in new.items()},
    }


def _sent(text: SchemaText) -> SentSchema:
    characters = len(text.schema) + sum(len(name) + len(each) for name, each in text.references.items())
    content = text.format, text.schema, dict(text.references)
    digest = _digest((*content[:2], *(each for pair in content[2].items() for each in pair)))
    if characters > MOST_CHARACTERS:
        return _refused(digest, f"It is longer than {MOST_CHARACTERS:,} characters.")
    return SentSchema(digest, content, characters)


def _digest(texts: Iterable[str]) -> str:
    found = hashlib.sha256()
    for text in texts:
        data = text.encode(errors="surrogatepass")
        found.update(len(data).to_bytes(8, "big"))
        found.update(data)
    return found.hexdigest()


def _refused(digest: str, reason: str) -> SentSchema:
    return SentSchema(f"{digest} {reason}", ("", reason, {}), len(reason))
