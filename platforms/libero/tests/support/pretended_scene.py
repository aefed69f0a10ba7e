# SPDX-License-Identifier: Apache-2.0
"""A teaching scene without a simulator: it counts steps, and its expert counts along."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Observation

GRIPPER = -1.0


class PretendedScene:
    """Each frame shows how many steps were executed; what the expert does depends on that alone."""

    instruction = "pick it"
    instruction_in_name = "pick the thing"

    def __init__(
        self, *, name: str = "a", solved_after: int = 35, lost_after: int = 10_000, size: int = 4
    ) -> None:
        self.lesson = SimpleNamespace(name=name)
        self.skill = self
        self.environment = SimpleNamespace(state=lambda: np.array([self.steps, self.start, 0.5]))
        self.steps = 0
        self.start = 0.0
        self.executed: list[NDArray[np.float64]] = []
        self.labels_asked = 0
        self.closed = 0
        self._solved_after = solved_after
        self._lost_after = lost_after
        self._size = size

    @staticmethod
    def expert_at(step: float) -> NDArray[np.float64]:
        return np.array([step / 1000, 0, 0, 0, 0, 0, GRIPPER])

    def sample(self, rng: np.random.Generator, *, joint_noise_rad: float) -> Observation:
        self.steps = 0
        self.executed = []
        self.start = float(rng.normal(0, joint_noise_rad))
        return self._observe()

    def execute(
        self, actions: NDArray[np.float64], *, render: bool = True
    ) -> tuple[Observation, bool]:
        self.steps += len(actions)
        self.executed.append(actions.copy())
        return self._observe(), self.steps >= self._solved_after

    def label(self, steps: int) -> NDArray[np.float64]:
        self.labels_asked += 1
        return np.stack([self.expert_at(self.steps + later) for later in range(steps)])

    def state(self) -> Any:
        return self.steps

    def act(self, state: int) -> NDArray[np.float64]:
        return self.expert_at(state)

    def progress(self, state: int) -> float:
        return min(1.0, state / self._solved_after)

    def is_lost(self, state: int) -> bool:
        return state >= self._lost_after

    def places(self, state: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.array([0, 0, 0.9]), np.array([0.1, 0, 0.9])

    def close(self) -> None:
        self.closed += 1

    def _observe(self) -> Observation:
        frame = np.full((self._size, self._size, 3), self.steps, np.uint8)
        return Observation(
            images={"primary": frame, "wrist": frame},
            proprio={
                "eef_position": np.full(3, self.start, np.float32),
                "eef_quaternion_xyzw": np.array([0, 0, 0, 1], np.float32),
                "gripper_qpos": np.array([0.04, -0.04], np.float32),
            },
            instruction=self.instruction,
        )
