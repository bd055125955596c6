"""The version of confluent-kafka whose clients' memory layout is known.

The record loop in C and the reader of groups' offsets use the handle of a client, which is a private field of it.
With another version they are replaced by slower code that needs no handle.
"""

LAYOUT_KNOWN_OF = "2.16.1"
