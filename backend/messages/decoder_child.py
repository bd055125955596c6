"""The decoder process: decodes records and evaluates expressions for its parent, within limits.

    python -m backend.messages.decoder_child PARENT SHARED MEMORY IDLE

PARENT is the parent's process id, SHARED the descriptor of the shared memory, MEMORY the bytes of address space,
IDLE the seconds without a request after which it ends; standard input is the socket (`decoder_frames`). It has
nothing of its parent's environment, opens neither files nor connections after its start, except to read a schema,
and ends with its parent. Limits of time are the parent's matter, which kills it.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

from backend.messages import decoder_frames
from backend.messages.decoder_frames import Phase
from backend.messages.decoding.bounds import EvaluationFailed
from backend.messages.decoding.comparisons import NOTHING
from backend.messages.decoding.fields import NO_MEMORY, Field, KnownSchema, decoded, written
from backend.messages.decoding.schemas import SchemaBeyondLimits, SchemaUnusable, decoder
from backend.parent_exit import exit_with_parent

FLUSH_SECONDS = 0.05
FLUSH_CHARACTERS = 65_536
_CACHED_EXPRESSIONS = 32
_MOST_FILE_BYTES = 256 * 1024 * 1024
"""Most bytes of a file: of what the compiler of Protobuf schemas writes."""
_FORMATS = {"AVRO": "avro", "JSON": "json", "PROTOBUF": "protobuf"}


class _Condition(NamedTuple):
    """The expression that must hold for a record's value, and the reader of short JSON."""

    holds: Callable[[Any], bool]
    read_plain: Callable[[bytes], Any]
    facts: Mapping[str, Any]
    """Answer to the parent that checks the expression."""


def main() -> None:
    """Serve the parent until it ends, closes the socket, or has nothing to decode for a while."""
    parent, shared, memory, idle = sys.argv[1:]
    exit_with_parent()
    if os.getppid() != int(parent):
        return  # it ended before this process could ask to end with it
    _limit(int(memory))
    work = mmap.mmap(int(shared), mmap.PAGESIZE)
    os.close(int(shared))
    with socket.socket(fileno=0) as connection, contextlib.suppress(TimeoutError, ConnectionError):
        connection.settimeout(float(idle))
        _Server(connection, work).serve()


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_FILE_BYTES, _MOST_FILE_BYTES))
    # If memory is short, this process is to be killed, not the one that it works for.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


