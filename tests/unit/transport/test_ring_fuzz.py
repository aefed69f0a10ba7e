# SPDX-License-Identifier: Apache-2.0
"""Descriptors come from the other side: whatever they say, a typed error or a right answer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpent_box.contracts.messages import Payload, SlotRef, TensorRef
from rpent_box.errors import TransportError
from rpent_box.transport.ring import Ring, RingView, slot_bytes_for

SLOT_BYTES = 1024
SLOTS = 2


@pytest.fixture(scope="module")
def ring() -> Iterator[Ring]:
    name = f"/rpent-box.{secrets.token_hex(4)}.fuzz"
    with Ring.create(name, slots=SLOTS, slot_bytes=SLOT_BYTES) as made:
        yield made


@pytest.fixture(scope="module")
def view(ring: Ring) -> Iterator[RingView]:
    with RingView.open(ring.name) as opened:
        yield opened


anything = st.integers(min_value=-(1 << 63), max_value=(1 << 64) - 1)
edges = st.sampled_from([-64, -1, 0, 1, 63, 64, 960, 1023, 1024, 1025, 8192, 1 << 31, 1 << 63])
sizes = st.one_of(st.integers(0, 70), edges, anything)
refs = st.builds(
    TensorRef,
    name=st.sampled_from(["primary", "wrist"]),
    dtype=st.sampled_from(["uint8", "float32"]),
    shape=st.lists(sizes, max_size=10).map(tuple),
    offset=st.one_of(st.integers(0, 16).map(lambda n: n * 64), edges, anything),
)


@settings(max_examples=150, deadline=None)
@given(
    slot=st.one_of(st.integers(-1, SLOTS), anything),
    sequence=st.one_of(st.just(2), st.integers(-2, 6), anything),
    tensors=st.lists(refs, max_size=3).map(tuple),
)
def test_no_descriptor_reads_outside_its_slot(
    ring: Ring, view: RingView, slot: int, sequence: int, tensors: tuple[TensorRef, ...]
) -> None:
    ring.reset()
    for _ in range(SLOTS):
        ring.write({"all": np.full(SLOT_BYTES, 7, np.uint8)}, wait_s=0.0, holder="fuzz")
    payload = Payload(
        slot=SlotRef(segment=ring.name, slot=slot, sequence=sequence), tensors=tensors
    )
    try:
        arrays = view.read(payload)
        view.check(payload)
    except TransportError:
        return
    for array in arrays.values():
        assert (array.view(np.uint8) == 7).all(), "a byte from outside the slot"


@settings(max_examples=50, deadline=None)
@given(
    shapes=st.lists(
        st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple), min_size=1, max_size=5
    ),
    dtype=st.sampled_from([np.uint8, np.float32]),
)
def test_whatever_fits_comes_out_as_it_went_in(
    shapes: list[tuple[int, ...]], dtype: type[np.generic]
) -> None:
    random = np.random.default_rng(len(shapes))
    tensors = {
        str(number): random.integers(0, 256, shape).astype(dtype)
        for number, shape in enumerate(shapes)
    }
    size = slot_bytes_for(shapes, itemsize=np.dtype(dtype).itemsize)
    name = f"/rpent-box.{secrets.token_hex(4)}.fuzz"
    with Ring.create(name, slots=1, slot_bytes=size) as ring, RingView.open(name) as view:
        payload = ring.write(tensors, wait_s=0.0, holder="fuzz")
        for key, array in view.read(payload).items():
            np.testing.assert_array_equal(array, tensors[key])
            assert array.ctypes.data % 64 == 0
