# SPDX-License-Identifier: Apache-2.0
"""A simulator that takes its time and no processor: two grey frames, and a stated cost per step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from benchmarks.rollout.work import IMAGE_SIZE, STEPS
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.observation import Actions, Image, Observation
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.sim.platform import Applied, ModelNeeds, PlatformPlugin, Scene, Suite

META = PlatformMeta(
    name="paced",
    controls=(control_spec(LIBERO_OSC_DELTA),),
    camera_roles=("primary", "wrist"),
    image_size=(IMAGE_SIZE, IMAGE_SIZE),
    proprio_schema={"eef_position": 3, "gripper_qpos": 2},
)


class PacedOptions(Struct, frozen=True, kw_only=True):
    """Options of the paced simulator."""

    step_s: Annotated[float, Meta(description="Seconds that a control step takes.")] = 0.0
    reset_s: Annotated[float, Meta(description="Seconds that a reset takes.")] = 0.0
    spread: Annotated[
        float, Meta(description="How far a chunk's time is off its mean at most, of the mean.")
    ] = 0.0


class PacedPlatform:
    """Sleeps where another one computes."""

    meta = META
    versions = {"numpy": np.__version__}
    renderer = "none"

    def __init__(self, options: PacedOptions) -> None:
        self._options = options
        self._generator = np.random.default_rng(0)

    def prepare(self, needs: ModelNeeds) -> None:
        """Whatever is wanted is there."""

    def reset(self, scene: Scene) -> Observation:
        self._generator = np.random.default_rng([scene.seed, scene.init_state])
        time.sleep(self._options.reset_s)
        return self._observe()

    def apply(self, actions: Actions) -> Applied:
        began = time.monotonic()
        off = self._options.spread * self._generator.uniform(-1, 1)
        time.sleep(self._options.step_s * len(actions) * (1 + off))
        return Applied(
            steps=len(actions),
            success=False,
            observation=self._observe(),
            simulate_s=time.monotonic() - began,
            render_s=0.0,
        )

    def replay(self, fps: float) -> Iterator[dict[str, Image]]:
        yield dict(self._observe().images)

    def close(self) -> None:
        """Nothing is held."""

    def _observe(self) -> Observation:
        shade = int(self._generator.integers(256))
        frame = np.full((IMAGE_SIZE, IMAGE_SIZE, 3), shade, dtype=np.uint8)
        return Observation(
            images={"primary": frame, "wrist": frame.copy()},
            proprio={
                "eef_position": np.zeros(3, dtype=np.float32),
                "gripper_qpos": np.zeros(2, dtype=np.float32),
            },
            instruction="wait",
        )


PLATFORM = PlatformPlugin(
    name="paced",
    summary="Waits, for benchmarks",
    meta=META,
    suites=(Suite(name="paced", tasks=("wait",), max_steps=STEPS, init_states=100_000),),
    default_suite="paced",
    options=PacedOptions,
    open=PacedPlatform,
    python="3.10",
)
