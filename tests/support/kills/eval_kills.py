# SPDX-License-Identifier: Apache-2.0
"""Plays one evaluation while kill -9 goes to random parts of it, and looks at what came of it."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from eval_kills_driver import ARM, CONFIG, MOMENTS, RAY, VIOLATIONS, Arm, run_dir_of
from rpent_box_toy.running import boxes_in, leftovers

from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.plan import JobKey, key_of
from rpent_box.launch.marked import is_alive
from rpent_box.launch.records import RECORDS, read_records
from rpent_box.sim.results import EpisodeRow, episode_folder_name, read_results

DRIVER = Path(__file__).with_name("eval_kills_driver.py")
REAPER = b"rpent_box.launch.reaper"
POLL_S = 0.02
PART_WITHIN_S = 60.0
"""For what is to be killed to be there."""
END_WITHIN_S = 300.0
CLEAN_WITHIN_S = 30.0
AT_START = 0.25
"""How often a kill waits for no result."""
START_S = 1.5
"""About what a start takes."""
MOST_ROWS = 6
EPISODE_S = 0.5
LAST_TRIES = 5
"""Sittings without any kill, at the end: one is enough unless an episode has ended in an error."""

PARTS = {"simulator": 30, "worker": 25, "runner": 15, "runner and reapers": 5, "mid-write": 20}
"""What is killed, and how often. Without reapers the next sitting cleans up."""
RAY_PARTS = {"ray node": 20, "ray actor": 10}
"""And in a sitting on a cluster."""
ON_RAY = 0.6
"""How many sittings are, where there is a cluster."""


class Nodes(Protocol):
    """The nodes of a Ray cluster that can be lost."""

    address: str

    def __len__(self) -> int: ...
    def actors(self) -> list[int]: ...
    def add(self) -> None: ...
    def lose(self, number: int) -> None: ...


class Kills:
    """One evaluation, its driver and its killer."""

    def __init__(
        self,
        folder: Path,
        config: EvalConfig,
        *,
        count: int,
        seed: int,
        nodes: Nodes | None = None,
    ) -> None:
        self.folder = folder
        self.story: list[str] = [f"seed {seed}"]
        """What was done, for a failure's text."""
        self.killed: Counter[str] = Counter()
        self.endings: Counter[int] = Counter()
        """Exit codes of drivers."""
        self.boxes: set[str] = set()
        self._random = random.Random(seed)
        self._count = count
        self._nodes = nodes
        self._on_ray = False
        self._driver: subprocess.Popen[bytes] | None = None
        self._began = time.monotonic()
        (folder / CONFIG).write_bytes(msgspec.json.encode(config))

    def play(self) -> Path:
        """Kill something `count` times, let it end, and return the evaluation's folder."""
        try:
            while sum(self.killed.values()) < self._count:
                self._drive()
                self._pause()
                self._kill(self._part())
                if self._is_over():
                    break
            for _ in range(LAST_TRIES):
                self._drive()
                if self._wait_for_end() == 0:
                    break
        finally:
            self._stop()
        run_dir = run_dir_of(self.folder)
        assert run_dir is not None, self.told()
        return run_dir

    def told(self) -> str:
        """Return everything that was done, and the last lines that the driver said."""
        log = self.folder / "driver.log"
        said = log.read_text(errors="replace").splitlines()[-40:] if log.exists() else []
        return "\n".join([*self.story, f"killed: {dict(self.killed)}", *said])

    def rows_so_far(self) -> int | None:
        run_dir = run_dir_of(self.folder)
        if run_dir is None or not (run_dir / "results.jsonl").exists():
            return None
        return len(read_results(run_dir))

    def violations(self) -> list[str]:
        path = self.folder / VIOLATIONS
        return path.read_text().splitlines() if path.exists() else []

    def leaked(self) -> list[str]:
        """Return what is left of all boxes, and every process that names the folder, after a time
        for reapers to do their work."""
        deadline = time.monotonic() + CLEAN_WITHIN_S
        while True:
            left = [one for box in self.boxes for one in leftovers(self.folder, box)]
            left += [f"room {box}" for box in boxes_in(self.folder)]
            left += [f"process {pid}" for pid in _processes_with(b"", self.folder)]
            if not left or time.monotonic() >= deadline:
                return left
            time.sleep(0.1)

    def _drive(self) -> None:
        """See to it that a driver runs."""
        if self._driver is not None and self._driver.poll() is None:
            return
        if self._driver is not None:
            self.endings[self._driver.returncode] += 1
            self._say(f"driver ended: {self._driver.returncode}")
        (self.folder / ARM).unlink(missing_ok=True)
        self._choose_executor()
        with (self.folder / "driver.log").open("ab") as log:
            self._driver = subprocess.Popen(
                [sys.executable, str(DRIVER), str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _choose_executor(self) -> None:
        self._on_ray = self._nodes is not None and self._random.random() < ON_RAY
        (self.folder / RAY).unlink(missing_ok=True)
        if self._on_ray and self._nodes is not None:
            self._say("on the cluster")
            (self.folder / RAY).write_text(self._nodes.address)

    def _part(self) -> str:
        parts = {**PARTS, **RAY_PARTS} if self._on_ray else PARTS
        return self._random.choices(list(parts), list(parts.values()))[0]

    def _pause(self) -> None:
        """Wait for some results, and then for less than an episode; or not, and meet a start."""
        if self._random.random() < AT_START:
            self._wait(lambda: False, self._random.uniform(0, START_S))
            return
        wanted = (self.rows_so_far() or 0) + self._random.randint(0, MOST_ROWS)
        self._wait(lambda: (self.rows_so_far() or 0) >= wanted, PART_WITHIN_S)
        self._wait(lambda: False, self._random.uniform(0, EPISODE_S))

    def _wait(self, until: Callable[[], bool], within_s: float) -> None:
        """Wait while the driver runs."""
        end = time.monotonic() + within_s
        while not until() and time.monotonic() < end and self._running():
            self._note_boxes()
            time.sleep(POLL_S)

    def _kill(self, part: str) -> None:
        if part.startswith("runner"):
            done = self._kill_runner(also_reapers=part != "runner")
        elif part == "mid-write":
            done = self._kill_in_write()
        elif part in RAY_PARTS and self._nodes is not None:
            done = self._kill_of_ray(self._nodes, part)
        else:
            done = self._kill_program(part)
        if done:
            self.killed[part] += 1
            self._say(f"killed {part}")

    def _kill_runner(self, *, also_reapers: bool) -> bool:
        if self._driver is None or not self._running():
            return False
        for pid in _processes_with(REAPER, self.folder) if also_reapers else ():
            os.kill(pid, signal.SIGKILL)
        self._driver.kill()
        self._driver.wait()
        return True

    def _kill_program(self, role: str) -> bool:
        """Wait for one of that role to run, and kill it."""
        deadline = time.monotonic() + PART_WITHIN_S
        while self._running() and time.monotonic() < deadline:
            pids = [pid for pid in self._programs(role) if is_alive(pid)]
            if pids:
                os.kill(self._random.choice(pids), signal.SIGKILL)
                return True
            time.sleep(POLL_S)
        return False

    def _kill_of_ray(self, nodes: Nodes, part: str) -> bool:
        """Lose a machine of the cluster, and get another one; or only what plays there."""
        self._wait(lambda: bool(nodes.actors()), PART_WITHIN_S)
        actors = nodes.actors()
        if not self._running() or not actors:
            return False
        if part == "ray actor":
            os.kill(self._random.choice(actors), signal.SIGKILL)
        else:
            nodes.lose(self._random.randrange(len(nodes)))
            nodes.add()
        return True

    def _kill_in_write(self) -> bool:
        """Have the driver kill itself in its next write of a random kind, and wait for that."""
        arm = Arm(self._random.choice(MOMENTS), self._random.random())
        draft = self.folder / f"{ARM}.draft"
        draft.write_bytes(msgspec.json.encode(arm))
        draft.replace(self.folder / ARM)
        self._wait(lambda: False, PART_WITHIN_S)
        self._say(f"armed: {arm.moment}")
        return self._driver is not None and self._driver.poll() == -signal.SIGKILL

    def _programs(self, role: str) -> list[int]:
        self._note_boxes()
        return [
            int(one.identifier)
            for box in boxes_in(self.folder)
            for one in read_records(self.folder / "boxes" / box / RECORDS).programs
            if one.name.startswith(role)
        ]

    def _running(self) -> bool:
        return self._driver is not None and self._driver.poll() is None

    def _is_over(self) -> bool:
        return self._driver is not None and self._driver.poll() == 0

    def _wait_for_end(self) -> int | None:
        self._wait(lambda: False, END_WITHIN_S)
        return None if self._driver is None else self._driver.poll()

    def _note_boxes(self) -> None:
        self.boxes.update(boxes_in(self.folder))

    def _stop(self) -> None:
        if self._driver is not None and self._driver.poll() is None:
            self._driver.kill()
            self._driver.wait()

    def _say(self, text: str) -> None:
        at_s = time.monotonic() - self._began
        self.story.append(f"{at_s:7.2f} s, {self.rows_so_far()} rows: {text}")


def numbers(rows: list[EpisodeRow]) -> dict[JobKey, tuple[object, ...]]:
    """Return what decides that two evaluations had the same results."""
    return {
        key_of(row): (
            row.success,
            row.steps,
            row.predictions,
            row.instruction,
            row.actions_sha256,
            row.first_frames_sha256,
        )
        for row in rows
    }


def wrong_files(run_dir: Path, rows: list[EpisodeRow]) -> list[str]:
    """Return which episodes' actions are not those of their rows, and what is half written."""
    wrong = []
    for row in rows:
        path = run_dir / episode_folder_name(row.episode) / "actions.npy"
        actions = np.load(path) if path.exists() else np.zeros(0)
        if hashlib.sha256(actions.astype("<f4").tobytes()).hexdigest() != row.actions_sha256:
            wrong.append(str(path))
    return wrong + [str(path) for path in run_dir.rglob(".*.partial")]


def _processes_with(word: bytes, folder: Path) -> list[int]:
    """Return the processes that have both in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if word in words and str(folder).encode() in words and is_alive(int(entry.name)):
            found.append(int(entry.name))
    return found
