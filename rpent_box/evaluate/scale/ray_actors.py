# SPDX-License-Identifier: Apache-2.0
"""Boxes in a cluster as Ray's actors: one on each machine, restarted and asked again by Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from rpent_box.evaluate.scale.ray_messages import Assignment, to_bytes
from rpent_box.evaluate.scale.ray_node import NodePlayer

if TYPE_CHECKING:
    from ray.actor import ActorHandle

NEWS_GROUP = "news"
"""Ray's concurrency group of what must be answered while all simulators play."""
NEWS_THREADS = 4
SPARE_THREADS = 2
FOR_EVER = -1
LEFT_ALONE = {"RAY_kill_child_processes_on_worker_exit": "0"}
"""An actor's process ends its children when it ends. One of them is the reaper of its box, which
must outlive it: nobody else would remove what a lost actor leaves."""


@contextmanager
def reserve(
    ray: ModuleType,
    sizes: Sequence[dict[str, float]],
    assignments: Sequence[Assignment],
    *,
    envs: int,
) -> Iterator[Sequence[ActorHandle]]:
    """Put one actor on each of as many machines as there are `sizes`, with up to `envs` simulators
    each; end them when it is left.

    Returns at once: where there is no room, Ray waits for it, now and after a machine was lost.
    """
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = ray.util.placement_group(list(sizes), strategy="STRICT_SPREAD")
    actors: list[ActorHandle] = []
    kind = ray.remote(concurrency_groups={NEWS_GROUP: NEWS_THREADS})(NodePlayer)
    try:
        for number, (size, assignment) in enumerate(zip(sizes, assignments, strict=True)):
            made = kind.options(
                num_cpus=size["CPU"],
                num_gpus=size.get("GPU", 0),
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=group, placement_group_bundle_index=number
                ),
                max_restarts=FOR_EVER,
                max_task_retries=FOR_EVER,
                max_concurrency=envs + SPARE_THREADS,
                runtime_env={"env_vars": LEFT_ALONE},
            )
            actors.append(made.remote(to_bytes(assignment)))
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)
        ray.util.remove_placement_group(group)
