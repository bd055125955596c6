"""Decoding of records and evaluation of JSONPath expressions, in processes with limits.

Any producer can write any bytes, and any tenant can register any schema. Whatever these make a decoder do, this
process goes on: a record that ends a decoder process, or keeps it too long, is marked, and another one continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from backend.messages import decoder_frames
from backend.messages.decoded_fields import DecodedField, Pair, Parts, pair, undecoded
from backend.messages.decoder_frames import Phase
from backend.messages.decoder_pool import DecoderPool, NoneFree, PoolClosed
from backend.messages.decoder_process import Answer, DecoderProcess, Limits, ProcessEnded, StartFailed, TimeOver
from backend.messages.decoder_schemas import (
    RequestSchemas,
    SchemaText,
    SentSchema,
    UnusableSchemas,
    are_large,
    head_of,
)

__all__ = [
    "CheckedExpression",
    "DecodedField",
    "Decoders",
    "DecodersUnavailable",
    "DecodingEnded",
    "ExpressionInvalid",
    "Limits",
    "Parts",
    "SchemaText",
]

LARGEST_BYTES = 16 * 1024 * 1024
"""Bytes of the largest record that is decoded; larger ones are shown as bytes."""
_CHUNK_RECORDS = 2_000
_CHUNK_BYTES = 1024 * 1024
_CHECK_SECONDS = 10.0
_ATTEMPTS = 2

Results = list[Pair | None]


class ExpressionInvalid(Exception):
    """A text is not a JSONPath expression, or cannot be evaluated; `position` counts its characters from 0."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"The expression is invalid at character {position + 1}: {reason}.")
        self.reason, self.position = reason, position


class DecodingEnded(Exception):
    """The time is over. `results` are those of the first records: as many as are done."""

    def __init__(self, results: Results) -> None:
        super().__init__(f"The time for decoding is over; {len(results)} records are done.")
        self.results = results

    @property
    def done(self) -> int:
        """Return how many records are done."""
        return len(self.results)


class DecodersUnavailable(Exception):
    """No decoder process can be started, or all were closed; the message says why."""


class CheckedExpression(NamedTuple):
    """Facts of a valid expression, found without any value."""

    required: tuple[str, ...] = ()
    """Texts that occur in each value for which it holds."""
    is_bounded: bool = False
    """True if its evaluation takes little time for any short value."""


class Decoders:
    """Decoder processes, shared by threads. They start when they are needed, and end when they are not."""

    def __init__(self, most: int = 2, limits: Limits | None = None) -> None:
        """Prepare at most so many processes."""
        limits = limits or Limits()
        self._pool = DecoderPool(most, limits)
        self._unusable = UnusableSchemas(limits.schema_seconds)

    def check(self, expression: str) -> CheckedExpression:
        """Check a JSONPath expression; return what is known of it.

        Raises ExpressionInvalid; DecodingEnded if no process is free within 10 s; DecodersUnavailable.
        """
        deadline = time.monotonic() + _CHECK_SECONDS
        for attempt in range(_ATTEMPTS):
            try:
                with self._pool.process(deadline) as process:
                    request = decoder_frames.request({"check": expression}, [])
                    invalid: ExpressionInvalid | None = None
                    checked = CheckedExpression()
                    for answer in process.ask(request, deadline):
                        invalid = _invalid(answer, process)
                        if answer.is_last and invalid is None:
                            checked = _checked(answer, process)
            except ProcessEnded as ended:
                if ended.phase is Phase.EXPRESSION:
                    raise ExpressionInvalid(_clause(ended.reason), 0) from ended
                if attempt + 1 == _ATTEMPTS:
                    raise DecodersUnavailable(ended.reason) from ended
            except (TimeOver, NoneFree) as over:
                raise DecodingEnded([]) from over
            except (StartFailed, PoolClosed) as failure:
                raise _unavailable(failure) from failure
            else:
                # Not within the `with`, which would end the process.
                if invalid is not None:
                    raise invalid
                return checked
        raise AssertionError("each attempt returns or raises")

    def decode(
        self,
        parts: Sequence[Parts],
        schemas: Callable[[int], SchemaText | None],
        expression: str | None,
        seconds: float,
    ) -> Results:
        """Decode records; return an entry for each: key and value, or None where the expression does not hold.

        `schemas` returns the schema with an id, or None if there is none that the reader may see; it is called in
        this thread, for at most 100 ids. A record that is not decoded has a `problem`. With an expression, records
        whose value cannot be decoded are left out; those are not that it has no result for within the limits, and
        those whose schema is beyond the limits.

        Raises DecodingEnded if the time is over, also while all processes are in use; ExpressionInvalid;
        DecodersUnavailable; and what `schemas` raises.
        """
        deadline = time.monotonic() + seconds
        job = _Job(self._pool, parts, RequestSchemas(schemas, self._unusable), expression, deadline)
        try:
            while len(job.results) < len(parts):
                job.go_on()
        except NoneFree:
            raise DecodingEnded(job.results) from None
        except (StartFailed, PoolClosed) as failure:
            raise _unavailable(failure) from failure
        return job.results

    def close(self) -> None:
        """End the processes: those in use, when their records are decoded."""
        self._pool.close()


