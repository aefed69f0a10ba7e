# SPDX-License-Identifier: Apache-2.0
"""The lines of the benchmark: which program each is, in which environment, and running a block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.rollout.process_tree import MARK, cpu_seconds
from benchmarks.rollout.work import Episode

CHECKOUT = Path(__file__).resolve().parents[2]
STANDINS = Path(__file__).resolve().parent / "standins"
VLA_EVAL = "vla-eval==0.8.0"
OSMESA = {"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "osmesa"}


@dataclass(frozen=True)
class Entrant:
    """One line."""

    name: str
    python: Path
    module: str
    envs: int = 1
    """Simulators at once."""
    words: tuple[str, ...] = ()
    """After the number of episodes; `{folder}` is an empty folder."""
    variables: Mapping[str, str] = field(default_factory=dict)
    paths: tuple[Path, ...] = ()
    """On the path of Python, before the checkout."""


@dataclass
class Block:
    """Some episodes in a row, and what they cost. The first of each simulator starts it up."""

    entrant: str
    load: float
    """Of the machine, over the minute before."""
    started_s: float
    first_s: float
    """From the start of the program to the end of the first episode."""
    episodes: list[Episode]
    """Those after the first of each simulator."""
    took_s: list[float]
    """Seconds of each; only where they come one after another."""
    wall_s: float
    cpu_s: float
    """Of all of them together."""
    first_seen: dict[int, list[str]] = field(default_factory=dict)
    """What a policy saw in the first ones, by initial state."""

    @property
    def per_minute(self) -> float:
        return 60 * len(self.episodes) / self.wall_s

    @property
    def cpu_per_episode_s(self) -> float:
        return self.cpu_s / len(self.episodes)


class LineFailed(RuntimeError):
    """A line's program ended in an error."""


def all_entrants(libero: Path, vla_eval: Path | None, *, pairs: bool) -> list[Entrant]:
    """Return the lines; without vla-eval where its environment could not be made."""
    paths = (CHECKOUT / "platforms" / "libero",)
    lines = "benchmarks.rollout.lines"
    host = Path(sys.executable)
    entrants = []
    if vla_eval is not None:
        has_torch = subprocess.run(
            [vla_eval, "-c", "import torch"], capture_output=True, check=False
        )
        entrants.append(
            Entrant(
                name="vla-eval",
                python=vla_eval,
                module=f"{lines}.vla_eval",
                words=("{folder}",),
                paths=() if has_torch.returncode == 0 else (STANDINS,),
            )
        )
    entrants += [
        Entrant("stock loop", libero, f"{lines}.stock", variables=OSMESA, paths=paths),
        Entrant("platform alone", libero, f"{lines}.platform_alone", variables=OSMESA, paths=paths),
        Entrant(
            "rpent-box", host, f"{lines}.ours", words=("1", "{folder}", str(libero)), paths=paths
        ),
    ]
    if pairs:
        entrants.append(
            Entrant(
                "rpent-box, 2 sims",
                host,
                f"{lines}.ours",
                envs=2,
                words=("2", "{folder}", str(libero)),
                paths=paths,
            )
        )
    return entrants


def play_block(entrant: Entrant, episodes: int) -> Block:
    """Play one episode per simulator to start up, then `episodes` that count.

    Raises `LineFailed` with the end of the program's log.
    """
    mark, wanted = uuid.uuid4().hex, entrant.envs + episodes
    with (
        tempfile.TemporaryDirectory(prefix="rb-bench-") as folder,
        Path(folder, "log").open("w+") as log,
    ):
        words = [word.replace("{folder}", folder) for word in entrant.words]
        variables = {**os.environ, **entrant.variables, MARK: mark}
        paths = [*map(str, entrant.paths), str(CHECKOUT)]
        variables["PYTHONPATH"] = os.pathsep.join(paths)
        load, started_s = os.getloadavg()[0], time.monotonic()
        told: list[tuple[Episode, float]] = []
        with subprocess.Popen(
            [entrant.python, "-m", entrant.module, str(wanted), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            env=variables,
            text=True,
        ) as program:
            assert program.stdout is not None  # noqa: S101 - for the type checker
            for line in program.stdout:
                if line.startswith("{"):
                    told.append((Episode(**json.loads(line)), cpu_seconds(mark)))
        if program.returncode != 0 or len(told) != wanted:
            log.seek(0)
            raise LineFailed(
                f"{entrant.name} ended with {program.returncode} after {len(told)} of {wanted} "
                f"episodes:\n{''.join(log.readlines()[-30:])}"
            )
    return _block(entrant, told, load, started_s)


def _block(
    entrant: Entrant, told: Sequence[tuple[Episode, float]], load: float, started_s: float
) -> Block:
    started, counted = told[: entrant.envs], told[entrant.envs :]
    (last_start, cpu_before), (last, cpu_after) = started[-1], counted[-1]
    ends = [last_start.ended_s, *(episode.ended_s for episode, _ in counted)]
    return Block(
        entrant=entrant.name,
        load=load,
        started_s=started_s,
        first_s=told[0][0].ended_s - started_s,
        episodes=[episode for episode, _ in counted],
        took_s=[later - earlier for earlier, later in zip(ends, ends[1:], strict=False)]
        if entrant.envs == 1
        else [],
        wall_s=last.ended_s - last_start.ended_s,
        cpu_s=cpu_after - cpu_before,
        first_seen={episode.init_state: episode.seen for episode, _ in started},
    )


def vla_eval_python(folder: Path, uv: Path, locked: Path, python: str) -> Path:
    """Return the interpreter of an environment with LIBERO's pins and vla-eval, made when missing.

    Raises `CalledProcessError` when it cannot be made, above all without a package index.
    """
    interpreter = folder / "bin" / "python"
    ready = folder / ".ready"
    if ready.exists():
        return interpreter
    install = [uv, "pip", "install", "--quiet", "--python", interpreter]
    constraints = folder / "constraints.txt"
    _run([uv, "venv", "--quiet", "--clear", "--python", python, folder])
    # The lock's names without their hashes: what is installed after it must not change it.
    pins = [line.split()[0] for line in locked.read_text().splitlines() if line[:1].isalnum()]
    constraints.write_text("\n".join(pins) + "\n")
    _run([*install, "--requirements", locked])
    _run([*install, "--constraints", constraints, VLA_EVAL])
    ready.touch()
    return interpreter


def _run(command: Sequence[str | Path]) -> None:
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
