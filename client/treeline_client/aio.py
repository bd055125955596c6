"""Clients for asyncio: their methods are coroutines and never block the event loop.

Blocking calls run in threads of the client's own. Cancelling a call leaves the client consistent: a message that a
cancelled `poll()` had already fetched is returned by the next one, and a transaction call finishes first.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from treeline_client.consumer import SwitchingConsumer
from treeline_client.deadlines import Deadline
from treeline_client.groups import GroupMetadata
from treeline_client.metrics import Metrics
from treeline_client.producer import SwitchingProducer

_SLICE_SECONDS = 0.5
_FULL_SECONDS = 0.01

T = TypeVar("T")
C = TypeVar("C", bound=SwitchingProducer | SwitchingConsumer)
_Call = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class _Opened(ABC, Generic[C]):
    """A client with its threads, opened at its first use because opening queries the control plane."""

    def __init__(self, make: Callable[[], C], threads: int) -> None:
        self._make = make
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="treeline-aio")
        self._opening = asyncio.Lock()
        self._client: C | None = None
        self._loop: asyncio.AbstractEventLoop

    async def client(self) -> C:
        """Return the open client. Raises what its constructor raises."""
        if self._client is None:
            async with self._opening:
                if self._client is None:
                    self._loop = asyncio.get_running_loop()
                    self._client = await self._whole(self._make)
                    self._began()
        return self._client

    @property
    def opened(self) -> C:
        """Return the open client. Raises RuntimeError before its first use."""
        if self._client is None:
            raise RuntimeError("the client is not open yet; use it with `async with`")
        return self._client

    def generation(self) -> int:
        """Return the generation, as the synchronous client does; available once the client is open."""
        return self.opened.generation()

    def cluster(self) -> str:
        """Return the cluster's name, as the synchronous client does; available once the client is open."""
        return self.opened.cluster()

    def metrics(self) -> Metrics:
        """Return the metrics, as the synchronous client does; available once the client is open."""
        return self.opened.metrics()

    @abstractmethod
    async def close(self) -> bool | None:
        """Close the client, if it was opened."""

    async def __aenter__(self) -> Self:
        await self.client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _began(self) -> None:
        """Start what the open client needs; called once."""

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def _whole(self, call: Callable[[], T]) -> T:
        """Run a call that must not be left half done: a cancellation waits for its end."""
        running = self._submit(call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise


class AsyncSwitchingProducer(_Opened[SwitchingProducer]):
    """`SwitchingProducer` for asyncio. Opened by `async with`, or by its first call."""

    def __init__(self, conf: Mapping[str, Any], /, **more: Any) -> None:
        """Take the arguments of `SwitchingProducer`, whose errors are raised when it is opened."""
        super().__init__(lambda: SwitchingProducer(conf, **more), threads=4)
        self._serving = True

    async def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: Any = None,
    ) -> asyncio.Future[Message]:
        """Send a record; wait while the queue is full.

        The future returns the delivered message, or raises KafkaException with the error of the delivery report.
        Cancelling the future does not recall the record.
        """
        client = await self.client()
        delivered: asyncio.Future[Message] = self._loop.create_future()

        def report(error: KafkaError | None, message: Message) -> None:
            self._loop.call_soon_threadsafe(_settle, delivered, error, message)

        while True:
            try:
                # Returns at once: the record is handed over or queued.
                client.produce(topic, value, key, partition, None, report, timestamp, headers)
                return delivered
            except BufferError:
                await asyncio.sleep(_FULL_SECONDS)

    async def flush(self, timeout: float = -1) -> int:
        """Wait until all records are delivered; return how many are left after `timeout` seconds."""
        client = await self.client()
        deadline = Deadline(timeout)
        while True:
            left = await self._submit(lambda: client.flush(deadline.left(_SLICE_SECONDS)))
            if not left or deadline.over():
                return left

    async def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Drop all records that are not delivered yet."""
        client = await self.client()
        await self._submit(lambda: client.purge(in_queue, in_flight, blocking))

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Return the active cluster's metadata for the topics of this environment."""
        client = await self.client()
        return await self._submit(lambda: client.list_topics(topic, timeout))

    async def init_transactions(self, timeout: float = -1) -> None:
        """Prepare the producer for transactions, once before the first one."""
        client = await self.client()
        await self._whole(lambda: client.init_transactions(timeout))

    async def begin_transaction(self, timeout: float = -1) -> None:
        """Begin a transaction as soon as clients are not being moved. After a cancellation, none is open."""
        client = await self.client()
        deadline = Deadline(timeout)
        while True:
            running = self._submit(lambda: client.begin_transaction(deadline.left(_SLICE_SECONDS)))
            try:
                await asyncio.shield(running)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError._TIMED_OUT or deadline.over():
                    raise
            except asyncio.CancelledError:
                await asyncio.wait([running])
                if running.exception() is None:
                    await self._whole(client.abort_transaction)
                raise

    async def commit_transaction(self, timeout: float = -1) -> None:
        """Commit the transaction. Raises TransactionAbortedBySwitch if a switch aborted it."""
        client = await self.client()
        await self._whole(lambda: client.commit_transaction(timeout))

    async def abort_transaction(self, timeout: float = -1) -> None:
        """Abort the transaction; do nothing if a switch has aborted it."""
        client = await self.client()
        await self._whole(lambda: client.abort_transaction(timeout))

    async def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: GroupMetadata, timeout: float = -1
    ) -> None:
        """Commit a consumer's positions with the transaction."""
        client = await self.client()
        await self._whole(lambda: client.send_offsets_to_transaction(positions, group_metadata, timeout))

    async def close(self, timeout: float = -1) -> bool:
        """Deliver remaining records for up to `timeout` seconds; return whether none is left."""
        if self._client is None:
            return True
        client = self._client
        left = await self.flush(timeout)
        self._serving = False
        await self._whole(lambda: client.close(0))
        self._executor.shutdown(wait=False)
        return left == 0

    def _began(self) -> None:
        threading.Thread(target=self._serve, name="treeline-aio-reports", daemon=True).start()

    def _serve(self) -> None:
        """Serve delivery reports in a thread of their own."""
        while self._serving:
            try:
                self.opened.poll(_SLICE_SECONDS)
            except RuntimeError:  # closed meanwhile, or the event loop is gone
                return


