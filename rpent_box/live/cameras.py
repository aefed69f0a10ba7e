# SPDX-License-Identifier: Apache-2.0
"""What simulators have just shown to the model, as pictures for people. Only while somebody looks.

The frames lie in the simulators' rings until their next prediction. While a page asks for them, the
thread that hears of new ones copies them at once, some 0.1 ms for two cameras of 256 x 256, since a
busy worker's simulators wait most of the time, and while they wait their ring holds newer frames
that nobody has been told of.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from PIL import Image

from rpent_box.contracts.messages import Payload
from rpent_box.errors import StaleFrame, TransportError
from rpent_box.live.seats import roles_of
from rpent_box.live.state import LiveState
from rpent_box.transport.onlooker import copy_of
from rpent_box.transport.paths import BoxPaths, box_of_segment

WATCHED_S = 5.0
"""After the last question for a simulator's frames nobody looks at it any more."""
EVERY_S = 0.5
"""Frames of one simulator are copied at most this often."""
MOST_WATCHED = 64
LONGEST_SIDE = 512
"""Pixels; larger frames are made smaller."""
QUALITY = 85


class Shot(Struct, frozen=True, kw_only=True):
    """One camera's picture."""

    number: int
    """Of the observation; another one has another number."""
    jpeg: bytes


class Cameras:
    """Looks over the shoulders of an evaluation's simulators. Safe from any thread."""

    def __init__(self, state: LiveState, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._numbers = 0

    def offer(self, simulator: str, payload: Payload) -> None:
        """There are new frames: copy them if somebody looks at them. Told by the state."""
        now = self._clock()
        with self._lock:
            self._forget(now)
            watched = self._watched.get(simulator)
            if watched is None or now - watched.taken_at < EVERY_S:
                return
            watched.taken_at = now
        self._take(simulator, watched, payload)

    def shot(self, simulator: str, role: str, *, after: int = 0) -> Shot | None:
        """Return the latest picture; None when there is none, or none but number `after`."""
        watched = self._watch(simulator)
        if watched is None:
            return None
        payload = self._state.seen(simulator)
        if not watched.frames and payload is not None:
            # The first one to look: the frames may still be there.
            self._take(simulator, watched, payload)
        with self._lock:
            frame = watched.frames.get(role)
            number = watched.number
            known = watched.jpegs.get(role)
        if frame is None or number == after:
            return None
        if known is None:
            known = to_jpeg(frame)
            with self._lock:
                if watched.number == number:
                    watched.jpegs[role] = known
        return Shot(number=number, jpeg=known)

    def _watch(self, simulator: str) -> _Watched | None:
        """Note that somebody looks at `simulator`; None when too many are looked at."""
        now = self._clock()
        with self._lock:
            self._forget(now)
            watched = self._watched.get(simulator)
            if watched is None:
                if len(self._watched) >= MOST_WATCHED:
                    return None
                watched = self._watched[simulator] = _Watched()
            watched.asked_at = now
            return watched

    def _take(self, simulator: str, watched: _Watched, payload: Payload) -> None:
        try:
            frames = look_at(payload)
        except StaleFrame:
            return
        except TransportError:
            # Its name is known, so there is a ring, on another machine or no longer.
            self._state.note_view(simulator, "elsewhere")
            return
        self._state.note_view(simulator, "shown")
        with self._lock:
            self._numbers += 1
            watched.number, watched.frames, watched.jpegs = self._numbers, frames, {}

    def _forget(self, now: float) -> None:
        for name in [name for name, it in self._watched.items() if now - it.asked_at > WATCHED_S]:
            del self._watched[name]


class _Watched:
    """A simulator that somebody looks at."""

    def __init__(self) -> None:
        self.asked_at = 0.0
        self.taken_at = -EVERY_S
        self.number = 0
        self.frames: Mapping[str, NDArray[np.uint8]] = {}
        self.jpegs: dict[str, bytes] = {}


def look_at(payload: Payload) -> dict[str, NDArray[np.uint8]]:
    """Return copies of the camera frames of `payload`, uint8 [H, W, 3].

    Raises `StaleFrame` when they are there no more, `TransportError` when they never were here.
    """
    box = box_of_segment(payload.slot.segment) if payload.slot is not None else None
    if box is None:
        raise TransportError("these frames are in no box's shared memory")
    search: tuple[Path, ...] = (BoxPaths.on_host(box).grants,)
    return copy_of(payload, search=search, names=roles_of(payload))


def to_jpeg(frame: NDArray[np.uint8]) -> bytes:
    """Return uint8 [H, W, 3] as a JPEG file of at most `LONGEST_SIDE` pixels a side."""
    picture = Image.fromarray(frame)
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
