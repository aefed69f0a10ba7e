# SPDX-License-Identifier: Apache-2.0
"""One scene in robosuite: built at each reset, moved, measured, and drawn when looked at.

Import this module inside `prepared_process`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpent_box.contracts.observation import Image, Observation
from rpent_box_robocasa.moments import Moments, drawn
from rpent_box_robocasa.observation import CAMERA_ROLES, proprio_from
from rpent_box_robocasa.robot import check_columns
from rpent_box_robocasa.roles import STEPS_AGO, VIEWS
from rpent_box_robocasa.state import State

Raw = Mapping[str, NDArray[Any]]
"""Robosuite's own observation: name → array; its images are black."""


class RobocasaEnvironment:
    """A simulator of one task. Owns its GL context; `close` frees both."""

    def __init__(self, make: Callable[[Moments], Any], *, image_size: int) -> None:
        self.image_size = image_size
        self.moments = Moments(max(STEPS_AGO), image_size=image_size)
        self.instruction = ""
        """What the model is told, from the first reset on."""
        self._environment = make(self.moments)
        self._raw: Raw = {}

    def reset(self, seed: int) -> None:
        """Build the scene of `seed`, in which RoboCasa lets things settle for ten control steps.

        Raises `SimulatorError` when its things find no place.
        """
        self._raw = self._environment.reset_scene(seed)
        check_columns(self._environment)
        self.instruction = str(self._environment.get_ep_meta()["lang"])

    def step(self, action: NDArray[Any]) -> bool:
        """Execute one action [12]; return whether the task is solved."""
        self.moments.advance()
        self._raw, _, _, _ = self._environment.step(np.asarray(action, dtype=np.float64))
        return self.is_solved()

    def observe(self, roles: Collection[str]) -> Observation:
        """Return what was sampled in the last control step, and the frames of `roles`.

        Frames are drawn now, each once; the arrays of frames are shared, so none is writable.
        """
        images = {role: self._frame(*VIEWS[role]) for role in VIEWS if role in roles}
        proprio = proprio_from(self._raw)
        return Observation(images=images, proprio=proprio, instruction=self.instruction)

    @property
    def raw(self) -> Raw:
        """What was sampled in the last control step, in robosuite's names: things' poses too."""
        return self._raw

    @property
    def robosuite(self) -> Any:  # noqa: ANN401 - robosuite is untyped
        """RoboCasa's own environment."""
        return self._environment

    def is_solved(self) -> bool:
        """Return whether the task's own check holds now; some of them count how often it did."""
        return bool(self._environment._check_success())

    def state(self) -> State:
        """Return a copy of where everything is and how it looks."""
        numbers: NDArray[np.float64] = self._environment.sim.get_state().flatten()
        return State(numbers, self.moments.appearance)

    def draw(self, state: State) -> dict[str, Image]:
        """Move the scene to `state` and return what every camera sees; only `reset` may follow."""
        sim = self._environment.sim
        sim.set_state_from_flattened(state.numbers)
        sim.forward()
        state.appearance.put_on(sim.model)
        return {role: drawn(sim, name, self.image_size) for name, role in CAMERA_ROLES.items()}

    def close(self) -> None:
        """Free the simulation and the GL context. May be called twice."""
        if self._environment is not None:
            self.moments.begin()
            self._environment.close()
            self._environment = None
            self._raw = {}

    def _frame(self, camera: str, steps_ago: int) -> Image:
        return self.moments.frame(camera, steps_ago=steps_ago)
