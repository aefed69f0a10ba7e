# SPDX-License-Identifier: Apache-2.0
"""What the pinned robosuite and RoboCasa lack between them, filled in.

RoboCasa365 uses three things of robosuite's development line that the release 1.5.2 does not have,
each left alone where the installed robosuite has it: a mobile base whose velocities
turn with it (`JOINT_VELOCITY_LEGACY`), a task with MuJoCo's multi-point collisions switched on
(`enable_multiccd`), and a constructor that builds nothing (`load_model_on_init`). Without them no
kitchen can be made. `docs/platforms/robocasa.md` says how this was compared.

And one thing that RoboCasa does by chance is done in order: see `keep_counters_in_order`.

Import this module inside `prepared_process`, before robocasa.
"""

from __future__ import annotations

import inspect
from typing import Any
from xml.etree import ElementTree

import numpy as np
import robosuite.models.tasks as tasks
import robosuite.utils.transform_utils as rotations
from numpy.typing import NDArray
from robosuite.controllers.parts import controller_factory
from robosuite.controllers.parts import mobile_base as bases
from robosuite.environments.manipulation.manipulation_env import ManipulationEnv

TURNING_BASE = "JOINT_VELOCITY_LEGACY"


def fill_gaps() -> None:
    """Add what is missing to robosuite, for the life of this process. May be called twice."""
    if not hasattr(bases, "LegacyMobileBaseJointVelocityController"):
        _add_turning_base()
    if "enable_multiccd" not in inspect.signature(tasks.ManipulationTask.__init__).parameters:
        _add_collision_flags()
    if "load_model_on_init" not in inspect.signature(ManipulationEnv.__init__).parameters:
        _accept_deferred_loading()


def keep_counters_in_order() -> None:
    """Let a seed decide where on a counter things are put, and not memory addresses.

    RoboCasa names a counter's free areas by the order of a set of XML elements, and draws one by
    name. That order is the elements' addresses', so equal seeds gave different scenes, even in one
    process. Where that module says `set`, it now gets the same elements in the order in which they
    were found.
    """
    from robocasa.models.fixtures import counter

    counter.set = dict.fromkeys


class TurningBaseController(bases.MobileBaseJointVelocityController):  # type: ignore[misc]
    """Drives forward and sideways as the base is turned now, and not as it was turned at first.

    The joints slide along the axes of the episode's start, so the command is turned by as much as
    the base has turned since. Of the release's own controller this differs by the direction of that
    turn, and by leaving the caller's array as it was.
    """

    def set_goal(self, action: NDArray[np.float64], set_qpos: object = None) -> None:
        """Take velocities [3] in -1 to 1: forward, to the left, counterclockwise."""
        self.update()
        _, orientation = self.get_base_pose()
        turned = rotations.mat2euler(orientation)[2] - rotations.mat2euler(self.init_ori)[2]
        forward, left = action[:2]
        goal = action.copy()
        goal[0] = forward * np.cos(turned) - left * np.sin(turned)
        goal[1] = forward * np.sin(turned) + left * np.cos(turned)
        self.goal_qvel = goal


def _add_turning_base() -> None:
    bases.LegacyMobileBaseJointVelocityController = TurningBaseController
    stock = controller_factory.mobile_base_controller_factory

    def make(name: str, params: dict[str, Any]) -> Any:  # noqa: ANN401 - robosuite is untyped
        if name == TURNING_BASE:
            return TurningBaseController(interpolator=None, **params)
        return stock(name, params)

    controller_factory.mobile_base_controller_factory = make


def _add_collision_flags() -> None:
    class FlaggedTask(tasks.ManipulationTask):  # type: ignore[misc]
        """A task that may switch MuJoCo's flags `multiccd` and `sleep` on."""

        def __init__(
            self,
            *arguments: object,
            enable_multiccd: bool = False,
            enable_sleeping_islands: bool = False,
            **named: object,
        ) -> None:
            super().__init__(*arguments, **named)
            flags = {"multiccd": enable_multiccd, "sleep": enable_sleeping_islands}
            for flag in (name for name, wanted in flags.items() if wanted):
                option = ElementTree.Element("option")
                ElementTree.SubElement(option, "flag", {flag: "enable"})
                self.root.insert(0, option)

    FlaggedTask.__name__ = FlaggedTask.__qualname__ = "ManipulationTask"
    tasks.ManipulationTask = FlaggedTask


def _accept_deferred_loading() -> None:
    stock = ManipulationEnv.__init__

    def construct(
        self: object,
        *arguments: object,
        load_model_on_init: bool = True,  # noqa: FBT001 - robosuite's signature
        **named: object,
    ) -> None:
        # `scene.BuiltAtReset` defers it anyway, for every environment of ours.
        stock(self, *arguments, **named)

    ManipulationEnv.__init__ = construct
