# SPDX-License-Identifier: Apache-2.0
"""A hand above a table, drawn with numpy, that keeps every promise of a platform."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from rpent_box.contracts.control import control_spec
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.observation import Actions, Image, Observation
from rpent_box.contracts.spaces import LIBERO_OSC_DELTA
from rpent_box.errors import BadActions, IncompatibleWorker, SimulatorError, UnknownName
from rpent_box.sim.platform import Applied, ModelNeeds, Scene, Suite

SIDE = 64
STEPS_AGO = 2
SUITES = (
    Suite(name="near", tasks=("left", "right"), max_steps=40, init_states=5),
    Suite(name="far", tasks=("left", "right"), max_steps=80, init_states=5),
    Suite(name="nowhere", tasks=(), max_steps=1, init_states=0, unavailable="nothing is there"),
)
META = PlatformMeta(
    name="sound",
    controls=(control_spec(LIBERO_OSC_DELTA),),
    camera_roles=("primary", "wrist", f"wrist_{STEPS_AGO}_steps_ago"),
    image_size=(SIDE, SIDE),
    proprio_schema={"eef_position": 3, "eef_quaternion_xyzw": 4},
)


class NoOptions(Struct, frozen=True, kw_only=True):
    """It has none."""


class SoundPlatform:
    """A disc for a hand; a background that tells up from down, left from right, red from blue."""

    renderer = "numpy"
    versions = {"numpy": np.__version__}

    def __init__(self, name: str = "sound") -> None:
        self.meta = PlatformMeta(
            name=name,
            controls=META.controls,
            camera_roles=META.camera_roles,
            image_size=META.image_size,
            proprio_schema=META.proprio_schema,
        )
        self.roles = self.meta.camera_roles
        self.trace: list[np.ndarray] = []

    def prepare(self, needs: ModelNeeds) -> None:
        if needs.control not in self.meta.controls:
            raise IncompatibleWorker(f"{self.meta.name} does not move in {needs.control}")
        self.roles = needs.camera_roles

    def reset(self, scene: Scene) -> Observation:
        suite = self.find_suite(scene)
        drawn = np.random.default_rng([scene.seed, scene.task, scene.init_state, len(suite.name)])
        self.trace = [np.array([*drawn.uniform(-0.6, 0.6, 2), 1.0])]
        return self.observe()

    def apply(self, actions: Actions) -> Applied:
        if not self.trace:
            raise SimulatorError(f"{self.meta.name} was asked to act before its first reset")
        self.check(actions)
        began = time.perf_counter()
        for row in actions:
            self.move(row)
        moved = time.perf_counter()
        return Applied(
            steps=len(actions),
            success=False,
            observation=self.observe(),
            simulate_s=moved - began,
            render_s=time.perf_counter() - moved,
        )

    def replay(self, fps: float) -> Iterator[dict[str, Image]]:
        for position in self.trace[:: round(LIBERO_OSC_DELTA.control_hz / fps)]:
            yield {role: self.draw(role, position) for role in ("primary", "wrist")}

    def close(self) -> None:
        """Nothing to free."""

    def find_suite(self, scene: Scene) -> Suite:
        suite = next((suite for suite in SUITES if suite.name == scene.suite), None)
        if suite is None or suite.unavailable:
            raise UnknownName(f"{self.meta.name} has no suite {scene.suite}")
        if not 0 <= scene.task < len(suite.tasks):
            raise UnknownName(f"{suite.name} has no task {scene.task}")
        if not 0 <= scene.init_state < suite.init_states:
            raise UnknownName(f"{suite.name} has no initial state {scene.init_state}")
        return suite

    def check(self, actions: Actions) -> None:
        if actions.dtype != np.float32 or actions.ndim != 2:
            raise BadActions("wanted float32 [steps, 7]")
        if actions.shape[1] != 7 or not len(actions) or not np.isfinite(actions).all():
            raise BadActions("wanted at least one finite row of 7")

    def move(self, row: np.ndarray) -> None:
        self.trace.append(self.trace[-1] + 0.05 * row[:3].astype(np.float64))

    def observe(self) -> Observation:
        past = self.trace[max(0, len(self.trace) - 1 - STEPS_AGO)]
        return Observation(
            images={
                role: self.draw(role, past if "ago" in role else self.trace[-1])
                for role in self.roles
            },
            proprio={
                "eef_position": self.trace[-1].astype(np.float32),
                "eef_quaternion_xyzw": np.array([0, 0, 0, 1], np.float32),
            },
            instruction="move the hand",
        )

    def draw(self, role: str, position: np.ndarray) -> Image:
        rows, columns = np.mgrid[0:SIDE, 0:SIDE] / SIDE
        layers = [255 * rows, 255 * columns, 60 + 0 * rows]
        image = np.stack(layers if role == "primary" else layers[::-1], axis=-1)
        column, row = (np.array([position[0], -position[1]]) + 1) / 2
        image[np.hypot(rows - row, columns - column) < 0.08] = 255 * position[2] / 2
        return np.ascontiguousarray(np.clip(image, 0, 255), dtype=np.uint8)
