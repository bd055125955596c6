"""Calls to Spark's JVM that were stopped before their answer, as a test is by its time limit."""

from __future__ import annotations

from pyspark import SparkContext


def drop_stopped_call() -> None:
    """Close this thread's connection to the JVM if a call on it was stopped.

    The connection would be used again, and each call would get the answer of the one before: `KeyError: 'p'` for
    the first name that is looked up.
    """
    gateway = SparkContext._gateway
    if gateway is None:
        return
    client = gateway._gateway_client
    connection = client.get_thread_connection()
    # A call takes the connection out of the queue, and gives it back with its answer.
    if connection is not None and connection not in client.deque:
        connection.close()
