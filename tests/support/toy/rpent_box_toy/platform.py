# SPDX-License-Identifier: Apache-2.0
"""A point on a plane that has to reach a goal. Pure numpy, and it can fail in many ways."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from rpent_box.contracts.control import ControlSpec
from rpent_box.contracts.meta import PlatformMeta
from rpent_box.contracts.observation import Actions, Image, Observation
from rpent_box.errors import AssetsMissing
from rpent_box.sim.platform import Applied, ModelNeeds, PlatformPlugin, Scene, Suite

CONTROL = ControlSpec(
    embodiment="toy_point",
    action_space="toy.point.delta.v1",
    action_schema=("delta_x", "delta_y"),
    action_type=None,
)
META = PlatformMeta(
    name="toy",
    controls=(CONTROL,),
    camera_roles=("primary", "wrist"),
    image_size=(32, 32),
    proprio_schema={"position": 2, "goal": 2},
)
REACH = 0.05
STEP = 0.1
PICTURES = "pictures.txt"
"""The toy's assets, where it is told of a folder of them."""


class ToyOptions(Struct, frozen=True, kw_only=True):
    """Options of the toy platform."""

    step_delay_s: Annotated[float, Meta(description="Seconds that a step takes.")] = 0.0
    open_delay_s: Annotated[float, Meta(description="Seconds that the import takes.")] = 0.0
    applied_log: Annotated[str, Meta(description="File that gets one line per apply.")] = ""
    assets_path: Annotated[
        str, Meta(description="A folder with the toy's pictures.", extra={"path": True})
    ] = ""
    needs_assets: Annotated[bool, Meta(description="Show nothing without pictures.")] = False
    breaks: Annotated[
        Literal[
            "never",
            "open",
            "reset",
            "apply",
            "replay",
            "hang_in_open",
            "hang_in_reset",
            "hang_in_apply",
            "hang_in_replay",
            "native_in_apply",
            "spin_in_apply",
            "stop_in_apply",
            "die_in_open",
            "die_in_apply",
        ],
        Meta(description="Where it raises, or what else it does there."),
    ] = "never"
    breaks_file: Annotated[
        str, Meta(description="File that gets a line whenever it hangs or dies.")
    ] = ""
    breaks_times: Annotated[
        int, Meta(description="How many lines there may be; 0: it hangs or dies always.")
    ] = 0
    breaks_while: Annotated[
        str, Meta(description="File without which it neither hangs nor dies.")
    ] = ""
    breaks_at_init_state: Annotated[
        int, Meta(description="The scene in which it hangs or dies; -1: any.")
    ] = -1
    breaks_at_step: Annotated[
        int, Meta(description="Steps of an episode before which apply does neither.")
    ] = 0


