# SPDX-License-Identifier: Apache-2.0
"""Time one LIBERO episode three ways, side by side: `make bench-rollout`.

    stock            reset per episode, draw both cameras at every step
    gated            the same, drawing only the frames that a policy would see
    gated + reuse    and the compiled scene kept between episodes: what rpent-box does

The three take turns, so that a busy machine slows them alike. The frames that a policy would see
are compared to the byte. Runs in LIBERO's own environment, from the repository's root:

    python -m benchmarks.rollout.run
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rpent_box_libero import PLATFORM
from rpent_box_libero.control import REST, SETTLE_STEPS
from rpent_box_libero.process import prepared_process
from rpent_box_libero.suites import find_suite

if TYPE_CHECKING:
    from rpent_box_libero.tasks import Task

SEED = 7
TARGET = 0.25
"""Ours may take at most this share of the stock loop's time."""


@dataclass
class Loop:
    """One way to play an episode. `play` takes an initial state and yields the seen frames."""

    name: str
    play: Callable[[NDArray[np.float64]], list[str]]
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def time(self, init_state: NDArray[np.float64]) -> list[str]:
        wall, cpu = time.perf_counter(), time.process_time()
        frames = self.play(init_state)
        self.wall_s.append(time.perf_counter() - wall)
        self.cpu_s.append(time.process_time() - cpu)
        return frames


def main() -> int:
    options = read_options()
    for name, value in PLATFORM.environment.items():
        os.environ.setdefault(name, value)
    with prepared_process():
        from rpent_box_libero.renderer import describe_renderer
        from rpent_box_libero.tasks import find_task

        renderer = describe_renderer()
        task = find_task(options.suite, find_suite(options.suite).tasks[options.task])
        loops = [stock_loop(task, options), *our_loops(task, options)]
        identical = play_in_turns(loops, task.init_states(), options.episodes)
    return report(loops, options, renderer, identical=identical)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="libero_spatial")
    parser.add_argument("--task", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=3, help="timed episodes of each loop")
    parser.add_argument("--steps", type=int, default=110)
    parser.add_argument("--chunk", type=int, default=10)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    return parser.parse_args()


def play_in_turns(loops: list[Loop], init_states: NDArray[np.float64], episodes: int) -> bool:
    """Play one untimed episode of each loop, then `episodes` timed ones; compare all frames."""
    identical = True
    for episode in range(episodes + 1):
        seen = [loop.time(init_states[episode]) for loop in loops]
        for loop, frames in zip(loops, seen, strict=True):
            if frames != seen[0]:
                identical = False
                print(f"episode {episode}: {loop.name} differs from stock", file=sys.stderr)
        print(".", end="", file=sys.stderr, flush=True)
    for loop in loops:  # the first episode builds what later ones keep
        del loop.wall_s[0], loop.cpu_s[0]
    print(file=sys.stderr)
    return identical


def stock_loop(task: Task, options: argparse.Namespace) -> Loop:
    from libero.libero.envs import OffScreenRenderEnv

    env = OffScreenRenderEnv(
        bddl_file_name=str(task.bddl_file),
        camera_heights=options.size,
        camera_widths=options.size,
    )

    def play(init_state: NDArray[np.float64]) -> list[str]:
        # Its reset frees GL objects by number in whichever context is current; the others draw too.
        env.sim._render_context_offscreen.gl_ctx.make_current()
        env.seed(SEED)
        env.reset()
        env.set_init_state(init_state)
        for _ in range(SETTLE_STEPS):
            raw, *_ = env.step(REST)
        frames = [digest(raw)]
        for step, action in enumerate(some_actions(options.steps), start=1):
            raw, *_ = env.step(action)
            if step % options.chunk == 0 or step == options.steps:
                frames.append(digest(raw))
        return frames

    return Loop("stock", play)


def our_loops(task: Task, options: argparse.Namespace) -> list[Loop]:
    from rpent_box_libero.environment import LiberoEnvironment

    def loop(name: str, *, reuse: bool) -> Loop:
        environment = LiberoEnvironment(task, image_size=options.size)

        def play(init_state: NDArray[np.float64]) -> list[str]:
            if not reuse:
                environment.problem.forget_scene()
            environment.reset(seed=SEED, init_state=init_state)
            frames = [digest(environment.raw)]
            for step, action in enumerate(some_actions(options.steps), start=1):
                seen = step % options.chunk == 0 or step == options.steps
                environment.step(action, render=seen)
                if seen:
                    frames.append(digest(environment.raw))
            return frames

        return Loop(name, play)

    return [loop("gated", reuse=False), loop("gated + reuse", reuse=True)]


def some_actions(steps: int) -> NDArray[np.float64]:
    """Return [steps, 7]: down onto the table, around, the gripper closing and opening."""
    actions = np.random.default_rng(3).uniform(-0.4, 0.4, (steps, 7))
    actions[:, 2] -= 0.25
    actions[:, 6] = np.where(np.arange(steps) % 25 < 12, -1, 1)
    return actions


def digest(raw: Mapping[str, NDArray[Any]]) -> str:
    frames = (raw["agentview_image"], raw["robot0_eye_in_hand_image"])
    return hashlib.sha256(b"".join(frame.tobytes() for frame in frames)).hexdigest()


def report(
    loops: list[Loop], options: argparse.Namespace, renderer: str, *, identical: bool
) -> int:
    base = statistics.median(loops[0].wall_s)
    print(
        f"{options.suite} task {options.task}: {options.steps} steps, chunks of {options.chunk}, "
        f"2 cameras {options.size}x{options.size}, {renderer}"
    )
    print(f"{'loop':<15}{'s per episode':>15}{'best':>8}{'worst':>8}{'CPU s':>8}{'of stock':>10}")
    figures = []
    for loop in loops:
        median = statistics.median(loop.wall_s)
        cpu = statistics.median(loop.cpu_s)
        print(
            f"{loop.name:<15}{median:>15.2f}{min(loop.wall_s):>8.2f}{max(loop.wall_s):>8.2f}"
            f"{cpu:>8.2f}{median / base:>10.1%}"
        )
        figures.append({"loop": loop.name, "wall_s": loop.wall_s, "cpu_s": loop.cpu_s})
    share = statistics.median(loops[-1].wall_s) / base
    print(f"seen frames identical to the byte: {'yes' if identical else 'NO'}")
    print(f"target: at most {TARGET:.0%} of stock: {'met' if share <= TARGET else 'MISSED'}")
    if options.json:
        result = {"identical": identical, "share": share, "renderer": renderer, "loops": figures}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if identical and share <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
