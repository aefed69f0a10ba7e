# SPDX-License-Identifier: Apache-2.0
"""vla-eval's own LIBERO, seeded before each reset, as all lines here are.

Its own way is to seed once, when the environment is made: what an episode shows then depends on how
many were played before. Runs in vla-eval's environment.
"""

from __future__ import annotations

from typing import Any

from vla_eval.benchmarks.libero.benchmark import LIBEROBenchmark


class SeededLibero(LIBEROBenchmark):
    """Nothing else differs."""

    def reset(self, task: Any) -> Any:  # noqa: ANN401 - as its parent has it
        if self._env is not None:
            self._env.seed(self.env_seed)
        return super().reset(task)
