# SPDX-License-Identifier: Apache-2.0
"""What a simulator must offer to be played on. A platform is one installable folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from rpent_box.contracts.control import ControlSpec
from rpent_box.contracts.meta import ModelMeta, PlatformMeta
from rpent_box.contracts.observation import Actions, Image, Observation


class Suite(Struct, frozen=True, kw_only=True):
    """A family of tasks."""

    name: str
    tasks: tuple[str, ...]
    """Task names in the simulator's own order; a task's index is its place."""
    max_steps: int
    """The field's step limit for this suite."""
    task_max_steps: tuple[int, ...] = ()
    """The limit of each task, where they differ; empty: `max_steps` is everyone's."""
    init_states: int
    """Recorded initial states per task; 0: any number gives a scene of its own."""
    first_init_state: int = 0
    """The number of the first initial state, e.g. 100000 where the numbers are seeds."""
    variant_of: str = ""
    """The suite that this one perturbs: whatever was trained for that one may play this one.
    Empty: it stands for itself."""
    unavailable: str = ""
    """Why it cannot be played here; empty when it can."""


class Scene(Struct, frozen=True, kw_only=True):
    """What fixes a scene. Equal scenes show equal frames, whatever was played before."""

    suite: str
    task: int
    init_state: int
    seed: int


class ModelNeeds(Struct, frozen=True, kw_only=True):
    """How the connected model moves the robot, and what it looks at."""

    control: ControlSpec
    """One of the platform's `meta.controls`."""
    camera_roles: tuple[str, ...]
    proprio: tuple[str, ...]


def model_needs(model: ModelMeta) -> ModelNeeds:
    """Return what a platform has to know of a model that fits it."""
    return ModelNeeds(
        control=model.control,
        camera_roles=model.camera_roles,
        proprio=tuple(model.proprio_schema),
    )


class Applied(Struct, frozen=True, kw_only=True):
    """What came of a run of actions."""

    steps: int
    """Rows executed: fewer than given when the task was solved on the way."""
    success: bool
    observation: Observation | None
    """After the last row; None once the task is solved, since nothing will look at it."""
    simulate_s: float
    render_s: float
    remarks: dict[str, int] = {}
    """What happened in these rows that is no error and must not stay unsaid, e.g. `the left hand's
    target was out of reach`, and in how many of them."""


class Platform(Protocol):
    """A running simulator. Called from one thread; holds one scene at a time."""

    @property
    def meta(self) -> PlatformMeta: ...

    @property
    def versions(self) -> dict[str, str]:
        """Package → version of what decides the physics and the pixels."""

    @property
    def renderer(self) -> str: ...

    def prepare(self, needs: ModelNeeds) -> None:
        """Be moved by `needs.control` from the next reset on, and show what `needs` names.

        Called when a model is connected that fits. More than `needs` names may be shown, at the
        cost of drawing it. Without this call the first of `meta.controls` moves the robot, and
        everything that `meta` names is shown.
        """

    def reset(self, scene: Scene) -> Observation:
        """Build or restore `scene`, let it settle, and show it."""

    def apply(self, actions: Actions) -> Applied:
        """Execute float32 [steps, action_dim] in order, stopping at success."""

    def replay(self, fps: float) -> Iterator[dict[str, Image]]:
        """Draw the episode since the last reset again from its recorded states, `fps` per second.

        Leaves the simulator in an undefined state: only `reset` or `close` may follow.
        """

    def close(self) -> None:
        """Free memory and GL contexts. May be called twice."""


class PlatformPlugin(Struct, frozen=True, kw_only=True):
    """What is known about a platform without its simulator. Importing it imports no simulator."""

    name: str
    summary: str
    meta: PlatformMeta
    suites: tuple[Suite, ...]
    default_suite: str
    options: type[Struct]
    """Typed options of this platform: a frozen Struct, each field with a default."""
    open: Callable[[Any], Platform]
    """Import the simulator. The argument is an instance of `options`."""
    require: Callable[[Any], None] | None = None
    """Check, on the host and before anything starts, that what `options` name is there and whole:
    raises `AssetsMissing`, with the command that fetches them, or `BadOption`."""
    require_scenes: Callable[[Any, Sequence[Scene]], None] | None = None
    """Check, on the host and after `require`, that `options` hold what these scenes need, such as
    a task's own meshes: raises `AssetsMissing` or `UnknownName`."""
    env_fallbacks: dict[str, str] = {}
    """Variable → the field of `options` that it stands in for, e.g. a folder of assets."""
    recipe: str = ""
    """The folder in `platforms/` that its image and environment are made from, where another
    platform's serves it too. Empty: its own name."""
    check: Callable[[Any], list[str]] | None = None
    """Compare a running platform with what was recorded of a known scene: one sentence for each
    thing that differs, such as the settled state or the first frame. None: nothing is recorded."""
    python: str
    """The interpreter that the simulator's pins need, e.g. `3.11`."""
    environment: dict[str, str] = {}
    """Variables to set before its process starts, e.g. MUJOCO_GL."""
    system_packages: tuple[str, ...] = ()
    """Debian packages that its process needs, e.g. libosmesa6."""
    licence: str = ""
    memory: str = ""
    aliases: tuple[str, ...] = ()
