# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from rpent_box.contracts.messages import Payload, SlotRef, TensorRef
from rpent_box.errors import StaleFrame, TransportError
from rpent_box.transport import onlooker
from rpent_box.transport.onlooker import copy_of
from rpent_box.transport.ring import Ring, RingView
from rpent_box.transport.segment import segment_is_dead

NAME = "/rpent-box.0123abcd.sim-0"
SLOT_BYTES = 8192


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    with Ring.create(NAME, slots=2, slot_bytes=SLOT_BYTES, directory=tmp_path) as ring:
        yield ring


def frame(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (20, 30, 3), np.uint8)


def shown(ring: Ring, seed: int = 1) -> Payload:
    """Write two frames, as for a prediction whose reply has come: the slot is free again."""
    tensors = {"primary": frame(seed), "wrist": frame(seed + 100)}
    payload = ring.write(tensors, wait_s=0, holder="a test")
    ring.free(payload.slot)
    return payload


def changed(payload: Payload, **fields: int | str) -> Payload:
    return msgspec.structs.replace(payload, slot=msgspec.structs.replace(payload.slot, **fields))


def test_an_onlooker_gets_what_the_model_got(ring: Ring, tmp_path: Path) -> None:
    payload = shown(ring)
    copies = copy_of(payload, search=[tmp_path / "nowhere", tmp_path])
    assert list(copies) == ["primary", "wrist"]
    assert np.array_equal(copies["primary"], frame(1))
    assert np.array_equal(copies["wrist"], frame(101))
    assert list(copy_of(payload, search=[tmp_path], names={"wrist"})) == ["wrist"]


def test_looking_changes_no_byte_takes_no_lock_and_opens_for_reading_only(
    ring: Ring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = shown(ring)
    path = tmp_path / NAME.lstrip("/")
    before = path.read_bytes()
    flags: list[int] = []
    really_open = os.open

    def spying(name, how, *more):
        flags.append(how)
        return really_open(name, how, *more)

    monkeypatch.setattr(onlooker.os, "open", spying)
    descriptors = len(os.listdir("/proc/self/fd"))
    copy_of(payload, search=[tmp_path])
    monkeypatch.undo()
    assert [how & os.O_ACCMODE for how in flags] == [os.O_RDONLY]
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert path.read_bytes() == before
    assert not segment_is_dead(path)
    with RingView.open(NAME, search=[tmp_path]) as reader:
        assert np.array_equal(reader.read(payload)["primary"], frame(1))


def test_frames_that_were_written_over_are_refused(ring: Ring, tmp_path: Path) -> None:
    first = shown(ring, 1)
    second = shown(ring, 2)
    assert second.slot.slot == first.slot.slot, "the last one back is the first one out"
    with pytest.raises(StaleFrame):
        copy_of(first, search=[tmp_path])
    assert np.array_equal(copy_of(second, search=[tmp_path])["primary"], frame(2))


def test_frames_that_change_while_they_are_copied_are_dropped(
    ring: Ring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = shown(ring, 1)
    really_read = os.pread
    reads: list[int] = []

    def overtaken(descriptor: int, nbytes: int, offset: int) -> bytes:
        reads.append(nbytes)
        data = really_read(descriptor, nbytes, offset)
        if nbytes == frame(1).nbytes and reads.count(nbytes) == 1:
            shown(ring, 2)
        return data

    monkeypatch.setattr(onlooker.os, "pread", overtaken)
    with pytest.raises(StaleFrame):
        copy_of(payload, search=[tmp_path])
    assert reads.count(frame(1).nbytes) == 2, "both frames were copied before anybody noticed"


def test_a_slot_that_is_being_written_is_refused(ring: Ring, tmp_path: Path) -> None:
    payload = shown(ring)
    odd = changed(payload, sequence=payload.slot.sequence + 1)
    with pytest.raises(StaleFrame):
        copy_of(odd, search=[tmp_path])


def test_a_ring_that_is_cut_short_costs_a_picture_and_not_the_process(
    ring: Ring, tmp_path: Path
) -> None:
    payload = shown(ring)
    short = tmp_path / "copies"
    short.mkdir()
    whole = (tmp_path / NAME.lstrip("/")).read_bytes()
    for length in (0, 20, 4096 + 4, 4096 + 128 + 50):
        (short / NAME.lstrip("/")).write_bytes(whole[:length])
        with pytest.raises(TransportError):
            copy_of(payload, search=[short])


@pytest.mark.parametrize(
    "wrong",
    [
        {"slot": 2},
        {"slot": -1},
        {"segment": "/rpent-box.0123abcd.other"},
        {"segment": "/../etc/passwd"},
        {"segment": "/"},
        {"segment": "/rpent-box.0123abcd.\0"},
    ],
)
def test_a_descriptor_that_cannot_be_right_is_refused(
    ring: Ring, tmp_path: Path, wrong: dict[str, int | str]
) -> None:
    with pytest.raises(TransportError):
        copy_of(changed(shown(ring), **wrong), search=[tmp_path])


@pytest.mark.parametrize(
    ("offset", "shape"),
    [(0, (SLOT_BYTES + 1,)), (-64, (8,)), (8, (8,)), (SLOT_BYTES, (1,)), (0, (2**40, 2**40))],
)
def test_a_tensor_outside_its_slot_is_refused(
    ring: Ring, tmp_path: Path, offset: int, shape: tuple[int, ...]
) -> None:
    ref = TensorRef(name="primary", dtype="uint8", shape=shape, offset=offset)
    with pytest.raises(TransportError, match="outside its slot|too many"):
        copy_of(msgspec.structs.replace(shown(ring), tensors=(ref,)), search=[tmp_path])


def test_a_link_is_not_followed_and_another_file_is_no_ring(ring: Ring, tmp_path: Path) -> None:
    payload = shown(ring)
    there = tmp_path / "there"
    there.mkdir()
    link = there / NAME.lstrip("/")
    link.symlink_to(tmp_path / NAME.lstrip("/"))
    with pytest.raises(TransportError, match="not on this machine"):
        copy_of(payload, search=[there])
    link.unlink()
    link.write_bytes(b"x" * 65536)
    with pytest.raises(TransportError, match="does not hold a ring"):
        copy_of(payload, search=[there])


def test_frames_without_a_slot_are_in_no_shared_memory(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="no shared memory"):
        copy_of(Payload(), search=[tmp_path])
    slot = SlotRef(segment=NAME, slot=0, sequence=2)
    with pytest.raises(TransportError, match="not on this machine"):
        copy_of(Payload(slot=slot), search=[tmp_path])
