# SPDX-License-Identifier: Apache-2.0
"""Plays a schedule on the machines of a Ray cluster: one box on each, placed and restarted by Ray.

    driver                                   a machine with room, one actor (ray_node.py)
    schedule ── a job ── play() ──────────▶  its own box: a worker and simulators
    events   ◀─ outcome with its files ───   …
    events   ◀─ news() ───────────────────   phases, progress, counters, logs

Placement, restarts and repeated calls are Ray's (placement group, `max_restarts`,
`max_task_retries`). Whoever reads the events says `done`, which drops a result that comes twice.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from rpent_box.errors import LaunchError, UsageError
from rpent_box.evaluate.config import THREADS
from rpent_box.evaluate.scale import ray_place
from rpent_box.evaluate.scale.checking import CheckedEvaluation
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.envs import MOST_AUTO
from rpent_box.evaluate.scale.events import Phase
from rpent_box.evaluate.scale.executor import Tell
from rpent_box.evaluate.scale.ray_actors import reserve
from rpent_box.evaluate.scale.ray_cluster import (
    AUTO,
    RayCluster,
    RayMachine,
    bundles,
    in_words,
    shown,
)
from rpent_box.evaluate.scale.ray_messages import Assignment
from rpent_box.evaluate.scale.ray_paths import config_for_others
from rpent_box.evaluate.scale.ray_place import RayPlace
from rpent_box.evaluate.scale.schedule import Schedule

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

POLL_S = 0.1
"""How soon a job that was given back, or the end, is noticed."""
END_S = 20.0
"""For all boxes to end by themselves."""
LAST_WORDS_S = 3.0


class RayExecutor:
    """An `Executor` on a cluster."""

    name: Literal["ray"] = "ray"

    def __init__(
        self,
        config: EvalConfig,
        checked: CheckedEvaluation,
        *,
        log_dir: Path,
        away_s: float | None = None,
    ) -> None:
        """`log_dir` gets a folder for each machine; `away_s` is for a lost box to come up elsewhere
        before others may have its episodes, None: `ray_place.AWAY_S`.

        Raises `UsageError` for what is Ray's to choose, and when Ray is not installed.
        """
        if config.cuda_device is not None:
            raise UsageError(
                "--cuda-device cannot be used with --ray: Ray hands out the cluster's GPUs",
                hint="Leave it out.",
            )
        self._config = config
        self._theirs = config_for_others(config, checked)
        self._gpus = 1 if checked.needs is not None and checked.needs.device == "cuda" else 0
        self._log_dir = log_dir
        self._away_s = ray_place.AWAY_S if away_s is None else away_s
        self._cluster = RayCluster(config.ray or AUTO, config.runtime_dir)

    def play(self, schedule: Schedule, tell: Tell, stop: threading.Event) -> None:
        """Play until every job is done, or `stop` is set; as `Executor.play`.

        Raises `LaunchError` when there is no cluster, or no room in it for `start_timeout_s`; what
        the first box on any machine meets at its start; and what the last one that was left has
        met.
        """
        with self._cluster as cluster:
            machines = cluster.machines()
            sizes = self._sizes(machines)
            tell(Phase(component="cluster", text=_plan_in_words(machines, sizes)))
            assignments = [self._assignment(number, size) for number, size in enumerate(sizes)]
            envs = self._config.envs or MOST_AUTO
            with reserve(cluster.ray, sizes, assignments, envs=envs) as actors:
                places = self._places(cluster.ray, actors, sizes, tell)
                with _ending(cluster.ray, places, schedule):
                    play_on(cluster, places, schedule, stop, self._config.start_timeout_s)

    def _sizes(self, machines: Sequence[RayMachine]) -> list[dict[str, float]]:
        config = self._config
        cpus = None if config.envs is None else config.envs + (config.threads or THREADS)
        return bundles(machines, cpus=cpus, gpus=self._gpus, count=config.ray_nodes)

    def _assignment(self, number: int, size: dict[str, float]) -> Assignment:
        return Assignment(
            place=f"node-{number}", config=self._theirs, cpus=int(size["CPU"]), gpus=self._gpus
        )

    def _places(
        self,
        ray: ModuleType,
        actors: Sequence[ActorHandle],
        sizes: Sequence[dict[str, float]],
        tell: Tell,
    ) -> list[RayPlace]:
        return [
            RayPlace(
                ray,
                f"node-{number}",
                actor,
                tell=tell,
                logs=self._log_dir,
                needs=f"a machine with {in_words(sizes[number])}",
                away_s=self._away_s,
            )
            for number, actor in enumerate(actors)
        ]


def _plan_in_words(machines: Sequence[RayMachine], sizes: Sequence[dict[str, float]]) -> str:
    counts = Counter(in_words(size) for size in sizes)
    boxes = ", ".join(f"{count} with {size}" for size, count in counts.items())
    return (
        f"boxes, each on another machine, once there is room for all: {boxes}; there is: "
        f"{shown(machines)}"
    )


def play_on(
    cluster: RayCluster,
    places: Sequence[RayPlace],
    schedule: Schedule,
    stop: threading.Event,
    patience_s: float,
) -> None:
    """Play until every job is done, or `stop` is set. Raises `LaunchError` once no place has been
    on any machine for `patience_s`."""
    ray, nowhere_since = cluster.ray, time.monotonic()
    while not stop.is_set() and schedule.wait(0.0):
        if any(place.plays for place in places):
            nowhere_since = time.monotonic()
        elif time.monotonic() - nowhere_since > patience_s:
            raise _no_room(cluster.machines(), len(places), patience_s)
        for place in places:
            place.fill(schedule)
        idle = any(place.is_idle for place in places)
        for place in places:
            place.look(schedule, others_are_idle=idle)
        waiting = {one: place for place in places for one in place.references()}
        for reference in _ready(ray, list(waiting), POLL_S):
            waiting[reference].answered(reference, schedule)
        drop_those_in_trouble(places, schedule)


def _no_room(machines: Sequence[RayMachine], boxes: int, waited_s: float) -> LaunchError:
    return LaunchError(
        f"the cluster had no room for {waited_s:.0f} s; wanted were {boxes} boxes, each on another "
        f"machine; there is: {shown(machines)}",
        hint="Others may use it: ray status. Ask for fewer boxes (--ray-nodes) or smaller ones "
        "(--envs), or wait longer (--start-timeout).",
    )


def drop_those_in_trouble(places: Sequence[RayPlace], schedule: Schedule) -> None:
    for place in places:
        if place.error is None or place.gave_up:
            continue
        # A cluster that is not ready is refused. A machine that Ray has put in place of a lost one
        # may be of another kind, and must not cost what the others play.
        if place.is_first_life and not place.is_known:
            raise place.error
        place.give_up(schedule)
        if all(one.gave_up for one in places):
            raise place.error


@contextmanager
def _ending(ray: ModuleType, places: Sequence[RayPlace], schedule: Schedule) -> Iterator[None]:
    """End all boxes, however this is left, and give back what they did not play."""
    try:
        yield
    finally:
        for place in places:
            place.give_back(schedule)
        _await(ray, [place.ask_to_end(END_S) for place in places], END_S)
        last = {place.last_news(): place for place in places}
        for reference in _await(ray, list(last), LAST_WORDS_S):
            last[reference].take_last_news(reference)


def _await(
    ray: ModuleType, references: Sequence[ObjectRef | None], timeout_s: float
) -> list[ObjectRef]:
    """Return those of `references` that are there within `timeout_s`."""
    wanted = [one for one in references if one is not None]
    if not wanted:
        return []
    ready: list[ObjectRef] = ray.wait(wanted, num_returns=len(wanted), timeout=timeout_s)[0]
    return ready


def _ready(ray: ModuleType, references: list[ObjectRef], timeout_s: float) -> list[ObjectRef]:
    """Return those of `references` that are there, once there is one, after `timeout_s` at most."""
    if not references:
        time.sleep(timeout_s)
        return []
    ray.wait(references, num_returns=1, timeout=timeout_s)
    ready: list[ObjectRef] = ray.wait(references, num_returns=len(references), timeout=0)[0]
    return ready
