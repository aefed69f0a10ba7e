# SPDX-License-Identifier: Apache-2.0
"""What the model is told: a sentence of RoboTwin's own, or one from the user's list.

RoboTwin has 50 templates per task that its demonstrations are labelled with (`seen`) and ten that
are kept for evaluation (`unseen`), with words for each object in the same two kinds. Stock
evaluation draws from them with global generators, so the sentence depends on what was played
before. Here it is drawn from a generator of its own, and is a function of suite, task and scene
seed alone.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Meta, Struct

from rpent_box.errors import BadOption, SimulatorError, UnknownName
from rpent_box_robotwin.suites import SUITES

if TYPE_CHECKING:
    from rpent_box_robotwin.plugin import RobotwinOptions

Wording: TypeAlias = Literal["unseen", "seen"]
_MOST_NAMED = 20


class Sentences(Protocol):
    """Where instructions come from."""

    def require(self, task: str, scene_seed: int) -> None:
        """Raise `UnknownName` when there is no sentence for this scene; nothing is built yet."""

    def instruction(
        self, suite: str, task: str, scene_seed: int, scene_facts: dict[str, str]
    ) -> str: ...


def sentences(options: RobotwinOptions) -> Sentences:
    """Return what `options` ask for. Raises `BadOption` for a list that cannot be used."""
    return Listed.read(options.language) if options.language else Drawn(options.wording)


class Drawn:
    """Sentences from RoboTwin's templates."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording

    def require(self, task: str, scene_seed: int) -> None:
        """Every scene has one."""

    def instruction(
        self, suite: str, task: str, scene_seed: int, scene_facts: dict[str, str]
    ) -> str:
        return instruction_for(suite, task, scene_seed, scene_facts, self._wording)


def instruction_for(
    suite: str,
    task_name: str,
    scene_seed: int,
    scene_facts: dict[str, str],
    wording: Wording = "unseen",
) -> str:
    """Return the sentence of a scene, the same whenever it is asked.

    `scene_facts` is what the task says of its scene, e.g. `{"{A}": "020_hammer/base0", "{a}":
    "left"}`: objects, and which arm reaches them. Needs the runtime. Raises `SimulatorError` when
    no template fits the facts, where stock evaluation would use the task's name.
    """
    from robotwin.description import instructions as stock

    # A text seed is hashed with SHA-512, hence equal in every process.
    generator = random.Random(f"{suite}/{task_name}/{scene_seed}")
    facts = {name: str(scene_facts[name]) for name in sorted(scene_facts)}
    templates = stock.load_task_instructions(task_name)[wording]
    fitting = stock.filter_instructions(templates, facts, generator)
    if not fitting:
        raise SimulatorError(
            f"none of RoboTwin's {wording} sentences for {task_name} fits its scene {scene_seed}, "
            f"which names {', '.join(facts) or 'nothing'}"
        )
    fill = stock.replace_placeholders_unseen if wording == "unseen" else stock.replace_placeholders
    return str(fill(fitting[0], facts, generator))


class _Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: str
    seed: Annotated[int, Meta(ge=0)]
    instruction: Annotated[str, Meta(min_length=1, pattern=r"\S")]


class Listed:
    """Sentences from a file of JSON Lines, each bound to one task and one scene seed."""

    def __init__(self, path: Path, found: dict[tuple[str, int], str]) -> None:
        self._path = path
        self._found = found

    @classmethod
    def read(cls, path: str | Path) -> Listed:
        """Read lines of `{"task": …, "seed": …, "instruction": …}`; empty lines are skipped.

        Raises `BadOption`, with the line's number, for anything else.
        """
        path = Path(path)
        try:
            # A pipe would be read once here, and be empty where the scenes are shown.
            if path.exists() and not path.is_file():
                raise OSError(0, "it is no file")
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise BadOption(
                f"the list of instructions {path} cannot be read: {error.strerror}",
                hint='It has lines like {"task": "stack_blocks_two", "seed": 100000, '
                '"instruction": "stack the green block on the red block"}',
            ) from error
        found: dict[tuple[str, int], str] = {}
        first: dict[tuple[str, int], int] = {}
        for number, text in enumerate(lines, start=1):
            if not text.strip():
                continue
            line = _read_line(f"{path}, line {number}", text)
            key = (line.task, line.seed)
            if key in found:
                raise BadOption(
                    f"{path}, line {number}: {line.task} with seed {line.seed} has a sentence in "
                    f"line {first[key]} already",
                    hint="Leave one of them.",
                )
            found[key], first[key] = line.instruction, number
        if not found:
            raise BadOption(f"the list of instructions {path} is empty")
        return cls(path, found)

    def require(self, task: str, scene_seed: int) -> None:
        """Raise `UnknownName` for a scene that is not listed."""
        if (task, scene_seed) in self._found:
            return
        seeds = sorted(seed for name, seed in self._found if name == task)
        if seeds:
            hint = f"Scene seeds listed for {task}: {_some([str(seed) for seed in seeds])}"
        else:
            tasks = sorted({name for name, _ in self._found})
            hint = f"Tasks listed: {_some(tasks)}"
        raise UnknownName(
            f"{self._path} has no instruction for {task} with scene seed {scene_seed}", hint=hint
        )

    def instruction(
        self, suite: str, task: str, scene_seed: int, scene_facts: dict[str, str]
    ) -> str:
        """Return the listed sentence; what the scene holds does not matter."""
        self.require(task, scene_seed)
        return self._found[task, scene_seed]


def _read_line(where: str, text: bytes) -> _Line:
    try:
        line = msgspec.json.decode(text, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadOption(
            f"{where} cannot be used: {error}",
            hint='Wanted: {"task": a name, "seed": a number, "instruction": a sentence}',
        ) from error
    if all(line.task not in suite.tasks for suite in SUITES):
        raise BadOption(
            f"{where}: robotwin has no task called {line.task}",
            hint="See: rpent-box list --platform robotwin",
        )
    return line


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
