# SPDX-License-Identifier: Apache-2.0
"""Finished parts for tests: an observation, a manifest, a session without a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rpent_box.backends.mini_wam.adapter import ADAPTERS
from rpent_box.backends.mini_wam.manifest import Checkpoint, Manifest, Statistics
from rpent_box.backends.mini_wam.model import MiniWam
from rpent_box.backends.mini_wam.session import Arrays, Session
from rpent_box.contracts.observation import Observation
from rpent_box.worker.backend import PredictionInput

INSTRUCTION = "pick the bowl and place it on the plate"
STATISTICS = Statistics(proprio_mean=(0.0,) * 9, proprio_deviation=(1.0,) * 9)


def observation(
    *, primary: int = 0, wrist: int = 0, instruction: str = INSTRUCTION, size: int = 256
) -> Observation:
    """Return plain grey frames of the given brightness and a hand that points down."""
    return Observation(
        images={
            "primary": np.full((size, size, 3), primary, np.uint8),
            "wrist": np.full((size, size, 3), wrist, np.uint8),
        },
        proprio={
            "eef_position": np.array([-0.2, 0.0, 1.17], np.float32),
            "eef_quaternion_xyzw": np.array([1.0, 0.0, 0.0, 0.0], np.float32),
            "gripper_qpos": np.array([0.04, -0.04], np.float32),
        },
        instruction=instruction,
    )


def manifest(
    *, weights_sha256: str = "", future_sha256: str = "", platform: str = "libero"
) -> Manifest:
    return Manifest(
        platform=platform,
        action_space="libero.osc_pose.delta.v1",
        action_horizon=10,
        camera_roles=("primary", "wrist"),
        image_size=128,
        future_size=64,
        instructions=(INSTRUCTION,),
        statistics=STATISTICS,
        statistics_sha256=STATISTICS.sha256(),
        weights_sha256=weights_sha256,
        future_sha256=future_sha256,
    )


class FakeSession:
    """Answers with the mean brightness of each observation's primary frame, over 255."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.inputs: list[Arrays] = []
        self.spoil: dict[str, float] = {}
        """Output → a number to put into its last place."""

    def run(self, outputs: Sequence[str], inputs: Arrays) -> dict[str, NDArray[np.float32]]:
        self.asked.append(tuple(outputs))
        self.inputs.append(inputs)
        shown = inputs["images"][:, 0].mean((1, 2, 3)).astype(np.float32) / 255
        batch = len(shown)
        answers = {
            "actions": shown[:, None, None] + np.zeros((batch, 10, 7), np.float32),
            "value": shown,
            "thought": np.zeros((batch, 256), np.float32),
            "future": shown[:, None, None, None] + np.zeros((batch, 64, 64, 3), np.float32),
        }
        for name, number in self.spoil.items():
            answers[name] = answers[name].copy()
            answers[name].reshape(-1)[-1] = number
        return {name: answers[name] for name in outputs}


def model(session: Session, *, predict_future: bool = False, platform: str = "libero") -> MiniWam:
    checkpoint = Checkpoint(
        name="fake", weights=Path("none"), future=Path("none"), manifest=manifest()
    )
    imagination = session if predict_future else None
    return MiniWam(session, imagination, checkpoint, ADAPTERS[platform])


def request(shown: Observation) -> PredictionInput:
    return PredictionInput(observation=shown, session="test")
