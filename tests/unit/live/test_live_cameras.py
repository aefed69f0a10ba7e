# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bare_box import make_bare_box, remove_bare_box
from live_story import Clock, acting, begun
from PIL import Image

from rpent_box.contracts.control_messages import Progress
from rpent_box.contracts.messages import Payload, SlotRef, TensorRef
from rpent_box.errors import StaleFrame, TransportError
from rpent_box.live import cameras as cameras_module
from rpent_box.live.cameras import LONGEST_SIDE, MOST_WATCHED, Cameras, look_at, to_jpeg
from rpent_box.live.state import LiveState
from rpent_box.transport.paths import BoxPaths
from rpent_box.transport.ring import LAYOUT_VERSION, MAGIC, Ring

JOB = begun().jobs[0]
RED, GREEN, BLUE = (200, 30, 40), (30, 190, 50), (20, 60, 210)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BoxPaths]:
    paths = make_bare_box(tmp_path)
    yield paths
    remove_bare_box(paths)


@pytest.fixture
def ring(box: BoxPaths) -> Iterator[Ring]:
    name = box.segment_name("sim-0")
    with Ring.create(name, slots=4, slot_bytes=2 * 32 * 48 * 3, grants=box.grants) as ring:
        yield ring


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state() -> LiveState:
    return LiveState()


@pytest.fixture
def cameras(state: LiveState, clock: Clock) -> Cameras:
    cameras = Cameras(state, clock=clock)
    state.look_on(cameras.offer)
    return cameras


def plain(colour: tuple[int, int, int]) -> np.ndarray:
    return np.full((32, 48, 3), colour, np.uint8)


def show(state: LiveState, ring: Ring, colour: tuple[int, int, int], name: str = "0") -> Payload:
    """A simulator asked with a frame of one colour, got its answer, and acts."""
    payload = ring.write({"primary": plain(colour)}, wait_s=0, holder="a test")
    ring.free(payload.slot)
    state.on_progress(name, JOB, acting(seen=payload))
    return payload


def colour_of(jpeg: bytes) -> tuple[int, ...]:
    picture = np.asarray(Image.open(io.BytesIO(jpeg)))
    assert picture.shape == (32, 48, 3)
    return tuple(int(value) for value in picture.reshape(-1, 3).mean(axis=0).round())


def near(colour: tuple[int, ...], wanted: tuple[int, int, int]) -> bool:
    return all(abs(one - other) <= 4 for one, other in zip(colour, wanted, strict=True))


def test_whoever_asks_first_sees_the_frames_that_are_there(
    state: LiveState, ring: Ring, cameras: Cameras
) -> None:
    show(state, ring, RED)
    shot = cameras.shot("0", "primary")
    assert shot is not None
    assert near(colour_of(shot.jpeg), RED)
    assert state.picture().seats[0].view == "shown"
    assert cameras.shot("0", "primary", after=shot.number) is None, "it is known already"
    assert cameras.shot("0", "wrist") is None
    assert cameras.shot("1", "primary") is None


