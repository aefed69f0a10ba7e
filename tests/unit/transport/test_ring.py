# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from rpent_box.contracts.messages import Payload, SlotRef, TensorRef
from rpent_box.errors import NoFreeSlot, StaleFrame, TransportError
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.ring import (
    ALIGNMENT,
    HEADER_BYTES,
    SLOT_HEADER_BYTES,
    Ring,
    RingView,
    Tensor,
    slot_bytes_for,
)

SLOT_BYTES = 4096


@pytest.fixture
def ring(box: BoxPaths) -> Iterator[Ring]:
    with Ring.create(box.segment_name("a"), slots=3, slot_bytes=SLOT_BYTES) as made:
        yield made


@pytest.fixture
def view(ring: Ring) -> Iterator[RingView]:
    with RingView.open(ring.name) as opened:
        yield opened


def frames(value: int = 1) -> dict[str, Tensor]:
    return {
        "primary": np.full((5, 7, 3), value, np.uint8),
        "depth": np.full((3, 2), value / 2, np.float32),
    }


def write(ring: Ring, value: int = 1) -> Payload:
    return ring.write(frames(value), wait_s=0.0, holder="a test")


def slot_of(payload: Payload) -> SlotRef:
    assert payload.slot is not None
    return payload.slot


def test_what_was_written_is_read_in_place_and_cannot_be_changed(
    ring: Ring, view: RingView
) -> None:
    tensors = view.read(write(ring, 9))
    assert list(tensors) == ["primary", "depth"]
    for name, wanted in frames(9).items():
        assert tensors[name].dtype == wanted.dtype
        assert not tensors[name].flags.owndata
        assert not tensors[name].flags.writeable
        np.testing.assert_array_equal(tensors[name], wanted)


def test_slots_and_tensors_lie_where_the_drawing_says(ring: Ring, box: BoxPaths) -> None:
    payload = write(ring, 7)
    raw = bytes(ring._segment.buffer)
    assert raw[:8] == b"rpentbox"
    version, slots, slot_bytes, stride = np.frombuffer(raw, np.uint64, 4, 8).tolist()
    assert (version, slots, slot_bytes) == (1, 3, SLOT_BYTES)
    assert stride == 8192
    assert len(raw) == HEADER_BYTES + 3 * stride
    sequence, length, written_ns = np.frombuffer(raw, np.uint64, 3, HEADER_BYTES).tolist()
    assert sequence == slot_of(payload).sequence == 2
    assert length == 128 + 64
    assert 0 <= time.monotonic_ns() - written_ns < 60e9
    assert [ref.offset for ref in payload.tensors] == [0, 128]
    start = HEADER_BYTES + SLOT_HEADER_BYTES
    assert raw[start : start + 105] == b"\7" * 105


def test_every_tensor_starts_at_a_multiple_of_sixty_four_bytes(ring: Ring) -> None:
    tensors = {str(size): np.ones(size, np.uint8) for size in (1, 63, 64, 65, 129)}
    payload = ring.write(tensors, wait_s=0.0, holder="a test")
    assert [ref.offset for ref in payload.tensors] == [0, 64, 128, 192, 320]
    assert slot_bytes_for([(size,) for size in (1, 63, 64, 65, 129)]) == 512


def test_room_for_images_is_computed_from_their_shapes() -> None:
    assert slot_bytes_for([(256, 256, 3), (256, 256, 3)]) == 2 * 196608
    assert slot_bytes_for([(3, 5)], itemsize=4) == ALIGNMENT
    assert slot_bytes_for([]) == 0


def test_a_view_that_is_not_contiguous_is_written_as_it_looks(ring: Ring, view: RingView) -> None:
    flipped = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)[::-1, ::-1]
    payload = ring.write({"primary": flipped}, wait_s=0.0, holder="a test")
    np.testing.assert_array_equal(view.read(payload)["primary"], flipped)


def test_the_slot_that_came_back_last_goes_out_first(ring: Ring) -> None:
    first, second = write(ring), write(ring)
    assert [slot_of(first).slot, slot_of(second).slot] == [0, 1]
    ring.free(slot_of(first))
    ring.free(slot_of(second))
    assert [slot_of(write(ring)).slot for _ in range(3)] == [1, 0, 2]


