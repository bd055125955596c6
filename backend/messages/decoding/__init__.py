"""Decoding of records and evaluation of expressions: runs in the decoder process, on bytes of any producer.

Only bounded expressions on short JSON are evaluated in the process that searches, too (`plain_json`).

The decoders are our own, since every walk over the bytes needs a limit. fastavro reads a list of 2**60 nulls into
memory, and overflows the stack on a chain of ten million records; Protobuf's library has no limit for the fields
of a message.
"""