class ToyPlatform:
    """The running toy."""

    def __init__(self, options: ToyOptions) -> None:
        time.sleep(options.open_delay_s)
        self._options = options
        self._init_state = -1
        self._trace: list[np.ndarray] = []
        self._break_at("open")
        self._position = np.zeros(2)
        self._goal = np.zeros(2)
        self._reachable = True
        self.closed = 0
        self.prepared: ModelNeeds | None = None
        """What a connected model was said to need."""

    @property
    def meta(self) -> PlatformMeta:
        return META

    @property
    def versions(self) -> dict[str, str]:
        return {"numpy": np.__version__}

    @property
    def renderer(self) -> str:
        return "numpy"

    def prepare(self, needs: ModelNeeds) -> None:
        self.prepared = needs

    def reset(self, scene: Scene) -> Observation:
        self._init_state = scene.init_state
        self._break_at("reset")
        require(self._options)
        generator = np.random.default_rng([scene.seed, scene.task, scene.init_state])
        self._position = generator.uniform(-1, 1, size=2)
        self._goal = self._position + generator.uniform(0.5, 0.9, size=2)
        self._reachable = scene.suite != "toy_hard"
        self._trace = [self._position.copy()]
        return self._observe()

    def apply(self, actions: Actions) -> Applied:
        if self._options.applied_log:
            with Path(self._options.applied_log).open("a") as file:
                file.write(f"{len(actions)}\n")
        self._break_at("apply")
        began = time.monotonic()
        for done, action in enumerate(actions, start=1):
            time.sleep(self._options.step_delay_s)
            self._position = self._position + STEP * np.clip(action, -1, 1)
            self._trace.append(self._position.copy())
            if self._solved():
                return self._applied(done, began, success=True)
        return self._applied(len(actions), began, success=False)

    def replay(self, fps: float) -> Iterator[dict[str, Image]]:
        self._break_at("replay")
        for position in self._trace:
            yield self._draw(position)

    def close(self) -> None:
        self.closed += 1

    def _solved(self) -> bool:
        near = float(np.linalg.norm(self._goal - self._position)) < REACH
        return self._reachable and near

    def _applied(self, steps: int, began: float, *, success: bool) -> Applied:
        simulated = time.monotonic()
        observation = None if success else self._observe()
        return Applied(
            steps=steps,
            success=success,
            observation=observation,
            simulate_s=simulated - began,
            render_s=time.monotonic() - simulated,
        )

    def _observe(self) -> Observation:
        return Observation(
            images=self._draw(self._position),
            proprio={
                "position": self._position.astype(np.float32),
                "goal": self._goal.astype(np.float32),
            },
            instruction="go to the goal",
        )

    def _draw(self, position: np.ndarray) -> dict[str, Image]:
        shade = np.uint8(int(128 + 40 * position[0]) % 256)
        primary = np.full((*META.image_size, 3), shade, dtype=np.uint8)
        wrist = np.full((*META.image_size, 3), np.uint8(255) - shade, dtype=np.uint8)
        return {"primary": primary, "wrist": wrist}

    def _break_at(self, where: str) -> None:
        if self._options.breaks == where:
            raise RuntimeError(f"the toy broke at {where}")
        how, _, there = self._options.breaks.partition("_in_")
        if there == where and self._is_the_moment(where):
            _be_lost(how)

    def _is_the_moment(self, where: str) -> bool:
        options = self._options
        if options.breaks_at_init_state not in (-1, self._init_state):
            return False
        if where == "apply" and len(self._trace) <= options.breaks_at_step:
            return False
        if options.breaks_while and not Path(options.breaks_while).exists():
            return False
        if not options.breaks_file:
            return True
        # In a file, so that the next process knows how often it has been; one at a time, as the
        # simulators beside it come to the same step in the same moment.
        with Path(options.breaks_file).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if options.breaks_times and len(file.readlines()) >= options.breaks_times:
                return False
            file.write(f"{os.getpid()}\n")
        return True


SENDING_S = 0.2
"""Until what was just said has left the process."""


def _be_lost(how: str) -> None:
    match how:
        case "hang":
            time.sleep(3600)
        case "native":
            # A signal would end this sleep, and with it the process: native code that computes goes
            # on. Another thread is told of the signal; only this one could heed it.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            # Through this door the interpreter's lock is kept: no other thread of it goes on.
            ctypes.PyDLL(None).sleep(3600)
        case "spin":
            while True:
                pass
        case "stop":
            # It stops the thread that sends, too: the host would still wait for a prediction.
            time.sleep(SENDING_S)
            os.kill(os.getpid(), signal.SIGSTOP)
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)


def require(options: ToyOptions) -> None:
    """Raise `AssetsMissing` where pictures are wanted, or promised, and are not there."""
    wanted = options.needs_assets or bool(options.assets_path)
    if wanted and not (Path(options.assets_path or "/nowhere") / PICTURES).is_file():
        raise AssetsMissing(
            f"there is no {PICTURES} in {options.assets_path or 'any folder that was named'}",
            hint="Draw them: toy-draw DIR; then --toy-assets-path DIR",
        )


UNSEEN_SEED = 1_000_000
"""The first scene of toy_seeded that is not there."""


def require_scenes(options: ToyOptions, scenes: Sequence[Scene]) -> None:
    """Raise `AssetsMissing` for the first scene that is not there."""
    for scene in scenes:
        if scene.init_state >= UNSEEN_SEED:
            raise AssetsMissing(f"{scene.suite} has no picture of {scene.init_state}")


PLATFORM = PlatformPlugin(
    name="toy",
    summary="A point on a plane",
    meta=META,
    suites=(
        Suite(name="toy_easy", tasks=("reach", "reach_again"), max_steps=40, init_states=6),
        Suite(name="toy_hard", tasks=("never",), max_steps=25, init_states=6),
        Suite(name="toy_gone", tasks=("none",), max_steps=1, init_states=1, unavailable="no files"),
        Suite(
            name="toy_seeded",
            tasks=("near", "far"),
            max_steps=40,
            task_max_steps=(30, 60),
            init_states=0,
            first_init_state=1000,
        ),
        Suite(
            name="toy_easy_foggy",
            tasks=("reach", "reach_again"),
            max_steps=40,
            init_states=6,
            variant_of="toy_easy",
        ),
    ),
    default_suite="toy_easy",
    options=ToyOptions,
    open=ToyPlatform,
    require=require,
    require_scenes=require_scenes,
    env_fallbacks={"TOY_ASSETS_PATH": "assets_path"},
    python="3.10",
)
