# SPDX-License-Identifier: Apache-2.0
"""`python ray_driver.py CONFIG`: an evaluation in a process of its own, which may be killed.

Says `episode N` for each result, and nothing else: what Ray would say must not come through.
"""

from __future__ import annotations

import sys

import msgspec

from rpent_box.evaluate.scale.config import EvalConfig
from rpent_box.evaluate.scale.evaluation import run_evaluation
from rpent_box.evaluate.scale.watcher import SilentEvalWatcher
from rpent_box.sim.results import EpisodeRow


class Teller(SilentEvalWatcher):
    def on_episode(self, row: EpisodeRow) -> None:
        sys.stdout.write(f"episode {row.episode}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run_evaluation(msgspec.json.decode(sys.argv[1], type=EvalConfig), Teller())
