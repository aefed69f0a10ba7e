# SPDX-License-Identifier: Apache-2.0
"""Robosuite's environments, built at the reset and from nothing but a seed; drawn when asked.

Import this module inside `prepared_process`.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from robocasa.environments.kitchen.kitchen import REGISTERED_KITCHEN_ENVS
from robocasa.utils.errors import PlacementError, SamplingError
from robosuite.environments.base import REGISTERED_ENVS, MujocoEnv
from robosuite.utils.errors import RandomizationError

from rpent_box.errors import SimulatorError
from rpent_box_robocasa.moments import Moments

_NUMPY_SEEDS = 2**32
Sensor = Callable[..., Any]


class BuiltAtReset(MujocoEnv):  # type: ignore[misc]  # robosuite is untyped
    """Mixed in before an environment's class; `built_at_reset` does it.

    The constructor builds nothing, and `reset_scene` everything: model, controllers, sensors.
    """

    moments: Moments
    sim: Any = None
    _observables: dict[str, Any]
    _is_made = False
    """False: still in the constructor."""

    def reset_scene(self, seed: int) -> Any:  # noqa: ANN401
        """Build the scene of `seed` and return robosuite's first observation, its images black.

        The generator is seeded as RoboCasa's Gymnasium wrapper does it in `reset(seed=…)`, the two
        global ones besides. Raises `SimulatorError` when the things of the scene find no place.
        """
        random.seed(seed)
        np.random.seed(seed % _NUMPY_SEEDS)
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.moments.begin()
        self._destroy_sim()
        self._is_made = True
        try:
            return self.reset()
        except (RuntimeError, RandomizationError, PlacementError, SamplingError) as error:
            raise SimulatorError(
                f"{type(self).__name__} cannot be built with seed {seed}: {error}",
                hint="Use another --first-init-state or --seed.",
            ) from error

    def _load_model(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        if self._is_made:
            super()._load_model(*arguments, **named)

    def _initialize_sim(self, xml_string: str | None = None) -> None:
        if self._is_made:
            super()._initialize_sim(xml_string)

    def initialize_renderer(self) -> None:
        """Do nothing: there is no window."""

    def _reset_internal(self) -> None:
        if self._is_made:
            super()._reset_internal()

    def _setup_observables(self) -> Any:  # noqa: ANN401
        if not self._is_made:
            return OrderedDict()
        made = super()._setup_observables()
        if not self._observables:
            self._observables = made
        return made

    def _destroy_sim(self) -> None:
        context = None if self.sim is None else self.sim._render_context_offscreen
        if context is not None:
            # MuJoCo frees meshes and textures by number, in whichever GL context is current:
            # another environment's, if that one drew last.
            context.gl_ctx.make_current()
        super()._destroy_sim()

    def _create_camera_sensors(
        self,
        cam_name: str,
        cam_w: int,
        cam_h: int,
        cam_d: bool,  # noqa: FBT001 - robosuite's signature
        cam_segs: Any,  # noqa: ANN401
        modality: str = "image",
    ) -> tuple[list[Sensor], list[str]]:
        sensors, names = super()._create_camera_sensors(
            cam_name, cam_w, cam_h, cam_d, cam_segs, modality
        )
        keeps = cam_name == self.camera_names[0]
        return [self._undrawn(sensor, cam_h, cam_w, keeps=keeps) for sensor in sensors], names

    def _undrawn(self, stock: Sensor, height: int, width: int, *, keeps: bool) -> Sensor:
        """Return a sensor with a black frame; one of them keeps the moment at which it is asked."""
        black = np.zeros((height, width, 3), dtype=np.uint8)

        def sensor(cache: dict[str, Any]) -> NDArray[np.uint8]:
            if keeps:
                self.moments.keep(self.sim)
            return black

        sensor.__dict__.update(vars(stock))  # robosuite marks a sensor with its modality
        sensor.__name__ = stock.__name__
        return sensor


def built_at_reset(stock: Any, moments: Moments) -> Any:  # noqa: ANN401
    """Return the environment class `stock` with `BuiltAtReset` before it, under its own name.

    Both packages enter every new class into a table by its name: there `stock` stays.
    """
    made = type(stock)(stock.__name__, (BuiltAtReset, stock), {"moments": moments})
    for registry in (REGISTERED_ENVS, REGISTERED_KITCHEN_ENVS):
        if registry.get(stock.__name__) is made:
            registry[stock.__name__] = stock
    return made
