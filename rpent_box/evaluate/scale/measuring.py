# SPDX-License-Identifier: Apache-2.0
"""What this machine has, and what running programs take of it, as Linux tells it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from rpent_box.evaluate.scale.envs import Machine

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
"""A memory limit above this is how version 1 of cgroups says that there is none."""


def this_machine() -> Machine:
    """Return what this process and those that it starts may use at the moment."""
    return Machine(cores=usable_cores(), memory=free_memory())


def usable_cores(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> float:
    """Return how many cores this process may keep busy: its affinity, or less by a quota."""
    allowed = float(len(os.sched_getaffinity(0)))
    for folder in _cgroup_folders("cpu", proc, cgroups):
        quota = _quota(folder)
        if quota is not None:
            allowed = min(allowed, quota)
    return allowed


def free_memory(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """Return the bytes that can still be had: the machine's, or fewer by a limit."""
    free = _field(proc / "meminfo", "MemAvailable:") * 1024
    for folder in _cgroup_folders("memory", proc, cgroups):
        left = _left_of_limit(folder)
        if left is not None:
            free = min(free, left)
    return max(0, free)


class ProcessTable:
    """A look at all processes, and at what the cores did, since the machine was started."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._children: dict[int, list[int]] = {}
        self._cpu_s: dict[int, float] = {}
        self.idle_s = _idle_ticks(proc / "stat", os.sched_getaffinity(0)) * self._tick_s
        """Of the cores that this process may use, together."""
        for path in proc.iterdir():
            if path.name.isdecimal():
                self._read(path)

    def tree(self, pid: int) -> list[int]:
        """Return `pid` and its descendants; empty when it is gone."""
        found = [pid] if pid in self._cpu_s else []
        for one in found:
            found.extend(self._children.get(one, ()))
        return found

    def cpu_s(self, pid: int) -> float:
        """Return the CPU seconds of `pid`, its descendants, and those of them that have ended."""
        return sum(self._cpu_s[one] for one in self.tree(pid))

    def memory(self, pid: int) -> int:
        """Return the bytes of `pid` and its descendants; what they share counts in parts."""
        return sum(_memory(self._proc / str(one)) for one in self.tree(pid))

    def _read(self, path: Path) -> None:
        try:
            # A program's name may hold spaces and brackets: what follows it begins after the last.
            fields = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return
        pid, parent = int(path.name), int(fields[1])
        self._children.setdefault(parent, []).append(pid)
        self._cpu_s[pid] = sum(map(int, fields[11:15])) * self._tick_s


def _idle_ticks(path: Path, cpus: Iterable[int]) -> int:
    names = {f"cpu{cpu}" for cpu in cpus}
    ticks = 0
    for line in path.read_text().splitlines():
        name, *fields = line.split()
        if name in names:
            # Waiting for a disk is being idle too.
            ticks += int(fields[3]) + int(fields[4])
    return ticks


def _memory(process: Path) -> int:
    """Return a process's bytes: its share of what it maps, else all of it that is resident."""
    try:
        return _field(process / "smaps_rollup", "Pss:") * 1024
    except OSError:
        # Gone, another user's, or a kernel that does not tell.
        try:
            return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0


def _field(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


def _cgroup_folders(controller: str, proc: Path, cgroups: Path) -> list[Path]:
    """Return the folders of this process's cgroup and those above it; any may set a limit."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[Path] = []
    for line in lines:
        _, names, path = line.split(":", 2)
        if names == "":
            root = cgroups
        elif controller in names.split(","):
            root = cgroups / controller
        else:
            continue
        found += _and_above(root, Path(path.lstrip("/")))
    return found


def _and_above(root: Path, path: Path) -> list[Path]:
    # In a container its own cgroup is the root, whatever its path outside.
    return [root / path, *(root / parent for parent in path.parents)]


def _quota(folder: Path) -> float | None:
    new = _words(folder / "cpu.max")
    old = [*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")]
    words = new or old
    if len(words) != 2 or not words[0].isdecimal() or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


def _left_of_limit(folder: Path) -> int | None:
    for limit_file, usage_file, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, usage = _words(folder / limit_file), _words(folder / usage_file)
        if limit and usage and limit[0].isdecimal() and int(limit[0]) < _UNLIMITED:
            kept = _statistics(folder / "memory.stat").get(cache, 0)
            return int(limit[0]) - int(usage[0]) + kept
    return None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _statistics(path: Path) -> Mapping[str, int]:
    words = _words(path)
    return dict(_pairs(words))


def _pairs(words: Iterable[str]) -> Iterable[tuple[str, int]]:
    numbers = iter(words)
    return ((name, int(value)) for name, value in zip(numbers, numbers, strict=False))