def _settle(delivered: asyncio.Future[Message], error: KafkaError | None, message: Message) -> None:
    if delivered.done():  # cancelled
        return
    if error is None:
        delivered.set_result(message)
    else:
        delivered.set_exception(KafkaException(error))


AsyncListener = Callable[[Any, list[TopicPartition]], Awaitable[None] | None]


class AsyncSwitchingConsumer(_Opened[SwitchingConsumer]):
    """`SwitchingConsumer` for asyncio. Opened by `async with`, or by its first call.

    All calls run in one thread, one after the other. Rebalance listeners may be functions, which run in that
    thread, or coroutines, which run in the event loop and may call this consumer.
    """

    def __init__(self, conf: Mapping[str, Any], /, **more: Any) -> None:
        """Take the arguments of `SwitchingConsumer`, whose errors are raised when it is opened."""
        super().__init__(lambda: SwitchingConsumer(conf, **more), threads=1)
        self._fetching: asyncio.Future[list[Message]] | None = None
        self._kept: deque[Message] = deque()
        self._inner: queue.SimpleQueue[_Call | None] | None = None

    async def subscribe(
        self,
        topics: list[str],
        on_assign: AsyncListener | None = None,
        on_revoke: AsyncListener | None = None,
        on_lost: AsyncListener | None = None,
    ) -> None:
        """Join the group for these topics, on this and every later cluster."""
        wrapped = [self._wrapped(listener) for listener in (on_assign, on_revoke, on_lost)]
        await self._call("subscribe", topics, *wrapped)

    async def poll(self, timeout: float | None = -1) -> Message | None:
        """Return the next message, or None after `timeout` seconds."""
        found = await self._fetch(1, -1 if timeout is None else timeout)
        return found[0] if found else None

    async def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return up to so many messages, waiting up to `timeout` seconds for them."""
        deadline = Deadline(timeout)
        found: list[Message] = []
        while len(found) < num_messages:
            try:
                got = await self._fetch(num_messages - len(found), deadline.left(_SLICE_SECONDS))
            except asyncio.CancelledError:
                self._kept.extendleft(reversed(found))
                raise
            found += got
            if deadline.over():
                break
        return found

    async def close(self) -> None:
        """Leave the group with a last commit, and unregister from discovery."""
        if self._client is not None:
            await self._whole(self._client.close)
            self._executor.shutdown(wait=False)

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return another method of `SwitchingConsumer` as a coroutine function with the same arguments."""
        if name not in _CONSUMERS:
            raise AttributeError(name)

        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._call(name, *arguments, **named)

        return call

    async def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        client = await self.client()
        return await self._whole(lambda: getattr(client, method)(*arguments, **named))

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        inner = self._inner
        if inner is None:
            return super()._submit(call)
        # A rebalance listener occupies the thread, so the thread takes calls in between.
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        inner.put((call, future))
        return future

    async def _fetch(self, most: int, timeout: float) -> list[Message]:
        """Fetch at least one message unless the time is over; keep a cancelled call's messages for the next."""
        client = await self.client()
        deadline = Deadline(timeout)
        while not self._kept:
            if self._fetching is None:
                self._fetching = self._submit(lambda: _taken(client, most, deadline.left(_SLICE_SECONDS)))
            mine = self._fetching
            try:
                await asyncio.shield(mine)
            finally:
                if mine.done() and self._fetching is mine:
                    self._fetching = None
                    self._kept.extend([] if mine.cancelled() or mine.exception() else mine.result())
            if deadline.over():
                break
        return [self._kept.popleft() for _ in range(min(most, len(self._kept)))]

    def _wrapped(self, listener: AsyncListener | None) -> Callable[[Any, list[TopicPartition]], None] | None:
        if listener is None:
            return None

        def run(_: Any, partitions: list[TopicPartition]) -> None:
            answer = listener(self, partitions)
            if asyncio.iscoroutine(answer):
                self._serve_while(answer)

        return run

    def _serve_while(self, listener: Coroutine[Any, Any, None]) -> None:
        """Run a listener in the event loop; run its calls of this consumer here, where librdkafka expects them."""
        inner: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        before, self._inner = self._inner, inner
        running = asyncio.run_coroutine_threadsafe(listener, self._loop)
        running.add_done_callback(lambda _: inner.put(None))
        while (item := inner.get()) is not None:
            self._run(*item)
        self._inner = before
        while not inner.empty():  # calls of other tasks that arrived at the very end
            if (item := inner.get()) is not None:
                self._run(*item)
        running.result()

    def _run(self, call: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - every error belongs to the caller
            self._loop.call_soon_threadsafe(_answer, future, None, error)
        else:
            self._loop.call_soon_threadsafe(_answer, future, result, None)


def _taken(client: SwitchingConsumer, most: int, seconds: float) -> list[Message]:
    if most > 1:
        return client.consume(most, seconds)
    message = client.poll(seconds)
    return [] if message is None else [message]


def _answer(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


_CONSUMERS = frozenset({
    "assign", "assignment", "commit", "committed", "consumer_group_metadata", "follow", "get_watermark_offsets",
    "incremental_assign", "incremental_unassign", "list_topics", "memberid", "offsets_for_times", "pause",
    "position", "resume", "seek", "store_offsets", "unassign", "unsubscribe",
})  # fmt: skip
"""Methods that run the synchronous method in a thread, without further logic."""