@contextlib.contextmanager
def _files() -> Iterator[None]:
    """Allow files to be opened: to import modules, and for the compiler of Protobuf schemas."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def _folder() -> Iterator[None]:
    """Provide the folder of temporary files. The parent removes it if this process is killed in the meantime."""
    folder = os.environ["TMPDIR"]
    os.mkdir(folder, 0o700)
    try:
        yield
    finally:
        os.rmdir(folder)


class _Server:
    def __init__(self, connection: socket.socket, work: mmap.mmap) -> None:
        self._connection = connection
        self._stream: BinaryIO = connection.makefile("rb")
        self._work = memoryview(work).cast("q")
        self._schemas: dict[str, KnownSchema] = {}
        """Schemas by digest; the parent knows which are here, and says when to forget them."""

    def serve(self) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # These are taken, so nothing can be opened any more.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        self._send(0, "{}")
        while (request := self._request()) is not None:
            head, parts = request
            if "check" in head:
                self._at(Phase.EXPRESSION)
                condition, wrong = _compiled(head["check"])
                self._at(Phase.WAITING)
                self._send(0, json.dumps({"wrong": wrong} if condition is None else condition.facts))
            else:
                self._decode(head, parts)

    def _request(self) -> tuple[dict[str, Any], list[bytes | None]] | None:
        sizes = self._stream.read(decoder_frames.REQUEST.size)
        if len(sizes) < decoder_frames.REQUEST.size:
            return None
        head, count, body = decoder_frames.REQUEST.unpack(sizes)
        said = json.loads(self._stream.read(head))
        lengths = self._stream.read(decoder_frames.size_of_parts(count))
        return said, decoder_frames.parts(lengths, self._stream.read(body))

    def _at(self, phase: Phase, number: int = 0) -> None:
        self._work[1] = number
        self._work[0] = phase

    def _send(self, done: int, text: str, *, is_last: bool = True) -> None:
        self._connection.sendall(decoder_frames.answer(done, text, is_last=is_last))

    def _decode(self, head: Mapping[str, Any], parts: list[bytes | None]) -> None:
        deadline = time.monotonic() + head["seconds"]
        schemas = self._known(head)
        condition: _Condition | None = None
        if head["expression"] is not None:
            self._at(Phase.EXPRESSION)
            condition, wrong = _compiled(head["expression"])
            if condition is None:
                self._at(Phase.WAITING)
                self._send(0, json.dumps({"wrong": wrong}))
                return
        self._at(Phase.RECORD)
        self._records(parts, schemas, condition, deadline)

    def _known(self, head: Mapping[str, Any]) -> dict[int, KnownSchema]:
        """Return the schemas of a request by id; those that are new here are compiled."""
        if head["forget"]:
            self._schemas.clear()
        found: dict[int, KnownSchema] = {}
        for number, (schema_id, digest) in enumerate(head["schemas"].items()):
            if digest not in self._schemas:
                self._at(Phase.SCHEMA, number)
                self._schemas[digest] = _schema(*head["texts"][digest])
            found[int(schema_id)] = self._schemas[digest]
        return found

    def _records(
        self,
        parts: list[bytes | None],
        schemas: Mapping[int, KnownSchema],
        condition: _Condition | None,
        deadline: float,
    ) -> None:
        found: list[str] = []
        characters = done = 0
        flushed = time.monotonic()
        work, clock = self._work, time.monotonic
        for number in range(len(parts) // 2):
            work[1] = number
            key, value = parts[2 * number], parts[2 * number + 1]
            text = _record(number, key, value, schemas, condition)
            if text is not None:
                found.append(text)
                characters += len(text)
            done = number + 1
            now = clock()
            if now >= deadline:
                break
            if now - flushed > FLUSH_SECONDS or characters > FLUSH_CHARACTERS:
                # The work stays marked as this record, which is done: its answer may be what memory is short for.
                self._send(done, f"[{','.join(found)}]", is_last=False)
                found, characters, flushed = [], 0, now
        self._at(Phase.WAITING)
        self._send(done, f"[{','.join(found)}]")


def _record(
    number: int,
    key: bytes | None,
    value: bytes | None,
    schemas: Mapping[int, KnownSchema],
    condition: _Condition | None,
) -> str | None:
    """Return a record's answer, `[number, key, value]`; None if the expression does not hold."""
    try:
        plain = NOTHING if condition is None or value is None else condition.read_plain(value)
        field = decoded(value, schemas) if plain is NOTHING else Field("json", plain)
        if condition is not None and not field.is_undecided:
            # A record that the expression has no result for is shown, with the reason.
            try:
                if field.value is NOTHING or not condition.holds(field.value):
                    return None
            except EvaluationFailed as error:
                field = field._replace(problem=str(error))
            except RecursionError:
                field = field._replace(problem="The expression is nested too deeply for it.")
        return f"[{number},{written(decoded(key, schemas))},{written(field)}]"
    except MemoryError:
        raw = written(Field("bytes", NOTHING, None, NO_MEMORY, is_raw=True))
        return f"[{number},{raw},{raw}]"


@lru_cache(_CACHED_EXPRESSIONS)
def _compiled(text: str) -> tuple[_Condition | None, tuple[str, int] | None]:
    """Return an expression's condition; or what is wrong with it, and where."""
    with _files():
        from backend.messages.decoding import expressions, plain_json
    try:
        found = expressions.compiled(text)
    except expressions.ExpressionWrong as error:
        return None, (error.reason, error.position)
    except MemoryError:
        return None, ("it takes more memory than an expression may use", 0)
    facts = {"required": found.required, "is_bounded": found.is_bounded}
    return _Condition(found.holds, plain_json.read, facts), None


def _schema(language: str, text: str, references: Mapping[str, str]) -> KnownSchema:
    """Compile a schema. Without a language, the text is why it is not to be compiled again."""
    form = _FORMATS.get(language, "bytes")
    if not language:
        return KnownSchema(form, SchemaBeyondLimits(text))
    try:
        with _files(), _folder() if language == "PROTOBUF" else contextlib.nullcontext():
            return KnownSchema(form, decoder(language, text, references))
    except SchemaUnusable as error:
        return KnownSchema(form, error)
    except MemoryError:
        return KnownSchema(form, SchemaBeyondLimits("It takes more memory than a schema may use."))
    except OSError as error:
        return KnownSchema(form, SchemaBeyondLimits(f"Its compiler cannot work: {error.strerror}."))


if __name__ == "__main__":
    main()