def test_a_slot_used_again_is_stale_for_its_old_descriptor(ring: Ring, view: RingView) -> None:
    old = write(ring, 1)
    view.read(old)
    ring.free(slot_of(old))
    write(ring, 2)
    with pytest.raises(StaleFrame, match="holds frame 4; wanted frame 2"):
        view.check(old)
    with pytest.raises(StaleFrame):
        view.read(old)


def test_a_slot_that_is_being_written_is_stale(ring: Ring, view: RingView) -> None:
    payload = write(ring)
    ring._words[HEADER_BYTES // 8] = 3
    with pytest.raises(StaleFrame, match="is being written"):
        view.read(payload)
    with pytest.raises(StaleFrame, match="is being written"):
        view.check(payload)


def test_no_free_slot_names_the_holder_and_its_age(ring: Ring) -> None:
    ring.write(frames(), wait_s=0.0, holder="request 17 of sim-0")
    time.sleep(0.06)
    write(ring)
    write(ring)
    started = time.monotonic()
    with pytest.raises(NoFreeSlot, match=r"oldest by request 17 of sim-0, for 0\.[1-9]") as caught:
        ring.write(frames(), wait_s=0.1, holder="request 18 of sim-0")
    assert 0.1 <= time.monotonic() - started < 2.0
    assert "all 3 slots" in str(caught.value)


def test_a_held_slot_is_never_overwritten(ring: Ring, view: RingView) -> None:
    payloads = [write(ring, value) for value in (1, 2, 3)]
    with pytest.raises(NoFreeSlot):
        write(ring, 4)
    for value, payload in enumerate(payloads, start=1):
        assert (view.read(payload)["primary"] == value).all()


def test_waiting_ends_as_soon_as_another_thread_frees_a_slot(ring: Ring) -> None:
    held = [write(ring) for _ in range(3)]
    timer = threading.Timer(0.05, ring.free, [slot_of(held[1])])
    timer.start()
    payload = ring.write(frames(), wait_s=10.0, holder="a test")
    timer.join()
    assert slot_of(payload).slot == slot_of(held[1]).slot


def test_a_quarantined_slot_stays_out_of_use_until_a_reset(ring: Ring) -> None:
    slots = [slot_of(write(ring)) for _ in range(3)]
    ring.quarantine(slots[0])
    for slot in slots:
        ring.free(slot)
    assert ring.free_slots == 2
    assert slots[0].slot not in {slot_of(write(ring)).slot for _ in range(2)}
    with pytest.raises(NoFreeSlot, match="1 kept back after timeouts"):
        write(ring)
    ring.reset()
    assert ring.free_slots == 3


def test_freeing_by_an_old_descriptor_changes_nothing(ring: Ring) -> None:
    old = slot_of(write(ring))
    ring.free(old)
    new = slot_of(write(ring))
    assert new.slot == old.slot
    ring.free(old)
    ring.quarantine(old)
    assert ring.free_slots == 2
    ring.free(SlotRef(segment=ring.name, slot=10**12, sequence=2))
    ring.free(new)
    ring.free(new)
    assert ring.free_slots == 3


def test_a_write_that_fails_half_way_gives_its_slot_back(ring: Ring, view: RingView) -> None:
    class Torn(np.ndarray):
        def __array_function__(self, *_: object, **__: object) -> object:
            raise KeyboardInterrupt

    broken = np.ones((4, 4), np.uint8).view(Torn)
    with pytest.raises(KeyboardInterrupt):
        ring.write({"good": np.ones(3, np.uint8), "torn": broken}, wait_s=0.0, holder="a test")
    assert ring.free_slots == 3
    assert (view.read(write(ring, 5))["primary"] == 5).all()


def test_what_does_not_fit_is_refused_before_a_slot_is_taken(ring: Ring) -> None:
    large = {"primary": np.zeros((SLOT_BYTES + 1,), np.uint8)}
    assert not ring.fits(large)
    with pytest.raises(TransportError, match="a slot of .* holds 4096"):
        ring.write(large, wait_s=0.0, holder="a test")
    assert ring.free_slots == 3
    assert ring.fits({"primary": np.zeros((SLOT_BYTES,), np.uint8)})


@pytest.mark.parametrize(
    "tensor",
    [
        np.zeros(3, np.float64),
        np.zeros(3, ">f4"),
        np.zeros(3, object),
        np.zeros((0, 3), np.uint8),
        np.zeros(3, bool),
    ],
)
def test_only_uint8_and_float32_travel(ring: Ring, tensor: Tensor) -> None:
    with pytest.raises(TransportError, match="only uint8 and float32"):
        ring.write({"primary": tensor}, wait_s=0.0, holder="a test")
    assert ring.free_slots == 3


def ref(**changes: object) -> TensorRef:
    return msgspec.structs.replace(
        TensorRef(name="primary", dtype="uint8", shape=(5, 7, 3), offset=0), **changes
    )


@pytest.mark.parametrize(
    "tensor",
    [
        ref(offset=-64),
        ref(offset=1),
        ref(offset=SLOT_BYTES),
        ref(offset=1 << 62),
        ref(shape=(SLOT_BYTES + 1,)),
        ref(shape=(1 << 62, 1 << 62)),
        ref(shape=(-1, 5)),
        ref(shape=(0,)),
        ref(shape=(1,) * 9),
        ref(shape=(1025,), dtype="float32"),
        ref(shape=(4, 4), offset=SLOT_BYTES + 64),
    ],
)
def test_a_descriptor_that_cannot_be_right_is_refused(
    ring: Ring, view: RingView, tensor: TensorRef
) -> None:
    payload = msgspec.structs.replace(write(ring), tensors=(tensor,))
    with pytest.raises(TransportError):
        view.read(payload)


@pytest.mark.parametrize(
    "slot",
    [
        {"slot": 3},
        {"slot": -1},
        {"slot": 1 << 62},
        {"sequence": 0},
        {"sequence": -2},
        {"sequence": 3},
        {"sequence": 1 << 70},
        {"segment": "/rpent-box.00000000.other"},
    ],
)
def test_a_slot_that_does_not_exist_is_refused(
    ring: Ring, view: RingView, slot: dict[str, object]
) -> None:
    payload = write(ring)
    wrong = msgspec.structs.replace(payload, slot=msgspec.structs.replace(slot_of(payload), **slot))
    with pytest.raises(TransportError):
        view.read(wrong)
    with pytest.raises(TransportError):
        view.check(wrong)


def test_two_tensors_of_one_name_are_refused(ring: Ring, view: RingView) -> None:
    payload = msgspec.structs.replace(write(ring), tensors=(ref(), ref()))
    with pytest.raises(TransportError, match="same name"):
        view.read(payload)


def test_a_segment_that_holds_no_ring_is_refused(ring: Ring) -> None:
    ring._words[0] = 0
    with pytest.raises(TransportError, match="does not hold a ring"):
        RingView.open(ring.name)


@pytest.mark.parametrize(
    ("word", "value"), [(2, 4), (2, 0), (2, 1 << 63), (3, 1 << 40), (4, 0), (4, 1 << 40), (4, 8193)]
)
def test_a_ring_that_claims_more_than_it_has_is_refused(ring: Ring, word: int, value: int) -> None:
    ring._words[word] = value
    with pytest.raises(TransportError, match="says more than"):
        RingView.open(ring.name)


def test_arrays_outlive_the_view_and_the_ring(box: BoxPaths) -> None:
    ring = Ring.create(box.segment_name("b"), slots=1, slot_bytes=SLOT_BYTES)
    view = RingView.open(ring.name)
    payload = write(ring, 3)
    tensors = view.read(payload)
    view.close()
    ring.close()
    assert (tensors["primary"] == 3).all()
    with pytest.raises(StaleFrame, match="closed"):
        view.check(payload)
    view.close()
    ring.close()


def test_a_ring_is_at_least_one_slot(box: BoxPaths) -> None:
    with pytest.raises(TransportError, match="do not fit"):
        Ring.create(box.segment_name("b"), slots=0, slot_bytes=SLOT_BYTES)


def test_sequences_go_on_when_a_slot_is_used_again(ring: Ring) -> None:
    sequences = []
    for _ in range(4):
        payload = write(ring)
        sequences.append(slot_of(payload).sequence)
        ring.free(slot_of(payload))
    assert sequences == [2, 4, 6, 8]
