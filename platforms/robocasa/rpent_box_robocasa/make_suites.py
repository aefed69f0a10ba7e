# SPDX-License-Identifier: Apache-2.0
"""Write `suites.json` from the installed package: `python -m rpent_box_robocasa.make_suites`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rpent_box.sim.platform import Suite
from rpent_box_robocasa.process import prepared_process

TASK_SETS = (
    "atomic_seen",
    "composite_seen",
    "composite_unseen",
    "all_atomic_tasks",
    "all_composite_tasks",
)
"""Sets of RoboCasa365's registry, by its names; the first three are its benchmark's 50 tasks."""


def read_suites() -> tuple[Suite, ...]:
    """Return what the installed package registers, in its order, with its limits."""
    with prepared_process():
        return tuple(_read(name) for name in TASK_SETS)


def _read(name: str) -> Suite:
    from robocasa.utils.dataset_registry import TASK_SET_REGISTRY
    from robocasa.utils.dataset_registry_utils import get_task_horizon

    tasks = tuple(TASK_SET_REGISTRY[name])
    limits = tuple(int(get_task_horizon(task)) for task in tasks)
    return Suite(
        name=name, tasks=tasks, max_steps=max(limits), task_max_steps=limits, init_states=0
    )


def main() -> None:
    path = Path(__file__).with_name("suites.json")
    path.write_bytes(msgspec.json.format(msgspec.json.encode(read_suites()), indent=1) + b"\n")


if __name__ == "__main__":
    main()
