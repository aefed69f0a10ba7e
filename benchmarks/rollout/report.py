# SPDX-License-Identifier: Apache-2.0
"""What the blocks come to: a table, the targets, and the same as JSON."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.rollout.entrants import Block
from benchmarks.rollout.work import CHUNK, IMAGE_SIZE, STEPS, SUITE, TASK

TIMES_VLA_EVAL = 8.0
TWO_OF_ONE = 1.7


@dataclass(frozen=True)
class Line:
    """All blocks of one entrant."""

    name: str
    blocks: int
    episodes: int
    per_minute: float
    """Median over the blocks."""
    slowest: float
    fastest: float
    episode_s: tuple[float, float, float] | None
    """Median, shortest and longest of single episodes."""
    cpu_s: float
    """Per episode, of all processes; median over the blocks."""
    shared_mb: float
    socket_mb: float
    """Per episode."""
    first_s: float
    """From the start of the program to the end of its first episode; median."""
    load: float
    """Highest load before a block."""


@dataclass(frozen=True)
class Target:
    text: str
    met: bool


def line_of(name: str, blocks: Sequence[Block]) -> Line:
    mine = [block for block in blocks if block.entrant == name]
    rates = [block.per_minute for block in mine]
    took = sorted(seconds for block in mine for seconds in block.took_s)
    episodes = [episode for block in mine for episode in block.episodes]
    return Line(
        name=name,
        blocks=len(mine),
        episodes=len(episodes),
        per_minute=statistics.median(rates),
        slowest=min(rates),
        fastest=max(rates),
        episode_s=(statistics.median(took), took[0], took[-1]) if took else None,
        cpu_s=statistics.median(block.cpu_per_episode_s for block in mine),
        shared_mb=statistics.mean(episode.shared_bytes for episode in episodes) / 1e6,
        socket_mb=statistics.mean(episode.socket_bytes for episode in episodes) / 1e6,
        first_s=statistics.median(block.first_s for block in mine),
        load=max(block.load for block in mine),
    )


def different_inputs(blocks: Sequence[Block]) -> list[str]:
    """Return who saw what nobody else did, in words; empty when all inputs are the same."""
    reference: dict[int, tuple[str, list[str]]] = {}
    found = []
    for block in blocks:
        seen = dict(block.first_seen)
        seen.update((episode.init_state, episode.seen) for episode in block.episodes)
        for init_state, hashes in seen.items():
            name, wanted = reference.setdefault(init_state, (block.entrant, hashes))
            if hashes != wanted:
                found.append(f"{block.entrant} differs from {name} in initial state {init_state}")
    wrong = [
        f"{block.entrant} played {episode.steps} of {STEPS} steps"
        for block in blocks
        for episode in block.episodes
        if episode.steps != STEPS
    ]
    return found + wrong


def targets(lines: Sequence[Line], different: Sequence[str]) -> list[Target]:
    rates = {line.name: line.per_minute for line in lines}
    ours = rates["rpent-box"]
    found = [Target("policy inputs identical to the byte in every line", not different)]
    if "vla-eval" in rates:
        times = ours / rates["vla-eval"]
        text = f"one simulator: {times:.1f} times vla-eval (wanted {TIMES_VLA_EVAL:g})"
        found.append(Target(text, times >= TIMES_VLA_EVAL))
    if "rpent-box, 2 sims" in rates:
        times = rates["rpent-box, 2 sims"] / ours
        text = f"two simulators: {times:.2f} times one (wanted {TWO_OF_ONE:g})"
        found.append(Target(text, times >= TWO_OF_ONE))
    return found


def table(lines: Sequence[Line]) -> list[str]:
    base = lines[0]
    rows = [
        f"{'line':<19}{'episodes/min':>13}{'min..max':>14}{f'x {base.name}':>13}"
        f"{'s/episode':>11}{'min..max':>14}{'CPU s':>8}{'shm MB':>8}{'socket MB':>11}{'first s':>9}"
    ]
    for line in lines:
        seconds = spread = ""
        if line.episode_s is not None:
            seconds = f"{line.episode_s[0]:.2f}"
            spread = f"{line.episode_s[1]:.2f}..{line.episode_s[2]:.2f}"
        rows.append(
            f"{line.name:<19}{line.per_minute:>13.2f}"
            f"{f'{line.slowest:.2f}..{line.fastest:.2f}':>14}"
            f"{line.per_minute / base.per_minute:>13.2f}{seconds:>11}{spread:>14}"
            f"{line.cpu_s:>8.2f}{line.shared_mb:>8.2f}{line.socket_mb:>11.3f}{line.first_s:>9.1f}"
        )
    return rows


def heading() -> str:
    return (
        f"{SUITE} task {TASK}: {STEPS} steps in chunks of {CHUNK}, 2 cameras "
        f"{IMAGE_SIZE}x{IMAGE_SIZE}, drawn in software; {machine()}"
    )


def machine() -> str:
    """Return the processor's name and how many of it there are."""
    name = platform.processor()
    for row in Path("/proc/cpuinfo").read_text().splitlines():
        if row.startswith("model name"):
            name = row.partition(":")[2].strip()
            break
    return f"{len(os.sched_getaffinity(0))} x {name}"


def as_json(
    lines: Sequence[Line], blocks: Sequence[Block], found: Sequence[Target], different: list[str]
) -> dict[str, Any]:
    return {
        "heading": heading(),
        "lines": [asdict(line) for line in lines],
        "targets": [asdict(target) for target in found],
        "different": different,
        "blocks": [asdict(block) for block in blocks],
    }
