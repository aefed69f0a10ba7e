# SPDX-License-Identifier: Apache-2.0
"""An assignment of a cluster, played with this machine's own launcher, images and files."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from msgspec.structs import replace

from rpent_box.evaluate.scale.checking import check_evaluation
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.events import Event, Known, Phase
from rpent_box.evaluate.scale.executor import Source, Tell
from rpent_box.evaluate.scale.local import play_here
from rpent_box.evaluate.scale.place import PlaceSetup
from rpent_box.evaluate.scale.preparing import Prepared, prepare
from rpent_box.evaluate.scale.ray_messages import Assignment


def play_assignment(
    assignment: Assignment,
    source: Source,
    tell: Tell,
    stop: threading.Event,
    *,
    run_dir: Path,
    log_dir: Path,
    gpus: str | None,
) -> None:
    """Find what is needed, and play what `source` gives until `stop` is set. Then nothing runs.

    `gpus` are those that were set aside for it, as the driver of GPUs names them. Raises as
    `check_evaluation`, `prepare` and `play_here`: what is missing is missing on this machine.
    """
    config = _config_here(assignment, gpus)
    place = assignment.place
    prepared = prepare(config, check_evaluation(config), _Relay(place, tell))
    setup = PlaceSetup(
        name=place, prepared=prepared, run_dir=run_dir, log_dir=log_dir, cores=assignment.cpus
    )

    def tell_all(event: Event) -> None:
        tell(_with_checkpoint(event, prepared))

    play_here(setup, source, tell_all, stop)


def _config_here(assignment: Assignment, gpus: str | None) -> EvalConfig:
    config = assignment.config
    if gpus is not None:
        config = replace(config, cuda_device=gpus)
    # Who has a part of a machine does not know which part: pinned to the same cores as another
    # box, two would share what one has.
    has_all = assignment.cpus >= len(os.sched_getaffinity(0))
    return config if has_all else replace(config, pin=False)


def _with_checkpoint(event: Event, prepared: Prepared) -> Event:
    """Have the files of this machine compared with those of the others, like all else."""
    return replace(event, checkpoint=prepared.checkpoint) if isinstance(event, Known) else event


class _Relay:
    """A `StartWatcher` that tells an evaluation's driver."""

    def __init__(self, place: str, tell: Tell) -> None:
        self._place = place
        self._tell = tell

    def on_launcher(self, name: str, why: str) -> None:
        self.on_phase("launcher", f"{name}: {why}")

    def on_phase(self, component: str, text: str) -> None:
        self._tell(Phase(component=f"{self._place} {component}", text=text))
