# SPDX-License-Identifier: Apache-2.0
"""Which kitchen a scene's two numbers stand for."""

from __future__ import annotations

from rpent_box.errors import UnknownName
from rpent_box.sim.platform import Scene

SCENES_PER_SEED = 100_000


def scene_seed(scene: Scene) -> int:
    """Return the seed that RoboCasa's generator is given: seed x 100000 + initial state.

    So each pair has a seed of its own. RLDX's evaluation of RoboCasa numbers scenes alike, but
    counts its episodes after it seeds them (rldx/eval/sim/wrapper/video_recording_wrapper.py): in
    its first environment, initial state N is shown in episode N + 1. Raises `UnknownName` for an
    initial state outside 0 to 99999.
    """
    if not 0 <= scene.init_state < SCENES_PER_SEED:
        raise UnknownName(
            f"robocasa has no initial state {scene.init_state}; they are numbered 0 to "
            f"{SCENES_PER_SEED - 1}",
            hint="For other scenes choose another --seed.",
        )
    return scene.seed * SCENES_PER_SEED + scene.init_state