class _Job:
    """Records that are being decoded. `results` are those of the first ones, as many as are done."""

    def __init__(
        self,
        pool: DecoderPool,
        parts: Sequence[Parts],
        schemas: RequestSchemas,
        expression: str | None,
        deadline: float,
    ) -> None:
        self.results: Results = []
        self._pool, self._parts, self._schemas, self._expression = pool, parts, schemas, expression
        self._deadline = deadline
        self._marked: dict[int, Pair] = {}
        """Records, ahead, that ended a process."""
        self._alone_until = 0
        """Records before this one are sent one by one: it is not known at which of them a process ended, or their
        schemas are too large for one request."""
        self._failures = 0
        """Processes that ended since the last result, and it is not known at which record."""

    def go_on(self) -> None:
        """Decode the next records. Raises what `Decoders.decode` does."""
        start = len(self.results)
        first = self._parts[start]
        if start in self._marked:
            self.results.append(self._marked.pop(start))
            return
        if _size(first) > LARGEST_BYTES:
            problem = f"It is larger than {LARGEST_BYTES // 1024 // 1024} MiB, and not decoded."
            self.results.append(undecoded(first, problem))
            return
        end = self._end_of_chunk(start)
        sent = [part for record in self._parts[start:end] for part in record]
        schemas = self._schemas.find(sent)
        if are_large(schemas) and end > start + 1:
            self._alone_until = end
            return
        if time.monotonic() >= self._deadline:
            raise DecodingEnded(self.results)
        invalid = None
        with self._pool.process(self._deadline) as process:
            head = {
                "expression": self._expression,
                "seconds": self._deadline - time.monotonic(),
                **head_of(schemas, process),
            }
            try:
                invalid = self._exchange(process, decoder_frames.request(head, sent), start, end)
            except (ProcessEnded, TimeOver) as ended:
                if ended.phase is Phase.SCHEMA and 0 <= ended.number < len(schemas):
                    self._refuse_schema(list(schemas.values())[ended.number], ended)
                if isinstance(ended, TimeOver):
                    raise DecodingEnded(self.results) from None
                self._blame(ended, start, end)
        # Not within the `with`, which would end the process.
        if invalid is not None:
            raise invalid

    def _refuse_schema(self, schema: SentSchema, ended: ProcessEnded | TimeOver) -> None:
        if isinstance(ended, ProcessEnded):
            self._schemas.refuse(schema, ended.reason)
        else:
            self._schemas.given_up(schema, ended.took)

    def _end_of_chunk(self, start: int) -> int:
        if start < self._alone_until:
            return start + 1
        end, size = start, 0
        most = min(len(self._parts), start + _CHUNK_RECORDS)
        while end < most and end not in self._marked:
            size += _size(self._parts[end])
            if size > _CHUNK_BYTES and end > start:
                break
            end += 1
        return end

    def _exchange(self, process: DecoderProcess, request: bytes, start: int, end: int) -> ExpressionInvalid | None:
        """Take the results; return the error that the expression has, if the process says so."""
        invalid = None
        for answer in process.ask(request, self._deadline):
            invalid = _invalid(answer, process)
            if invalid is None:
                try:
                    self._take(answer, start, end)
                except (ValueError, TypeError, IndexError):
                    raise process.nonsense() from None
        return invalid

    def _take(self, answer: Answer, start: int, end: int) -> None:
        """Take the results of the records that are done. Raises ValueError, TypeError, IndexError for nonsense."""
        before = len(self.results)
        done = start + answer.done
        if not before <= done <= end:
            raise ValueError("an answer is about records that were not sent")
        new: Results = [None] * (done - before)
        for number, key, value in answer.content:
            place = start + number - before
            if place < 0:
                raise ValueError("an answer is about records that are done")
            new[place] = pair(self._parts[start + number], key, value)
        self.results += new
        if new:
            self._failures = 0

    def _blame(self, ended: ProcessEnded, start: int, end: int) -> None:
        """Mark the record at which a process ended; send one by one if it is not known."""
        if ended.phase is Phase.EXPRESSION:
            raise ExpressionInvalid(_clause(ended.reason), 0) from None
        number = start + ended.number
        if ended.phase is Phase.RECORD and len(self.results) <= number < end:
            self._marked[number] = undecoded(self._parts[number], ended.reason)
        elif ended.phase is not Phase.SCHEMA:
            self._failures += 1
            self._alone_until = end
            if self._failures > _ATTEMPTS:
                place = len(self.results)
                self._marked[place] = undecoded(self._parts[place], ended.reason)
                self._failures = 0


def _size(parts: Parts) -> int:
    return len(parts.key or b"") + len(parts.value or b"")


def _invalid(answer: Answer, process: DecoderProcess) -> ExpressionInvalid | None:
    """Return the error that an answer says the expression has. Raises ProcessEnded for nonsense."""
    if not isinstance(answer.content, Mapping) or not answer.content.get("wrong"):
        return None
    try:
        reason, position = answer.content["wrong"]
        return ExpressionInvalid(str(reason), int(position))
    except (ValueError, TypeError):
        raise process.nonsense() from None


def _checked(answer: Answer, process: DecoderProcess) -> CheckedExpression:
    """Return what an answer says of a valid expression. Raises ProcessEnded for nonsense."""
    facts = answer.content if isinstance(answer.content, Mapping) else {}
    texts, is_bounded = facts.get("required"), facts.get("is_bounded")
    if not isinstance(texts, list) or not all(isinstance(each, str) and each for each in texts):
        raise process.nonsense()
    if not isinstance(is_bounded, bool):
        raise process.nonsense()
    return CheckedExpression(tuple(texts), is_bounded)


def _clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _unavailable(failure: Exception) -> DecodersUnavailable:
    if isinstance(failure, PoolClosed):
        return DecodersUnavailable("The decoders were closed.")
    return DecodersUnavailable(str(failure))
