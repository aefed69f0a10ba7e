# SPDX-License-Identifier: Apache-2.0
"""One platform per fault, each a small change of the sound one."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from rpent_box.contracts.observation import Actions, Image, Observation
from rpent_box.errors import BadActions
from rpent_box.sim.platform import Applied, ModelNeeds, Scene, Suite
from rpent_box_faulty.sound import SUITES, SoundPlatform


def _shows(change: Callable[[Observation], Observation]) -> type[SoundPlatform]:
    class Changed(SoundPlatform):
        def observe(self) -> Observation:
            return change(super().observe())

    return Changed


def _frames(change: Callable[[Image], Image]) -> type[SoundPlatform]:
    return _shows(
        lambda seen: replace(
            seen, images={role: change(frame) for role, frame in seen.images.items()}
        )
    )


def _proprio(name: str, change: Callable[[np.ndarray], np.ndarray]) -> type[SoundPlatform]:
    return _shows(
        lambda seen: replace(seen, proprio=seen.proprio | {name: change(seen.proprio[name])})
    )


def _applies(change: Callable[[Applied], Applied]) -> type[SoundPlatform]:
    class Changed(SoundPlatform):
        def apply(self, actions: Actions) -> Applied:
            return change(super().apply(actions))

    return Changed


class Remembers(SoundPlatform):
    """Where the hand starts depends on the scene before."""

    last = 0.0

    def reset(self, scene: Scene) -> Observation:
        super().reset(scene)
        self.trace[0][2] += self.last
        self.last = 0.1 * (scene.task + scene.init_state + len(scene.suite))
        return self.observe()


class CountsResets(SoundPlatform):
    resets = 0

    def reset(self, scene: Scene) -> Observation:
        super().reset(scene)
        self.resets += 1
        self.trace[0][2] += 0.01 * self.resets
        return self.observe()


class Stuck(SoundPlatform):
    def move(self, row: np.ndarray) -> None:
        self.trace.append(self.trace[-1])


class Unseeded(SoundPlatform):
    def move(self, row: np.ndarray) -> None:
        super().move(row + np.random.default_rng().normal(0, 1, 7))


class SettlesAfterEachChunk(SoundPlatform):
    def apply(self, actions: Actions) -> Applied:
        super().apply(actions)
        self.trace[-1][1] += 0.05
        return replace(super().apply(np.zeros((1, 7), np.float32)), steps=len(actions))


class OneBuffer(SoundPlatform):
    kept: Observation | None = None

    def observe(self) -> Observation:
        seen = super().observe()
        if self.kept is None or self.kept.images.keys() != seen.images.keys():
            self.kept = seen
        for role, frame in seen.images.items():
            self.kept.images[role][...] = frame
        return replace(seen, images=self.kept.images)


class PrimaryOnly(SoundPlatform):
    def prepare(self, needs: ModelNeeds) -> None:
        super().prepare(needs)
        self.roles = ("primary",)


class TakesAnyControl(SoundPlatform):
    def prepare(self, needs: ModelNeeds) -> None:
        self.roles = needs.camera_roles


class TakesAnyActions(SoundPlatform):
    def check(self, actions: Actions) -> None:
        if actions.ndim != 2 or actions.shape[1] != 7:
            raise BadActions("wanted [steps, 7]")


class NoticesOnTheWay(SoundPlatform):
    def check(self, actions: Actions) -> None:
        if actions.ndim == 2 and actions.shape[1] == 7 and len(actions):
            self.move(actions[0])
        super().check(actions)


class CountsFromBehind(SoundPlatform):
    """Python's own habit: index -1 is the last one."""

    def find_suite(self, scene: Scene) -> Suite:
        suite = next((suite for suite in SUITES if suite.name == scene.suite), SUITES[0])
        return super().find_suite(replace(scene, suite=suite.name, task=scene.task % 2))


class PlaysWhatIsNotThere(SoundPlatform):
    def find_suite(self, scene: Scene) -> Suite:
        return SUITES[2] if scene.suite == "nowhere" else super().find_suite(scene)


class ForgetsThePast(SoundPlatform):
    def observe(self) -> Observation:
        seen = super().observe()
        past = {role: frame for role, frame in seen.images.items() if "ago" in role}
        now = {role: self.draw(role, self.trace[-1]) for role in past}
        return replace(seen, images=seen.images | now)


