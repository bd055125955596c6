"""Copy flags: bits, masks, and headers as strangers may write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.domain.records import copy_flags


@pytest.mark.parametrize(
    ("level", "flag", "mask"),
    [(1, "0001", "0001"), (2, "0010", "0011"), (3, "0100", "0111"), (5, "10000", "11111")],
)
def test_level_n_owns_bit_n_and_its_mask_is_all_bits_up_to_it(level, flag, mask):
    assert copy_flags.text(copy_flags.flag(level)) == flag
    assert copy_flags.text(copy_flags.mask(level)) == mask


@pytest.mark.parametrize(
    ("flags", "level", "skipped"),
    [
        (0b0000, 3, False),
        (0b0001, 1, True),
        (0b0001, 3, True),
        (0b0100, 1, False),
        (0b0101, 3, True),
        (1 << 30, 30, False),
    ],
)
def test_the_documents_steps(flags, level, skipped):
    assert copy_flags.skips(flags, level) is skipped


@pytest.mark.parametrize(
    ("values", "flags", "readable"),
    [
        ([], 0, True),
        ([b"\x00\x00\x00\x05"], 5, True),
        ([b"\xff\xff\xff\xff"], 2**32 - 1, True),
        ([b""], 0, False),
        ([None], 0, False),
        ([b"\x01"], 0, False),
        ([b"\x00\x00\x00\x00\x05"], 0, False),
        ([b"\x00\x00\x00\x01", b"\x00\x00\x00\x01"], 0, False),
    ],
)
def test_flags_that_cannot_be_read_are_none_and_counted(values, flags, readable):
    assert copy_flags.decode(values) == (flags, readable)


@given(st.integers(0, 2**32 - 1))
def test_flags_survive_their_header(flags):
    assert copy_flags.decode([copy_flags.encode(flags)]) == (flags, True)
