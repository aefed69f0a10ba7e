# SPDX-License-Identifier: Apache-2.0
"""rpent-box as its users run it: an evaluation with a worker and simulators as processes.

`python -m benchmarks.rollout.lines.ours EPISODES ENVS FOLDER PYTHON`, in the host's environment;
PYTHON is LIBERO's.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rollout.work import SEED, STEPS, SUITE, TASK, Episode, actions
from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.evaluation import run_evaluation
from rpent_box.evaluate.scale.watcher import SilentEvalWatcher
from rpent_box.sim.results import EpisodeRow

HERE = Path(__file__).resolve().parents[1]
ARTIFICIAL = (HERE / "artificial", HERE / "artificial" / "entry_points")


class Telling(SilentEvalWatcher):
    """Prints each episode as it ends, with what the policy says it was asked."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._asked = folder / "asked"
        self._sent = folder / "sent"
        self._sent_before = 0

    def on_phase(self, component: str, text: str) -> None:
        sys.stderr.write(f"{component}: {text}\n")

    def on_episode(self, row: EpisodeRow) -> None:
        asked = self._predictions(row.init_state)
        sent = sum(int(file.read_bytes() or b"0") for file in self._sent.iterdir())
        Episode(
            init_state=row.init_state,
            steps=row.steps,
            seen=[one["seen"] for one in asked],
            shared_bytes=sum(one["bytes"] for one in asked),
            socket_bytes=sent - self._sent_before,
            setup_s=row.setup_s,
            notes={"stages_s": row.stages_s, "simulator": row.simulator},
        ).tell()
        self._sent_before = sent

    def _predictions(self, init_state: int) -> list[dict[str, Any]]:
        chunks: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
        for line in self._asked.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            chunks[one["init_state"]][one["chunk"]] = one
        return [one for _, one in sorted(chunks[init_state].items())]


def let_children_find_artificial_programs() -> None:
    """Put the benchmarks' policy and simulator, and this checkout, on the path."""
    paths = [str(path) for path in (*ARTIFICIAL, HERE.parents[1])]
    sys.path[:0] = paths
    known = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (*paths, known) if path)


def count_sent_bytes(folder: Path) -> None:
    """Let the processes that are started from now on count what they send."""
    folder.mkdir(parents=True)
    os.environ["BENCH_SENT_BYTES"] = str(folder)
    paths = (str(HERE / "counting"), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def replaying(folder: Path, words: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the worker's options for replaying the work's actions."""
    path = folder / "actions.npy"
    np.save(path, actions())
    return ("--actions", str(path), *words)


def main() -> int:
    episodes, envs, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    platform_python = sys.argv[4]
    let_children_find_artificial_programs()
    count_sent_bytes(folder / "sent")
    config = EvalConfig(
        backend="replay",
        platform="libero",
        suites=(SUITE,),
        tasks=(TASK,),
        episodes=episodes,
        seeds=(SEED,),
        max_steps=STEPS,
        video="none",
        envs=envs,
        launcher="process",
        python=sys.executable,
        platform_python=platform_python,
        output_dir=str(folder / "runs"),
        backend_arguments=replaying(folder, ("--seen", str(folder / "asked"))),
    )
    summary = run_evaluation(config, Telling(folder))
    sys.stderr.write(f"{summary.status}\n")
    return 0 if summary.status == "complete" else 1


if __name__ == "__main__":
    sys.exit(main())