class ReplaysUpsideDown(SoundPlatform):
    def replay(self, fps: float) -> Iterator[dict[str, Image]]:
        for frames in super().replay(fps):
            yield {role: np.ascontiguousarray(frame[::-1]) for role, frame in frames.items()}


class ReplaysTooMuch(SoundPlatform):
    def replay(self, fps: float) -> Iterator[dict[str, Image]]:
        for frames in super().replay(fps):
            yield frames | {"wrist_2_steps_ago": frames["wrist"]}


class ActsBeforeReset(SoundPlatform):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.trace = [np.zeros(3)]


class Prints(SoundPlatform):
    def apply(self, actions: Actions) -> Applied:
        os.write(1, b"planning succeeded\n")  # as native code does, past Python's own stdout
        return super().apply(actions)


class Asks(SoundPlatform):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        input("Where are the data sets? ")


class NeedsAHome(SoundPlatform):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        (Path.home() / ".faulty").mkdir(exist_ok=True)


_LEAKED: list[object] = []


class Ages(SoundPlatform):
    """What an opening shows depends on how many there were before it."""

    def reset(self, scene: Scene) -> Observation:
        super().reset(scene)
        self.trace[0][2] += 0.01 * len(_LEAKED)
        return self.observe()

    def close(self) -> None:
        _LEAKED.append(self)


class LeaksMemory(SoundPlatform):
    def close(self) -> None:
        _LEAKED.append(np.ones(8_000_000))


class LeavesAThread(SoundPlatform):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        threading.Thread(target=threading.Event().wait, daemon=True).start()


class LeavesAnOpenFile(SoundPlatform):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        _LEAKED.append(open(os.devnull))  # noqa: SIM115 - the fault


class GLContext:
    """Called as MuJoCo calls its own."""


class KeepsItsContext(SoundPlatform):
    def close(self) -> None:
        _LEAKED.append(GLContext())


class LeavesAFile(SoundPlatform):
    def close(self) -> None:
        tempfile.mkstemp()


class WritesWhereItStands(SoundPlatform):
    def close(self) -> None:
        Path("cache.bin").touch()


FAULTS: dict[str, type[SoundPlatform]] = {
    "anonymous": type("Anonymous", (SoundPlatform,), {"renderer": ""}),
    "counts-resets": CountsResets,
    "stuck": Stuck,
    "asks": Asks,
    "needs-a-home": NeedsAHome,
    "ages": Ages,
    "remembers": Remembers,
    "unseeded": Unseeded,
    "settles": SettlesAfterEachChunk,
    "one-buffer": OneBuffer,
    "upside-down": _frames(lambda frame: np.ascontiguousarray(frame[::-1])),
    "mirrored": _frames(lambda frame: np.ascontiguousarray(frame[:, ::-1])),
    "blue-first": _frames(lambda frame: np.ascontiguousarray(frame[:, :, ::-1])),
    "a-view": _frames(lambda frame: frame[::-1][::-1][:, ::-1][:, ::-1][::1, ::-1]),
    "black": _frames(np.zeros_like),
    "cut": _frames(lambda frame: np.ascontiguousarray(frame[1:])),
    "doubles": _proprio("eef_position", lambda vector: vector.astype(np.float64)),
    "millimetres": _proprio("eef_position", lambda vector: vector * 1000),
    "half-quaternion": _proprio("eef_quaternion_xyzw", lambda vector: vector / 2),
    "wordless": _shows(lambda seen: replace(seen, instruction=" ")),
    "primary-only": PrimaryOnly,
    "any-control": TakesAnyControl,
    "any-actions": TakesAnyActions,
    "notices-late": NoticesOnTheWay,
    "solved-at-once": _applies(lambda done: replace(done, success=True)),
    "miscounts": _applies(lambda done: replace(done, steps=done.steps - 1)),
    "timeless": _applies(lambda done: replace(done, simulate_s=0.0)),
    "from-behind": CountsFromBehind,
    "plays-nothing": PlaysWhatIsNotThere,
    "no-past": ForgetsThePast,
    "replay-upside-down": ReplaysUpsideDown,
    "replay-too-much": ReplaysTooMuch,
    "drifted": type("Drifted", (SoundPlatform,), {}),
    "acts-early": ActsBeforeReset,
    "prints": Prints,
    "leaks": LeaksMemory,
    "thread": LeavesAThread,
    "open-file": LeavesAnOpenFile,
    "context": KeepsItsContext,
    "leaves-a-file": LeavesAFile,
    "writes-here": WritesWhereItStands,
}
