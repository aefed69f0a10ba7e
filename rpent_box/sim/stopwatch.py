# SPDX-License-Identifier: Apache-2.0
"""Where an episode's time goes."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rpent_box.client.model_client import WORKER_STAGES

STAGES = ("simulate", "render", "transport", *WORKER_STAGES, "other")


class Stopwatch:
    """Adds up the stages of one episode; `other` is what no stage accounts for."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stages = dict.fromkeys(STAGES, 0.0)

    def add_prediction(self, wall_s: float, timings_s: Mapping[str, float]) -> None:
        """Count one prediction that took `wall_s` here, `timings_s` as the worker measured."""
        inside = 0.0
        for stage in WORKER_STAGES:
            seconds = timings_s.get(stage, 0.0)
            self._stages[stage] += seconds
            inside += seconds
        self._stages["transport"] += max(0.0, wall_s - inside)

    def add_applied(self, simulate_s: float, render_s: float) -> None:
        """Count one run of actions."""
        self._stages["simulate"] += simulate_s
        self._stages["render"] += render_s

    def stop(self) -> tuple[float, dict[str, float]]:
        """Return the seconds since the start, and each stage's share of them."""
        wall_s = time.monotonic() - self._began
        accounted = sum(self._stages.values())
        self._stages["other"] = max(0.0, wall_s - accounted)
        return wall_s, dict(self._stages)
