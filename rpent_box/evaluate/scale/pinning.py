# SPDX-License-Identifier: Apache-2.0
"""Which cores each simulator runs on: cores of its own, as long as there are enough of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

CpuSet: TypeAlias = tuple[int, ...]
"""Logical processors, as the kernel counts them. Empty: all."""

_TOPOLOGY = Path("/sys/devices/system/cpu")


def physical_cores(allowed: Iterable[int], topology: Path = _TOPOLOGY) -> list[CpuSet]:
    """Return the processors of `allowed`, those of one physical core together, in order."""
    cores: dict[str, list[int]] = {}
    for cpu in sorted(allowed):
        path = topology / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        try:
            name = path.read_text().strip()
        except OSError:
            name = str(cpu)
        cores.setdefault(name, []).append(cpu)
    return [tuple(cpus) for cpus in cores.values()]


def cpusets(count: int, cores: Sequence[CpuSet], *, spare: int) -> tuple[CpuSet, ...]:
    """Return the processors of each of `count` simulators; all empty where there are too few.

    `spare` is how many cores the worker computes on: they are left to it where the simulators
    have enough without. It is not kept there: it may run wherever there is room.
    """
    free = cores[spare:] if len(cores) >= count + spare else cores
    if len(free) >= count:
        each = len(free) // count
        return tuple(_flat(free[number * each : (number + 1) * each]) for number in range(count))
    threads = _flat(cores)
    if len(threads) >= count:
        return tuple((cpu,) for cpu in threads[:count])
    return ((),) * count


def _flat(cores: Sequence[CpuSet]) -> CpuSet:
    return tuple(cpu for core in cores for cpu in core)
