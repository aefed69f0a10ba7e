# SPDX-License-Identifier: Apache-2.0
"""Write `suites.json` from the installed benchmark: `python -m rpent_box_libero.make_suites`."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import msgspec

from rpent_box.sim.platform import Suite
from rpent_box_libero.process import prepared_process

STEP_LIMITS = {
    "libero_spatial": 220,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
}
"""The field's limits, in control steps after settling."""


def read_suites() -> tuple[Suite, ...]:
    """Return what the installed benchmark holds; its task order 0, which is everyone's."""
    with prepared_process():
        return tuple(_read(name, limit) for name, limit in STEP_LIMITS.items())


def _read(name: str, max_steps: int) -> Suite:
    from libero.libero.benchmark import get_benchmark

    from rpent_box_libero.tasks import find_task

    with contextlib.redirect_stdout(io.StringIO()):  # it announces its task order
        names = get_benchmark(name)(task_order_index=0).get_task_names()
    counts = {len(find_task(name, task).init_states()) for task in names}
    if len(counts) != 1:
        raise ValueError(f"{name}: tasks differ in their number of initial states: {counts}")
    return Suite(name=name, tasks=tuple(names), max_steps=max_steps, init_states=counts.pop())


def main() -> None:
    path = Path(__file__).with_name("suites.json")
    path.write_bytes(msgspec.json.format(msgspec.json.encode(read_suites()), indent=1) + b"\n")


if __name__ == "__main__":
    main()
