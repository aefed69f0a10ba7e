# SPDX-License-Identifier: Apache-2.0
"""What tests of whole runs share: registering the toy, watching a run, looking for leftovers."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rpent_box.contracts.control_messages import EpisodePlayed, Progress, Restart
from rpent_box.evaluate.config import RunConfig
from rpent_box.launch.marked import marked_processes
from rpent_box.launch.records import read_records
from rpent_box.transport.paths import GRANTS_ROOT, SHM

PACKAGE = Path(__file__).resolve().parents[1]
ENTRY_POINTS = PACKAGE / "entry_points"
GONE_WITHIN_S = 20.0


def register_toy(monkeypatch) -> None:
    """Let this process and those that it starts find the toy through its entry points."""
    monkeypatch.syspath_prepend(str(ENTRY_POINTS))
    checkout = PACKAGE.parents[2]
    paths = [str(PACKAGE), str(ENTRY_POINTS), str(checkout), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


@contextmanager
def short_folder() -> Iterator[Path]:
    """Yield a folder whose sockets fit into a socket's path."""
    folder = Path(tempfile.mkdtemp(prefix="rb-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def toy_config(folder: Path, **changes) -> RunConfig:
    """Return a run of the toy by the toy, all of it within `folder`."""
    settings = {
        "backend": "toy",
        "platform": "toy",
        "episodes": 2,
        "video": "none",
        "launcher": "process",
        "python": sys.executable,
        "platform_python": sys.executable,
        "output_dir": str(folder / "runs"),
        "runtime_dir": str(folder / "boxes"),
        "start_timeout_s": 120.0,
        **changes,
    }
    return RunConfig(**settings)


class Recorder:
    """A `RunWatcher` that remembers, and may act when an episode moves on."""

    def __init__(self, on_progress: Callable[[int, Progress], None] | None = None) -> None:
        self.launcher: tuple[str, str] | None = None
        self.phases: list[tuple[str, str]] = []
        self.progress: list[tuple[int, Progress]] = []
        self.episodes: list[EpisodePlayed] = []
        self.restarts: list[tuple[int, Restart]] = []
        self._act = on_progress

    def on_launcher(self, name: str, why: str) -> None:
        self.launcher = (name, why)

    def on_phase(self, component: str, text: str) -> None:
        self.phases.append((component, text))

    def on_progress(self, episode: int, progress: Progress) -> None:
        self.progress.append((episode, progress))
        if self._act is not None:
            self._act(episode, progress)

    def on_restart(self, episode: int, restart: Restart) -> None:
        self.restarts.append((episode, restart))

    def on_episode(self, played: EpisodePlayed) -> None:
        self.episodes.append(played)


def boxes_in(folder: Path) -> list[str]:
    """Return the ids of the boxes that stand under `folder`."""
    home = folder / "boxes"
    return [room.name for room in home.iterdir() if room.is_dir()] if home.is_dir() else []


def kill_program(folder: Path, role: str, number: int = signal.SIGKILL) -> int:
    """Kill the worker or the simulator of the one run under `folder`, without warning.

    Returns its process id. Of several simulators, the last that was started.
    """
    (box,) = boxes_in(folder)
    records = read_records(folder / "boxes" / box / "programs.json")
    pids = [int(one.identifier) for one in records.programs if one.name.startswith(role)]
    os.kill(pids[-1], number)
    return pids[-1]


def leftovers(folder: Path, box: str) -> list[str]:
    """Return everything of `box` that still stands: processes, rooms, grants, segments."""
    places = [folder / "boxes" / box, GRANTS_ROOT / box, GRANTS_ROOT / f"{box}.results"]
    found = [str(place) for place in places if place.exists()]
    found += [str(segment) for segment in SHM.glob(f"rpent-box.{box}.*")]
    found += [f"process {pid}" for pid in marked_processes(box)]
    return found


def wait_until_clean(folder: Path, box: str, within_s: float = GONE_WITHIN_S) -> list[str]:
    """Return what is left of `box` after at most `within_s` seconds; empty is what is wanted."""
    deadline = time.monotonic() + within_s
    while True:
        left = leftovers(folder, box)
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(0.1)
