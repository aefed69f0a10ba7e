# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest

from rpent_box_libero.gate import CameraGate, Frame


class Camera:
    """Draws the number of times that it was asked."""

    __modality__ = "image"
    __name__ = "camera_rgb"

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self, cache: dict[str, Any]) -> Frame:
        self.drawn += 1
        return np.full((2, 3, 3), self.drawn, dtype=np.uint8)


def test_a_closed_gate_repeats_the_last_frame_and_draws_nothing() -> None:
    gate, camera = CameraGate(), Camera()
    sensor = gate.wrap(camera, camera="front", height=2, width=3)
    assert (sensor({}) == 0).all()
    gate.is_open = True
    assert (sensor({}) == 1).all()
    gate.is_open = False
    assert (sensor({}) == 1).all()
    assert camera.drawn == 1


def test_an_open_gate_draws_each_time_and_measures_it() -> None:
    gate, camera = CameraGate(), Camera()
    sensor = gate.wrap(camera, camera="front", height=2, width=3)
    gate.is_open = True
    sensor({})
    sensor({})
    assert camera.drawn == 2
    assert gate.render_s > 0


def test_a_gated_sensor_keeps_the_marks_that_robosuite_reads() -> None:
    def camera_rgb(cache: dict[str, Any]) -> Frame:
        return np.zeros((2, 3, 3), dtype=np.uint8)

    camera_rgb.__modality__ = "image"  # type: ignore[attr-defined]
    sensor = CameraGate().wrap(camera_rgb, camera="front", height=2, width=3)
    assert sensor.__modality__ == "image"  # type: ignore[attr-defined]
    assert sensor.__name__ == "camera_rgb"
    assert sensor({}).shape == (2, 3, 3)


def test_a_failing_camera_is_not_hidden() -> None:
    def broken(cache: dict[str, Any]) -> Frame:
        raise RuntimeError("no context")

    gate = CameraGate()
    sensor = gate.wrap(broken, camera="front", height=2, width=3)
    gate.is_open = True
    with pytest.raises(RuntimeError, match="no context"):
        sensor({})


def test_a_camera_that_nobody_looks_through_draws_nothing() -> None:
    gate, used, unused = CameraGate(), Camera(), Camera()
    sensors = [
        gate.wrap(camera, camera=name, height=2, width=3)
        for name, camera in (("front", used), ("hand", unused))
    ]
    gate.is_open = True
    gate.cameras = frozenset({"front"})
    assert [int(sensor({}).max()) for sensor in sensors] == [1, 0]
    assert (used.drawn, unused.drawn) == (1, 0)
    gate.cameras = None
    assert [int(sensor({}).max()) for sensor in sensors] == [2, 1]
