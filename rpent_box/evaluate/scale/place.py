# SPDX-License-Identifier: Apache-2.0
"""What one machine plays with, and how it stands, over all the boxes it makes."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

from msgspec import Struct

from rpent_box.contracts.control_messages import EpisodePlayed
from rpent_box.contracts.messages import Figures
from rpent_box.errors import ContractError
from rpent_box.evaluate.resources import image_ids
from rpent_box.evaluate.scale.differences import differences, in_lines
from rpent_box.evaluate.scale.envs import Choice
from rpent_box.evaluate.scale.events import Envs, Known, PlaceTold, WorkerTold
from rpent_box.evaluate.scale.executor import Tell
from rpent_box.evaluate.scale.figures import added
from rpent_box.evaluate.scale.manifest import Place
from rpent_box.evaluate.scale.preparing import Prepared
from rpent_box.launch.program import Program
from rpent_box.sim.manifest import SimulatorFacts, WorkerFacts, host_facts

_STAGES = ("simulate", "render", "other")
"""Of an episode's loop, that are not the model's: what is left is `predicting`."""


class PlaceSetup(Struct, frozen=True, kw_only=True):
    """What a machine plays with, and where it puts what comes of it."""

    name: str = ""
    """`""` for the machine that was asked, `node-0`, … in a cluster."""
    prepared: Prepared
    run_dir: Path
    """Gets the episodes' folders. On this machine, and as its launcher's programs may write it."""
    log_dir: Path
    """Gets the logs; `run_dir` or a folder within it."""
    jobs: int | None = None
    """How many episodes there are to play here, at most; None: not known."""
    cores: int | None = None
    """That were set aside for it on this machine; None: it may use all."""


class PlaceState:
    """What is known of a place, over all its boxes. Safe from any thread."""

    def __init__(self, setup: PlaceSetup, tell: Tell) -> None:
        self._setup = setup
        self._tell = tell
        self._lock = threading.Lock()
        self._host = host_facts()
        self._known: Known | None = None
        self._choice = Choice(0, "")
        self._seconds: Counter[str] = Counter()
        self._earlier: Figures | None = None
        self._now: Figures | None = None
        self._replaced: dict[int, int] = {}
        self.worker_starts = 0
        self.worker_was_ready = False
        """Whether one ever was: what ends a first one before would mostly end the next one too."""
        self.finished = 0
        """Episodes that were played to their end here."""

    @property
    def envs(self) -> int:
        """Simulators that were chosen last; 0: none were."""
        return self._choice.envs

    @property
    def why(self) -> str:
        return self._choice.why

    def simulator_name(self, number: int) -> str:
        """Return how events call simulator `number` of this place: `3`, `node-1/3`."""
        name = self._setup.name
        return f"{name}/{number}" if name else str(number)

    def component(self, what: str) -> str:
        """Return how phases call a part of this place: `worker`, `node-1 simulator 3`."""
        return f"{self._setup.name} {what}".strip()

    def choose(self, choice: Choice) -> None:
        """Say on how many simulators this place plays from now on."""
        with self._lock:
            self._choice = choice
        self._tell(Envs(place=self._setup.name, count=choice.envs, why=choice.why))

    def spent(self, seconds: dict[str, float]) -> None:
        """Add what a simulator spent its time on."""
        with self._lock:
            self._seconds.update(seconds)

    def count_finished(self) -> None:
        with self._lock:
            self.finished += 1

    def replacements(self, number: int) -> int:
        """Return how many simulators sat on seat `number` before: each has a log of its own."""
        with self._lock:
            return self._replaced.get(number, 0)

    def note_replacements(self, number: int, replaced: int) -> None:
        with self._lock:
            self._replaced[number] = replaced

    def agree(
        self, simulator: SimulatorFacts, worker: WorkerFacts, programs: list[Program]
    ) -> None:
        """Tell with what this place plays, once. Raises `ContractError` when it has changed."""
        with self._lock:
            if self._known is None:
                self._known = Known(
                    place=self._setup.name,
                    simulator=simulator,
                    worker=worker,
                    images=image_ids(self._setup.prepared.launcher, programs),
                    checkpoint=self._setup.prepared.checkpoint,
                )
                # First: no result without the machine that it comes from.
                self._tell(PlaceTold(place=self._present()))
                self._tell(self._known)
                return
            known = self._known
        found = differences("simulator", known.simulator, simulator)
        found += differences("worker", known.worker, worker)
        if found:
            raise ContractError(
                f"not all simulators play with the same:\n{in_lines(found)}",
                hint="Their episodes would not be comparable. See: rpent-box doctor",
            )

    def worker_told(self, figures: Figures) -> None:
        """Note what the present worker counted so far."""
        with self._lock:
            self._now = figures
            together = added(self._earlier, figures)
        self._tell(WorkerTold(place=self._setup.name, figures=together))

    def worker_ended(self) -> None:
        """Keep what the present worker counted: the next one begins at nothing."""
        with self._lock:
            if self._now is not None:
                self._earlier, self._now = added(self._earlier, self._now), None

    def tell(self) -> None:
        """Tell how this place stands."""
        with self._lock:
            place = self._present()
        self._tell(PlaceTold(place=place))

    def _present(self) -> Place:
        now = self._earlier if self._now is None else added(self._earlier, self._now)
        return Place(
            name=self._setup.name,
            host=self._host,
            envs=self._choice.envs,
            envs_why=self._choice.why,
            worker=now,
            simulators_s=dict(self._seconds),
            worker_starts=self.worker_starts,
        )


def spent_on(played: EpisodePlayed, taken_s: float) -> dict[str, float]:
    """Split the `taken_s` seconds that the host waited for an episode; they add up to that.

    What no stage accounts for is `lost` where an earlier attempt was, else `other`: files, and the
    way to the simulator and back.
    """
    stages = played.stages_s
    predicting_s = sum(seconds for name, seconds in stages.items() if name not in _STAGES)
    seconds = {
        "resetting": played.setup_s,
        "simulate": stages.get("simulate", 0.0),
        "render": stages.get("render", 0.0),
        "predicting": predicting_s,
        "video": played.video_s,
        "other": stages.get("other", 0.0),
    }
    left_s = max(0.0, taken_s - sum(seconds.values()))
    name = "lost" if played.restarts else "other"
    seconds[name] = seconds.get(name, 0.0) + left_s
    return {name: value for name, value in seconds.items() if value > 0}
