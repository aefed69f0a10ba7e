# SPDX-License-Identifier: Apache-2.0
"""Whole LIBERO episodes by rpent-box, vla-eval and the stock loop, side by side.

`make bench-rollout`; see docs/benchmarks.md. The lines take turns, a block of episodes each, in an
order that moves on with every round, so that a busy machine slows them alike.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.rollout.entrants import (
    CHECKOUT,
    VLA_EVAL,
    Block,
    Entrant,
    all_entrants,
    play_block,
    vla_eval_python,
)
from benchmarks.rollout.report import (
    as_json,
    different_inputs,
    heading,
    line_of,
    table,
    targets,
)
from rpent_box.launch.environments import environments_root, require_environment

SLOW = ("vla-eval", "stock loop")
"""Lines of which a block has fewer episodes."""


def main() -> int:
    """Measure, print, and return 1 when a target was missed."""
    options = read_options()
    libero = Path(options.libero_python or require_environment("platform", "libero"))
    vla_eval = None if options.without_vla_eval else make_vla_eval(options, libero)
    entrants = [
        entrant
        for entrant in all_entrants(libero, vla_eval, pairs=(os.cpu_count() or 1) >= 2)
        if not options.only or entrant.name in options.only
    ]
    blocks = play_in_turns(entrants, options)
    lines = [line_of(entrant.name, blocks) for entrant in entrants]
    different = different_inputs(blocks)
    print(heading())
    print(f"{options.rounds} rounds; load before a block at most {max(b.load for b in blocks):.1f}")
    for row in (*table(lines), *different):
        print(row)
    found = targets(lines, different) if "rpent-box" in {line.name for line in lines} else []
    for target in found:
        print(f"  {'met   ' if target.met else 'MISSED'}  {target.text}")
    if options.json:
        document = as_json(lines, blocks, found, different)
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if all(target.met for target in found) and not different else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rounds", type=int, default=3, help="blocks of each line")
    add("--episodes", type=int, default=6, help="timed episodes of a block")
    add("--slow-episodes", type=int, default=2, help=f"the same of {' and '.join(SLOW)}")
    add("--quick", action="store_true", help="one round with one or two episodes of each line")
    add("--only", nargs="+", help="names of lines")
    add("--without-vla-eval", action="store_true", help="leave out what needs a package index")
    add("--vla-eval-python", type=Path, help="an environment with it and LIBERO; default: made")
    add("--libero-python", type=Path, help="LIBERO's environment; default: rpent-box's own")
    add("--json", type=Path, help="also write everything that was measured here")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.episodes, options.slow_episodes = 1, 2, 1
    return options


def make_vla_eval(options: argparse.Namespace, libero: Path) -> Path | None:
    if options.vla_eval_python:
        return Path(options.vla_eval_python)
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    folder = environments_root(CHECKOUT) / f"bench-{VLA_EVAL.replace('==', '-')}"
    if uv is None:
        print(f"without vla-eval: there is no uv to install {VLA_EVAL} with", file=sys.stderr)
        return None
    try:
        locked = CHECKOUT / "platforms" / "libero" / "requirements.lock"
        return vla_eval_python(folder, Path(uv), locked, str(libero))
    except subprocess.CalledProcessError as error:
        print(f"without vla-eval: {VLA_EVAL} could not be installed: {error}", file=sys.stderr)
        return None


def play_in_turns(entrants: list[Entrant], options: argparse.Namespace) -> list[Block]:
    blocks = []
    for number in range(options.rounds):
        first = number % len(entrants)
        for entrant in (*entrants[first:], *entrants[:first]):
            slow = entrant.name in SLOW
            episodes = options.slow_episodes if slow else options.episodes * entrant.envs
            block = play_block(entrant, episodes)
            blocks.append(block)
            print(
                f"round {number + 1}, {entrant.name}: {block.per_minute:.2f} episodes per minute, "
                f"{block.cpu_per_episode_s:.2f} s of CPU each (load {block.load:.1f})",
                file=sys.stderr,
                flush=True,
            )
    return blocks


if __name__ == "__main__":
    sys.exit(main())