def test_nobody_copies_a_pixel_unless_somebody_looks(
    state: LiveState, ring: Ring, cameras: Cameras, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[Payload] = []

    def counting(payload: Payload) -> dict[str, np.ndarray]:
        copied.append(payload)
        return look_at(payload)

    monkeypatch.setattr(cameras_module, "look_at", counting)
    for _ in range(5):
        clock.now += 1.0
        show(state, ring, RED)
    assert copied == []
    assert cameras.shot("0", "primary") is not None
    assert len(copied) == 1
    clock.now += 1.0
    show(state, ring, GREEN)
    assert len(copied) == 2
    clock.now += 60.0
    show(state, ring, BLUE)
    assert len(copied) == 2, "nobody has looked for a minute"


def test_frames_that_were_copied_are_shown_also_when_the_ring_holds_others_by_now(
    state: LiveState, ring: Ring, cameras: Cameras, clock: Clock
) -> None:
    show(state, ring, RED)
    first = cameras.shot("0", "primary")
    assert first is not None
    clock.now += 1.0
    show(state, ring, GREEN)
    # The next prediction has begun: its frames are in the ring, and nobody was told of them.
    ring.write({"primary": plain(BLUE)}, wait_s=0, holder="a test")
    state.on_progress("0", JOB, Progress(phase="predicting"))
    second = cameras.shot("0", "primary", after=first.number)
    assert second is not None
    assert near(colour_of(second.jpeg), GREEN)


def test_a_torn_read_is_dropped(
    state: LiveState, ring: Ring, cameras: Cameras, clock: Clock
) -> None:
    payload = show(state, ring, RED)
    ring.write({"primary": plain(BLUE)}, wait_s=0, holder="a test")
    with pytest.raises(StaleFrame):
        look_at(payload)
    assert cameras.shot("0", "primary") is None
    assert state.picture().seats[0].view == "shown", "only this one was missed"


def test_frames_of_one_simulator_are_copied_at_most_twice_a_second(
    state: LiveState, ring: Ring, cameras: Cameras, clock: Clock
) -> None:
    show(state, ring, RED)
    cameras.shot("0", "primary")
    seen = []
    for _ in range(20):
        clock.now += 0.1
        show(state, ring, GREEN)
        shot = cameras.shot("0", "primary")
        assert shot is not None
        seen.append(shot.number)
    assert 3 <= len(set(seen)) <= 5


def test_frames_of_another_machine_are_said_to_be_there(state: LiveState, cameras: Cameras) -> None:
    slot = SlotRef(segment="/rpent-box.ffffffff.sim-0", slot=0, sequence=2)
    tensors = (TensorRef(name="primary", dtype="uint8", shape=(4, 4, 3)),)
    state.on_progress("node-1/0", JOB, acting(seen=Payload(slot=slot, tensors=tensors)))
    assert cameras.shot("node-1/0", "primary") is None
    assert state.picture().seats[0].view == "elsewhere"


@pytest.mark.parametrize("segment", ["/etc/passwd", "/somebody-elses", "/rpent-box.zz.sim", "/.."])
def test_only_rings_of_boxes_are_opened(segment: str) -> None:
    with pytest.raises(TransportError, match="no box"):
        look_at(Payload(slot=SlotRef(segment=segment, slot=0, sequence=2)))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_simulator_says_ends_no_evaluation(
    state: LiveState, box: BoxPaths, cameras: Cameras, clock: Clock, seed: int
) -> None:
    """Rings with any header, payloads with any shape: told by the thread that writes results."""
    chance = random.Random(seed)
    sizes = (0, 1, 2, 3, 64, 4096, 2**31, 2**40, 2**62, 2**63 - 1)

    def mostly(right: int) -> int:
        return right if chance.random() < 0.7 else chance.choice(sizes)

    segment = box.segment_name("sim-0")
    path = box.grants / segment.lstrip("/")
    cameras.shot("0", "primary")
    for _ in range(300):
        header = [MAGIC, LAYOUT_VERSION, mostly(4), mostly(2**62), mostly(4096)]
        path.write_bytes(struct.pack("=5Q", *header) + bytes([2, *[0] * 7]) * 1000)
        os.truncate(path, mostly(2**40))
        slot = SlotRef(segment=segment, slot=mostly(0), sequence=mostly(2))
        tensors = tuple(
            TensorRef(
                name="primary",
                dtype=chance.choice(("uint8", "float32")),
                shape=(chance.choice(sizes), mostly(64), mostly(3)),
                offset=mostly(64),
            )
            for _ in range(chance.randrange(4))
        )
        clock.now += 1.0
        cameras.shot("0", "primary")
        state.on_progress("0", JOB, acting(seen=Payload(slot=slot, tensors=tensors)))
    path.unlink()
    assert state.picture().seats[0].view in ("shown", "elsewhere")


def test_only_so_many_are_looked_at(state: LiveState, ring: Ring, cameras: Cameras) -> None:
    show(state, ring, RED)
    for number in range(MOST_WATCHED):
        cameras.shot(f"nobody-{number}", "primary")
    assert cameras.shot("0", "primary") is None


def test_a_large_frame_is_made_smaller_and_keeps_its_shape() -> None:
    picture = Image.open(io.BytesIO(to_jpeg(np.zeros((1200, 1600, 3), np.uint8))))
    assert picture.size == (LONGEST_SIDE, LONGEST_SIDE * 3 // 4)
    assert picture.format == "JPEG"


def test_what_is_no_picture_is_left_out(ring: Ring) -> None:
    tensors = {"depth": np.zeros((4, 4), np.float32), "primary": np.zeros((4, 4, 3), np.uint8)}
    payload = ring.write(tensors, wait_s=0, holder="a test")
    assert list(look_at(payload)) == ["primary"]
