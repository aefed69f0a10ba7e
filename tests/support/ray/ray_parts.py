# SPDX-License-Identifier: Apache-2.0
"""Events as a machine of a cluster tells them, for tests without one."""

from __future__ import annotations

from rpent_box.contracts.control import ControlSpec
from rpent_box.contracts.meta import ModelMeta, PlatformMeta
from rpent_box.evaluate.scale.events import Envs, Known
from rpent_box.sim.manifest import SimulatorFacts, WorkerFacts
from rpent_box.version import __version__

CONTROL = ControlSpec(
    embodiment="toy_point",
    action_space="toy.point.delta.v1",
    action_schema=("delta_x", "delta_y"),
    action_type=None,
)
KNOWN = Known(
    place="node-0",
    simulator=SimulatorFacts(
        meta=PlatformMeta(
            name="toy",
            controls=(CONTROL,),
            camera_roles=("primary",),
            image_size=(32, 32),
            proprio_schema={},
        ),
        versions={},
        renderer="numpy",
    ),
    worker=WorkerFacts(
        meta=ModelMeta(
            kind="vla",
            backend="toy",
            checkpoint="built-in",
            control=CONTROL,
            camera_roles=("primary",),
            proprio_schema={},
            action_horizon=4,
            execute_steps=4,
        ),
        rpent_box=__version__,
    ),
)
TWO = Envs(place="node-0", count=2, why="asked for")
