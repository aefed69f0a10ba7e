# SPDX-License-Identifier: Apache-2.0
"""Write `suites.json` and `task_objects.json`: `python -m rpent_box_robotwin.make_suites`.

Both are read from the installed runtime. Its step limits name its tasks, and its task
configurations are the suites; which objects a task may show is read from the names in its code.
"""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

import msgspec
from robotwin.config import load_task_config

from rpent_box.sim.platform import Suite

NAMES = ("demo_clean", "demo_randomized")
FIRST_SCENE_SEED = 100_000
"""Evaluation in the field counts its scene seeds up from 100000 * (1 + seed), with seed 0."""
_OBJECT = re.compile(r"(\d{3}_[\w-]+)(?:/.*)?$")


def read_suites() -> list[Suite]:
    """Return the suites that the installed runtime defines, their tasks in alphabetical order."""
    limits: dict[str, int] = load_task_config("_eval_step_limit")
    tasks = tuple(sorted(limits))
    return [
        Suite(
            name=name,
            tasks=tasks,
            max_steps=max(limits.values()),
            task_max_steps=tuple(limits[task] for task in tasks),
            init_states=0,
            first_init_state=FIRST_SCENE_SEED,
        )
        for name in NAMES
        # A name that the runtime does not know is an error here and not at the first episode.
        if load_task_config(name)
    ]


def read_task_objects() -> dict[str, tuple[str, ...]]:
    """Return task → the folders of objects that its code names, e.g. `001_bottle`."""
    return {task: _objects_in(task) for task in read_suites()[0].tasks}


def _objects_in(task: str) -> tuple[str, ...]:
    # Not imported: that would need SAPIEN and a renderer. Names stand alone, in lists, and before
    # the slash of a description such as `001_bottle/base0`.
    tree = ast.parse(files("robotwin.envs").joinpath(f"{task}.py").read_text(encoding="utf-8"))
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    found = (_OBJECT.match(text) for text in texts)
    return tuple(sorted({match[1] for match in found if match is not None}))


def main() -> None:
    """Write both files, indented so that a change can be read."""
    for name, value in (
        ("suites.json", read_suites()),
        ("task_objects.json", read_task_objects()),
    ):
        encoded = msgspec.json.format(msgspec.json.encode(value), indent=1)
        Path(__file__).with_name(name).write_bytes(encoded + b"\n")


if __name__ == "__main__":
    main()
