# SPDX-License-Identifier: Apache-2.0
"""rpent-box's LIBERO platform in a loop of its own, in one process: what simulating alone costs.

`python -m benchmarks.rollout.lines.platform_alone EPISODES`, in LIBERO's environment.
"""

from __future__ import annotations

import sys
import time

from benchmarks.rollout.work import CHUNK, SEED, SUITE, TASK, Episode, actions, input_hash
from rpent_box.contracts.observation import Observation
from rpent_box.sim.platform import Platform, Scene
from rpent_box_libero import PLATFORM
from rpent_box_libero.plugin import LiberoOptions


def main() -> None:
    platform = PLATFORM.open(LiberoOptions())
    for init_state in range(int(sys.argv[1])):
        play(platform, init_state).tell()
    platform.close()


def play(platform: Platform, init_state: int) -> Episode:
    began = time.perf_counter()
    observation = platform.reset(Scene(suite=SUITE, task=TASK, init_state=init_state, seed=SEED))
    setup_s = time.perf_counter() - began
    seen = []
    steps, simulate_s, render_s = 0, 0.0, 0.0
    rows = actions()
    while steps < len(rows):
        seen.append(_hash(observation))
        applied = platform.apply(rows[steps : steps + CHUNK])
        steps += applied.steps
        simulate_s += applied.simulate_s
        render_s += applied.render_s
        if applied.observation is None:
            break
        observation = applied.observation
    stages_s = {"simulate": simulate_s, "render": render_s}
    return Episode(
        init_state=init_state, steps=steps, seen=seen, setup_s=setup_s, notes={"stages_s": stages_s}
    )


def _hash(observation: Observation) -> str:
    return input_hash(
        observation.images["primary"][::-1],
        observation.images["wrist"][::-1],
        observation.proprio["eef_position"],
        observation.proprio["gripper_qpos"],
    )


if __name__ == "__main__":
    main()
