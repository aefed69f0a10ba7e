# SPDX-License-Identifier: Apache-2.0
"""From an observation to the arguments of `FastWAM.infer_action`."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from PIL import Image as Pillow

from rpent_box.backends.fast_wam.calibration import Calibration
from rpent_box.backends.fast_wam.layout import Size
from rpent_box.backends.rotations import axis_angle_of
from rpent_box.contracts.observation import Image, Observation, Vector

LIBERO_PROPRIO = {"eef_position": 3, "eef_quaternion_xyzw": 4, "gripper_qpos": 2}
ROBOTWIN_PROPRIO = {"joint_targets": 14}
# FastWAM, src/fastwam/datasets/lerobot/robot_video_dataset.py: what it was trained to read.
PROMPT = "A video recorded from a robot's point of view executing the following instruction: {task}"


class FastWamInput(Struct, frozen=True, kw_only=True):
    """What the model is given."""

    image: NDArray[np.float32]
    """float32 [1, 3, height, width] from -1 to 1: all cameras in one picture."""
    proprio: NDArray[np.float32]
    """float32 [1, 8] (LIBERO) or [1, 14] (RoboTwin), normalised."""
    prompt: str


def encode_libero(observation: Observation, calibration: Calibration) -> FastWamInput:
    """Return the model's input: primary and wrist joined, a state of 8 numbers."""
    pictures = [
        cover(mirror(observation.images[role]), size)
        for role, size in zip(("primary", "wrist"), calibration.layout.cameras, strict=True)
    ]
    across = 1 if calibration.layout.concat == "horizontal" else 0
    return FastWamInput(
        image=_scaled(np.concatenate(pictures, axis=across), calibration),
        proprio=calibration.state.forward(libero_state(observation.proprio))[np.newaxis],
        prompt=prompt_of(observation.instruction),
    )


def encode_robotwin(observation: Observation, calibration: Calibration) -> FastWamInput:
    """Return the model's input: the head above the two wrists, a state of 14 joint targets."""
    head, left, right = (
        stretch(observation.images[role], size)
        for role, size in zip(
            ("head", "left_wrist", "right_wrist"), calibration.layout.cameras, strict=True
        )
    )
    picture = np.concatenate([head, np.concatenate([left, right], axis=1)], axis=0)
    state = observation.proprio["joint_targets"]
    return FastWamInput(
        image=_scaled(picture, calibration),
        proprio=calibration.state.forward(state)[np.newaxis],
        prompt=prompt_of(observation.instruction),
    )


def prompt_of(instruction: str) -> str:
    """Return the sentence that the text encoder is given."""
    return PROMPT.format(task=instruction)


def mirror(image: Image) -> Image:
    """Swap left and right, contiguous.

    LIBERO's training frames are the simulator's raw ones turned by 180 degrees (FastWAM,
    experiments/libero/libero_utils.py, `get_libero_image`); the platform turned them upright, which
    is half of that.
    """
    return np.ascontiguousarray(image[:, ::-1])


def libero_state(proprio: dict[str, Vector]) -> Vector:
    """Return float32 [8]: position (m), rotation vector (rad), the two fingers (m)."""
    rotation = axis_angle_of(proprio["eef_quaternion_xyzw"])
    parts = (proprio["eef_position"], rotation, proprio["gripper_qpos"])
    return np.concatenate(parts).astype(np.float32)


def cover(image: Image, size: Size) -> Image:
    """Return uint8 [*size, 3]: scaled until it covers `size`, its middle cut out.

    FastWAM, experiments/libero/eval_libero_single.py, `_center_crop_resize`; sides are rounded half
    to even.
    """
    height, width = size
    picture = Pillow.fromarray(image)
    scale = max(width / picture.width, height / picture.height)
    wanted = (round(picture.width * scale), round(picture.height * scale))
    scaled = picture.resize(wanted, resample=Pillow.Resampling.BILINEAR)
    left = max((scaled.width - width) // 2, 0)
    top = max((scaled.height - height) // 2, 0)
    return np.asarray(scaled.crop((left, top, left + width, top + height)), np.uint8)


def stretch(image: Image, size: Size) -> Image:
    """Return uint8 [*size, 3], its sides scaled each by its own factor."""
    height, width = size
    picture = Pillow.fromarray(image)
    return np.asarray(picture.resize((width, height), Pillow.Resampling.BILINEAR), np.uint8)


def _scaled(picture: Image, calibration: Calibration) -> NDArray[np.float32]:
    """uint8 [height, width, 3] → float32 [1, 3, height, width], contiguous."""
    scaled: NDArray[np.float32] = calibration.pixels[
        np.ascontiguousarray(picture.transpose(2, 0, 1))
    ]
    return scaled[np.newaxis]
