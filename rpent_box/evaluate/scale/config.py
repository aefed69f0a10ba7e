# SPDX-License-Identifier: Apache-2.0
"""What an evaluation is asked to do."""

from __future__ import annotations

from rpent_box.contracts.control_messages import Video
from rpent_box.evaluate.config import ProgramsConfig

DEFAULT_SEED = 7
DEFAULT_EPISODES = 10


class EvalConfig(ProgramsConfig, frozen=True, kw_only=True):
    """Whole suites: every chosen task, some episodes of each, on many simulators at once."""

    suites: tuple[str, ...] = ()
    """All of one platform. Empty: the platform's default suite."""
    tasks: tuple[int | str, ...] = ()
    """Of each suite, by index or name. Empty: all of them."""
    episodes: int = DEFAULT_EPISODES
    """Per task and seed."""
    first_init_state: int | None = None
    """Of the first episode of a task; each further one takes the next. None: its suite's first."""
    seeds: tuple[int, ...] = (DEFAULT_SEED,)
    """Every init state is played once with each."""
    max_steps: int | None = None
    """None: each task's own limit, else its suite's."""
    video: Video = "failures"
    show_predictions: bool = False
    """Draw into videos what the model expected to see, and its value."""
    envs: int | None = None
    """Simulators at once on each machine; None: chosen from cores, memory and measured cost."""
    pin: bool = True
    """Keep each simulator on cores of its own, as long as there are enough of them."""
    max_batch: int | None = None
    """Observations per inference of an owned worker; None: as many as its model takes."""
    max_wait_ms: float | None = None
    """How long a batch of an owned worker waits for company; None: tuned by the worker itself."""
    ray: str | None = None
    """`auto` or a cluster's address: play on the machines of a Ray cluster. None: on this one."""
    ray_nodes: int | None = None
    """How many boxes to spread over the cluster; None: one for each machine that has room."""
