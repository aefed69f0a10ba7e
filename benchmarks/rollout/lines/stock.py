# SPDX-License-Identifier: Apache-2.0
"""The loop that anyone would write: seed, reset, settle, step and draw everything.

`python -m benchmarks.rollout.lines.stock EPISODES`, in LIBERO's environment.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.rollout.work import (
    CHUNK,
    IMAGE_SIZE,
    SEED,
    SUITE,
    TASK,
    Episode,
    actions,
    input_hash,
)
from rpent_box_libero.control import REST, SETTLE_STEPS
from rpent_box_libero.process import prepared_process
from rpent_box_libero.suites import find_suite


def main() -> None:
    with prepared_process():
        from libero.libero.envs import OffScreenRenderEnv

        from rpent_box_libero.tasks import find_task

        task = find_task(SUITE, find_suite(SUITE).tasks[TASK])
        env = OffScreenRenderEnv(
            bddl_file_name=str(task.bddl_file), camera_heights=IMAGE_SIZE, camera_widths=IMAGE_SIZE
        )
        init_states = task.init_states()
        for init_state in range(int(sys.argv[1])):
            play(env, init_state, init_states[init_state]).tell()


def play(env: Any, init_state: int, state: Any) -> Episode:  # noqa: ANN401 - LIBERO is untyped
    env.seed(SEED)
    env.reset()
    env.set_init_state(state)
    for _ in range(SETTLE_STEPS):
        raw, *_ = env.step(REST)
    seen = []
    rows = actions()
    for step, action in enumerate(rows):
        if step % CHUNK == 0:
            seen.append(_hash(raw))
        raw, *_ = env.step(action)
    return Episode(init_state=init_state, steps=len(rows), seen=seen)


def _hash(raw: Mapping[str, Any]) -> str:
    return input_hash(
        raw["agentview_image"],
        raw["robot0_eye_in_hand_image"],
        raw["robot0_eef_pos"],
        raw["robot0_gripper_qpos"],
    )


if __name__ == "__main__":
    main()
